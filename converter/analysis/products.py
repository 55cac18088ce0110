"""What the operators of an ONNX graph that multiply compute in, and what its constants take.

A quantized layer is a float operator between DequantizeLinear and QuantizeLinear: what runs it puts
integers in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

import onnx_ir

from converter.analysis.macs import node_macs
from converter.ir.contents import DYNAMIC, Product
from converter.ir.edit import all_nodes, is_op
from converter.ir.facts import INTEGER_PRODUCTS, RESHAPES
from converter.ir.inference import infer
from converter.ir.model import Model, dtype_name

_MOVES = RESHAPES | {"Identity", "Transpose"}  # what runtimes move a DequantizeLinear behind
_CLIPS = ("Relu", "Clip")
_STEPS = 8
"""Operators that hand numbers on, looked through for a DequantizeLinear."""

_INTEGER_OPS = INTEGER_PRODUCTS | {"QGemm"}
_WRITES_INTEGERS = ("Conv", "ConvTranspose")


def products(model: Model, sizes: Mapping[str, int], *, whole: bool = False) -> list[Product]:
    """The operators that multiply, with their multiply-adds.

    Args:
        model: The graph, as it was written.
        sizes: Of its free dimensions by name; 1 for those it lacks.
        whole: Whether a convolution is int8 only where its output is too: ONNX Runtime's kernels
            write integers.
    """
    counts = node_macs(model, sizes, bodies=True)
    inferred = cache(lambda: infer(model.graph))

    def computes(node: onnx_ir.Node) -> str:
        if node.op_type.startswith("DynamicQuantize"):
            return DYNAMIC
        if node.op_type in _INTEGER_OPS:
            maker = node.inputs[0].producer() if node.inputs[0] is not None else None
            return (
                DYNAMIC if maker is not None and is_op(maker, "DynamicQuantizeLinear") else "int8"
            )
        found = [stored_type(value) for value in node.inputs[:2]]
        if _all_eight(found) and not (whole and _writes_floats(node)):
            return "int8"
        if found[0] == "int16" and _all_eight(found[1:]):
            return "int16x8"
        output = node.outputs[0]
        dtype = output.dtype
        if dtype is None and output in inferred() and (known := inferred()[output].type):
            dtype = known.dtype
        return dtype_name(dtype)

    return [
        Product(node.name or "", node.op_type, computes(node), count)
        for node, count in counts.items()
    ]


def _all_eight(types: list[str]) -> bool:
    return len(types) > 0 and all(name in ("int8", "uint8") for name in types)


def stored_type(value: onnx_ir.Value | None) -> str:
    """The type that a value was dequantized from, moved at most since; empty where it wasn't."""
    for _ in range(_STEPS):
        node = value.producer() if value is not None else None
        if node is None or not node.inputs:
            return ""
        value = node.inputs[0]
        if is_op(node, "DequantizeLinear"):
            return dtype_name(value.dtype) if value is not None else ""
        if node.op_type not in _MOVES:
            return ""
    return ""


def _writes_floats(node: onnx_ir.Node) -> bool:
    """Whether a convolution has no QuantizeLinear behind it, nor behind its activation."""
    if node.op_type not in _WRITES_INTEGERS:
        return False
    users = [use.node for use in node.outputs[0].uses()]
    if len(users) == 1 and is_op(users[0], *_CLIPS):
        users = [use.node for use in users[0].outputs[0].uses()]
    return not any(is_op(user, "QuantizeLinear") for user in users)


def stored_bytes(model: Model) -> dict[str, int]:
    """Bytes of a graph's constants by type, in its bodies too."""
    sums: Counter[str] = Counter()
    for tensor in _constants(model):
        sums[dtype_name(tensor.dtype)] += tensor.nbytes
    return dict(sums)


def _constants(model: Model) -> Iterator[onnx_ir.TensorProtocol]:
    yield from (value.const_value for value in model.initializers() if value.const_value)
    for node in all_nodes(model.graph):
        if is_op(node, "Constant") and (value := node.attributes.get("value")) is not None:
            yield value.as_tensor()
