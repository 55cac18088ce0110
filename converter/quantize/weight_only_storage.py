"""Precisions that store weights alone in fewer bits: int8-weights, int4-weights, palettized.

Everything is computed in float32, and nothing is measured beforehand: what changes is what the
file takes. The forms are :mod:`.weight_forms`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.errors import ModelError
from converter.graph.edit import attribute_int, constant_tensor, is_op
from converter.graph.macs import macs_by_node
from converter.ir import Model
from converter.quantize.lowered import Kept, Lowered
from converter.quantize.placement import require_nodes
from converter.quantize.weight_forms import (
    Array,
    Form,
    as_int4,
    as_int8,
    as_palette,
    block_of,
)

SMALLEST = 1024
"""Elements from which a weight is stored in fewer bits: less isn't worth what it loses."""

_INPUT = {"Conv": 1, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1, "Gather": 0}
"""Which input is the weight."""


@dataclass(frozen=True)
class _Weight:
    """A node's weight: which input, and its axes of output and input channels."""

    index: int
    value: onnx_ir.Value
    out: int
    into: int


class WeightStorage:
    """Stores the weights of one model, again and again.

    Args:
        model: At the pipeline's opset, every node named; not changed.
        precision: ``int8-weights``, ``int4-weights`` or ``palettized``.
        bits: Of palettized places.
        grouped: Whether palettized weights may have a table for each group of output channels.
        sizes: Of free dimensions, for counting multiply-adds; 1 for those it lacks.

    Raises:
        ModelError: It has no weight that is large enough.
    """

    def __init__(
        self,
        model: Model,
        precision: str,
        *,
        bits: int = 6,
        grouped: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self._model, self._precision = model, precision
        self._bits, self._grouped = bits, grouped
        self._forms: dict[tuple[str, int], Form] = {}
        self._macs = macs_by_node(model, dict.fromkeys(model.symbols, 1) | dict(sizes or {}))
        if not any(weight_of(node) for node in model.nodes()):
            raise ModelError(
                f"{precision} stores weights of {', '.join(_INPUT)} in fewer bits, and the model "
                f"has none of {SMALLEST} elements or more",
                hint="Use --precision fp16.",
            )

    def lower(self, keep: Collection[str] = ()) -> Lowered:
        """The model with its weights in fewer bits, but for those of the nodes in ``keep``.

        Raises:
            UsageError: ``keep`` names a node that isn't there.
        """
        require_nodes(self._model, keep)
        made = self._model.copy()
        stored: dict[tuple[str, int, int], onnx_ir.Value] = {}
        lowered, kept, wide = [], [], 0
        for node in list(made.nodes()):
            weight = weight_of(node)
            if weight is None:
                continue
            name = node.name or ""
            if name in keep:
                kept.append(Kept(name, node.op_type, "asked for", self._macs.get(name, 0)))
                continue
            form = self._form(weight)
            wide += self._precision == "int4-weights" and form.kind == "int8"
            _store(node, weight, form, stored)
            lowered.append(name)
        return Lowered(
            made,
            self._precision,
            kept=kept,
            lowered=lowered,
            macs=sum(self._macs.values()),
            macs_lowered=sum(self._macs.get(name, 0) for name in lowered),
            decisions=self._told(wide),
        )

    def _form(self, weight: _Weight) -> Form:
        key = (weight.value.name or "", weight.out)
        if key not in self._forms:
            tensor = constant_tensor(weight.value)
            assert tensor is not None
            self._forms[key] = self._made(np.asarray(tensor.numpy()), weight)
        return self._forms[key]

    def _made(self, array: Array, weight: _Weight) -> Form:
        if self._precision == "palettized":
            return as_palette(array, weight.out, self._bits, grouped=self._grouped)
        if self._precision == "int4-weights" and block_of(array.shape[weight.into]):
            return as_int4(array, weight.out, weight.into)
        return as_int8(array, weight.out)

    def _told(self, wide: int) -> list[str]:
        if self._precision == "palettized":
            tables = "a table for each group of channels" if self._grouped else "one table each"
            return [f"weights are {self._bits} bits wide, with {tables}"]
        if wide:
            return [f"{wide} weights are int8: no 8 to 32 divide their input channels"]
        return []


def weight_of(node: onnx_ir.Node) -> _Weight | None:
    """A node's constant float32 weight that is worth storing in fewer bits."""
    index = _INPUT.get(node.op_type, 0) if is_op(node, *_INPUT) else None
    value = node.inputs[index] if index is not None and len(node.inputs) > index else None
    tensor = constant_tensor(value)
    if index is None or value is None or tensor is None:
        return None
    rank = len(tensor.shape)
    if tensor.dtype != onnx_ir.DataType.FLOAT or tensor.size < SMALLEST or rank < 2:
        return None
    if node.op_type == "Gather":
        plain = rank == 2 and not attribute_int(node, "axis", 0)
        return _Weight(index, value, 0, 1) if plain else None
    if node.op_type == "Conv" or (node.op_type == "Gemm" and attribute_int(node, "transB", 0)):
        return _Weight(index, value, 0, 1)
    if node.op_type == "MatMul":
        return _Weight(index, value, rank - 1, rank - 2)
    return _Weight(index, value, 1, 0)


def _store(
    node: onnx_ir.Node,
    weight: _Weight,
    form: Form,
    stored: dict[tuple[str, int, int], onnx_ir.Value],
) -> None:
    """Has a node take its weight from a form's operators, which all that share it take."""
    graph, value = node.graph, weight.value
    assert isinstance(graph, onnx_ir.Graph)
    key = (value.name or "", weight.out, id(graph))
    if key not in stored:
        stored[key] = _Writer(graph, node, value).write(form)
    node.replace_input_with(weight.index, stored[key])
    name = value.name or ""
    if name in graph.initializers and not value.uses() and not value.is_graph_output():
        del graph.initializers[name]


class _Writer:
    """Writes a form's operators before a node."""

    def __init__(self, graph: onnx_ir.Graph, node: onnx_ir.Node, value: onnx_ir.Value) -> None:
        self._graph, self._node, self._value = graph, node, value

    def write(self, form: Form) -> onnx_ir.Value:
        """The weight in float32 again."""
        parts = [self._constant(f"{form.kind}", form.stored), self._constant("table", form.table)]
        if form.kind == "palette":
            cast = self._op("Cast", parts[:1], form.stored.shape, to=int(onnx_ir.DataType.INT32))
            cast.type = onnx_ir.TensorType(onnx_ir.DataType.INT32)
            made = self._op("GatherElements", [parts[1], cast], form.stored.shape, axis=1)
        else:
            made = self._op("DequantizeLinear", parts, form.stored.shape, axis=form.axis)
        if form.shape:
            shape = self._constant("shape", np.asarray(form.shape, np.int64))
            made = self._op("Reshape", [made, shape], form.shape)
        if form.perm:
            whole = [form.shape[axis] for axis in form.perm]
            made = self._op("Transpose", [made], whole, perm=form.perm)
        return made

    def _constant(self, part: str, array: Array) -> onnx_ir.Value:
        name = f"{self._value.name}_{part}"
        tensor = onnx_ir.Tensor(np.ascontiguousarray(array), name=name)
        value = onnx_ir.Value(
            name=name,
            shape=onnx_ir.Shape(array.shape),
            type=onnx_ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self._graph.register_initializer(value)
        return value

    def _op(
        self,
        kind: str,
        inputs: list[onnx_ir.Value],
        shape: Sequence[int],
        **attributes: int | Sequence[int],
    ) -> onnx_ir.Value:
        new = onnx_ir.node(kind, inputs, attributes, name=f"{self._value.name}_{kind}")
        output = new.outputs[0]
        output.name = f"{self._value.name}_{kind}_output"
        output.type, output.shape = self._value.type, onnx_ir.Shape(shape)
        self._graph.insert_before(self._node, new)
        return output
