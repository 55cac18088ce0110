"""Weights of 8 bits in ONNX Runtime, whose sums of products saturate on some CPUs: there they are
stored without a sign."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.machine import INT8_DOT, describe_machine

Array = np.ndarray[Any, Any]

UNSIGNED = {
    "DequantizeLinear": (0, 2), "QLinearConv": (3, 5), "QLinearMatMul": (3, 5),
    "MatMulInteger": (1, 3), "ConvInteger": (1, 3),
}  # fmt: skip
"""Operators that take weights of 8 bits: which input these are, and which their zero points."""


def of_8_bits(model: onnx_ir.Model) -> dict[str, Array]:
    """Initializers that are weights of int8, or may be scales or zero points, by name."""
    return {
        name: tensor.numpy()
        for graph in model.graphs()
        for name, value in graph.initializers.items()
        if (tensor := value.const_value) is not None
        and (tensor.dtype == onnx_ir.DataType.INT8 or tensor.size < 1 << 16)
    }


@cache
def saturates() -> bool:
    """Whether ONNX Runtime's sums of products of uint8 and int8 saturate on this CPU."""
    flags = describe_machine().flags
    return "avx2" in flags and set(flags).isdisjoint(INT8_DOT)


def to_unsigned(graph: onnx.GraphProto, weights: Mapping[str, Array]) -> None:
    """Stores int8 weights as uint8, in place, 128 more with zero points 128 more: the same numbers,
    by kernels whose sums are whole. (``session.x64quantprecision`` has ONNX Runtime do it, which
    fails on weights of several nodes, and on those without zero points; seen in 1.31.)

    Args:
        graph: Its nodes, and those of bodies in them.
        weights: The initializers that are seen there, those of int8 alone, and all scales.
    """
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                to_unsigned(attribute.g, weights)
        at, zero_at = UNSIGNED.get(node.op_type, (0, 0))
        stored = weights.get(node.input[at]) if zero_at else None
        if stored is None or stored.dtype != np.int8:
            continue
        node.input.extend([""] * (zero_at + 1 - len(node.input)))
        like = node.input[zero_at] or (node.input[1] if at == 0 else "")
        zeros = weights.get(like) if like else np.zeros((), np.int8)
        if zeros is None:
            continue
        zeros = zeros if node.input[zero_at] else np.zeros_like(zeros, np.int8)
        for place, array in ((at, stored), (zero_at, zeros)):
            name = f"{node.name or node.output[0]}/unsigned {place}"
            raised = (array.astype(np.int16) + 128).astype(np.uint8)
            graph.initializer.append(onnx.numpy_helper.from_array(raised, name))
            node.input[place] = name


_WIDE = 64
"""Weights of int8 within it don't saturate: 2 * 255 * 64 is below 2**15."""


def holds_wide_products(model: onnx_ir.Model) -> bool:
    """Whether a model multiplies 8-bit numbers by weights of more than 7 bits."""
    for graph in model.graphs():
        for node in graph:
            at = UNSIGNED.get(node.op_type, (0, 0))[0]
            stored = node.inputs[at] if at else None
            if node.op_type in ("Conv", "MatMul", "Gemm") and _dequantized(node.inputs[0]):
                stored = _dequantized(node.inputs[1])
            tensor = stored.const_value if stored is not None else None
            if tensor is None or tensor.dtype != onnx_ir.DataType.INT8:
                continue
            if np.abs(tensor.numpy().astype(np.int16)).max(initial=0) > _WIDE:
                return True
    return False


def _dequantized(value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    """What a value is dequantized from."""
    node = value.producer() if value is not None else None
    return node.inputs[0] if node is not None and node.op_type == "DequantizeLinear" else None
