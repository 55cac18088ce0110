"""int8-dynamic: int8 weights, activations quantized anew at each run.

    Given     y = MatMul(x, W)
    Result    x8, s, z = DynamicQuantizeLinear(x)
              y = Cast(MatMulInteger(x8, W8, z)) * (s * scales)

    Given     y = Gemm(x, W, b)                     its transB and alpha go into W8
    Result    the same, and + b

    Given     LSTM(x, W, R, ...)
    Result    com.microsoft.DynamicQuantizeLSTM(x, W8, R8, ..., scales)

A weight has a scale for each output channel, and is stored once, however many nodes take it. These
are the operators that ONNX Runtime fuses or has kernels for; of GRU it has none. Nothing is
measured beforehand, so it needs no samples.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx_ir

from converter.analysis.macs import macs_by_node
from converter.errors import ModelError
from converter.ir.edit import add_constant, attribute_int, constant, constant_tensor, is_op, replace
from converter.ir.model import Model
from converter.precision.int8.placement import require_nodes
from converter.precision.int8.weights import store_weight, weight_scales
from converter.precision.quantized import Kept, Quantized

Array = np.ndarray[Any, Any]

PRODUCTS = ("MatMul", "Gemm")
"""Convolutions aren't among them: ConvInteger is slower than Conv in float32."""

OPS = (*PRODUCTS, "LSTM", "GRU")
_CONTRIB = "com.microsoft"


def quantize_dynamically(
    model: Model, keep: Collection[str] = (), sizes: Mapping[str, int] | None = None
) -> Quantized:
    """The model with its matrix products in integers.

    Args:
        model: At the pipeline's opset, every node named; not changed.
        keep: Names of nodes to leave in float32.
        sizes: Of free dimensions, for counting multiply-adds; 1 for those it lacks.

    Raises:
        ModelError: It has no matrix product, and no recurrent layer, with a constant weight.
        UsageError: ``keep`` names a node that isn't there.
    """
    require_nodes(model, keep)
    made = model.copy()
    wanted = [node for node in made.nodes() if is_op(node, *OPS) and _has_weight(node)]
    if not wanted:
        raise ModelError(
            "int8-dynamic quantizes matrix products with constant weights, and the model has none",
            code="precision-unavailable",
            hint="Use --precision int8.",
        )
    macs = macs_by_node(model, dict.fromkeys(model.symbols, 1) | dict(sizes or {}))
    quantizer, kept, lowered = _Quantizer(made), [], []
    for node in wanted:
        name = node.name or ""
        if reason := "asked for" if name in keep else _why_not(node):
            kept.append(Kept(name, node.op_type, reason, macs.get(name, 0)))
        else:
            quantizer.quantize(node)
            lowered.append(name)
    quantizer.drop_unused()
    return Quantized(
        made,
        "int8-dynamic",
        kept=kept,
        lowered=lowered,
        macs=sum(macs.values()),
        macs_lowered=sum(macs.get(name, 0) for name in lowered),
    )


def _has_weight(node: onnx_ir.Node) -> bool:
    weight = constant_tensor(node.inputs[1])
    return weight is not None and weight.dtype == onnx_ir.DataType.FLOAT


def _why_not(node: onnx_ir.Node) -> str:
    """Why a node stays in float32; empty where it doesn't."""
    weight = constant_tensor(node.inputs[1])
    assert weight is not None
    if is_op(node, "GRU"):
        return "ONNX Runtime has no GRU with int8 weights"
    if is_op(node, "LSTM"):
        state = constant_tensor(node.inputs[2])
        if state is None or attribute_int(node, "layout", 0):
            return "its recurrent weight isn't constant, or its batch comes first"
        return ""
    if len(weight.shape) < 2:
        return "its weight is a vector"
    if is_op(node, "Gemm") and attribute_int(node, "transA", 0):
        return "its first factor is transposed"
    if is_op(node, "Gemm") and _factor(node, "beta") != 1 and constant(_bias(node)) is None:
        return "its bias is scaled as it runs"
    return ""


def _factor(node: onnx_ir.Node, name: str) -> float:
    return float(node.attributes.get_float(name, 1.0) or 0.0)


def _bias(node: onnx_ir.Node) -> onnx_ir.Value | None:
    return node.inputs[2] if len(node.inputs) > 2 else None


class _Quantizer:
    """Puts integers in the place of nodes, each activation and each weight quantized once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._weights: dict[object, tuple[onnx_ir.Value, onnx_ir.Value]] = {}
        self._activations: dict[tuple[object, object], list[onnx_ir.Value]] = {}
        self._before: list[onnx_ir.Value] = []
        self._count = 0

    def quantize(self, node: onnx_ir.Node) -> None:
        """One of :data:`OPS` that nothing keeps in float32."""
        self._before += [value for value in node.inputs[1:] if value is not None]
        if is_op(node, "LSTM"):
            self._recurrent(node)
        else:
            self._product(node)

    def drop_unused(self) -> None:
        """Removes the float32 weights that nothing takes any more."""
        for value in dict.fromkeys(self._before):
            graph, used = value.graph, bool(value.uses()) or value.is_graph_output()
            if graph is not None and value.is_initializer() and value.name and not used:
                del graph.initializers[value.name]

    def _product(self, node: onnx_ir.Node) -> None:
        first = node.inputs[0]
        assert first is not None
        flipped = bool(attribute_int(node, "transB", 0)) and is_op(node, "Gemm")
        alpha = _factor(node, "alpha") if is_op(node, "Gemm") else 1.0
        weight, scales = self._weight(node, 1, flipped=flipped, factor=alpha)
        rounded, step, zero = self._activation(node, first)
        found = self._add(node, "MatMulInteger", [rounded, weight, zero])
        steps = self._add(node, "Mul", [step, scales])
        floats = self._add(node, "Cast", [found], to=int(onnx_ir.DataType.FLOAT))
        if (bias := self._scaled_bias(node)) is None:
            replace(node, onnx_ir.node("Mul", [floats, steps]))
        else:
            replace(node, onnx_ir.node("Add", [self._add(node, "Mul", [floats, steps]), bias]))

    def _scaled_bias(self, node: onnx_ir.Node) -> onnx_ir.Value | None:
        bias = _bias(node) if is_op(node, "Gemm") else None
        if bias is None or _factor(node, "beta") == 1:
            return bias
        known = constant(bias)
        assert known is not None
        scaled = np.multiply(known, _factor(node, "beta"), dtype=np.float32)
        return add_constant(self._model.graph.graph, f"{node.name}_bias_scaled", scaled)

    def _recurrent(self, node: onnx_ir.Node) -> None:
        self._model.graph.opset_imports.setdefault(_CONTRIB, 1)
        weights = [self._weight(node, place, flipped=True) for place in (1, 2)]
        inputs = [*node.inputs, *[None] * (8 - len(node.inputs))]
        for place, (stored, scales) in zip((1, 2), weights, strict=True):
            zeros = np.zeros(scales.shape.numpy() if scales.shape else (), np.int8)
            name = f"{node.name}_zeros_{place}"
            inputs[place] = stored
            inputs += [scales, add_constant(self._model.graph.graph, name, zeros)]
        made = onnx_ir.node(
            "DynamicQuantizeLSTM", inputs, domain=_CONTRIB, num_outputs=len(node.outputs),
            name=node.name,
        )  # fmt: skip
        made.attributes.update(
            (name, value) for name, value in node.attributes.items() if name != "layout"
        )
        for old, new in zip(node.outputs, made.outputs, strict=True):
            new.type, new.shape = old.type, old.shape
        assert node.graph is not None
        onnx_ir.convenience.replace_nodes_and_values(
            node.graph, node, [node], [made], node.outputs, made.outputs
        )

    def _weight(
        self, node: onnx_ir.Node, place: int, *, flipped: bool, factor: float = 1.0
    ) -> tuple[onnx_ir.Value, onnx_ir.Value]:
        """A weight as int8 and the scales of its last axis; its last two axes change places where
        it is ``flipped``. A recurrent one has scales for each direction."""
        value = node.inputs[place]
        key = (value, flipped, factor)
        if key not in self._weights:
            stored = constant_tensor(value)
            assert stored is not None
            weight = np.asarray(stored.numpy())
            weight = np.swapaxes(weight, -1, -2) if flipped else weight
            weight = weight if factor == 1 else weight * np.float32(factor)
            directions = [*weight] if is_op(node, "LSTM") else [weight]
            scales = [weight_scales(item, item.ndim - 1) for item in directions]
            parts = [
                store_weight(item, scale, item.ndim - 1)
                for item, scale in zip(directions, scales, strict=True)
            ]
            many = is_op(node, "LSTM")
            found = {
                "int8": np.stack(parts) if many else parts[0],
                "scales": np.stack(scales) if many else scales[0],
            }
            graph = self._model.graph.graph
            names = {kind: f"{node.name}_weight_{place}_{kind}" for kind in found}
            made = [add_constant(graph, names[kind], item) for kind, item in found.items()]
            self._weights[key] = made[0], made[1]
        return self._weights[key]

    def _activation(self, node: onnx_ir.Node, value: onnx_ir.Value) -> list[onnx_ir.Value]:
        """A tensor as uint8, its scale and its zero point."""
        key = (value, node.graph)
        if key not in self._activations:
            made = onnx_ir.node(
                "DynamicQuantizeLinear", [value], num_outputs=3, name=f"{node.name}_rounded"
            )
            for output, kind in zip(made.outputs, ("uint8", "scale", "zero"), strict=True):
                output.name = f"{node.name}_input_{kind}"
            assert node.graph is not None
            node.graph.insert_before(node, made)
            self._activations[key] = list(made.outputs)
        return self._activations[key]

    def _add(
        self, node: onnx_ir.Node, op: str, inputs: list[onnx_ir.Value], **attributes: Any
    ) -> onnx_ir.Value:
        self._count += 1
        made = onnx_ir.node(op, inputs, attributes, name=f"{node.name}_{op}_{self._count}")
        made.outputs[0].name = f"{made.name}_output"
        assert node.graph is not None
        node.graph.insert_before(node, made)
        return made.outputs[0]
