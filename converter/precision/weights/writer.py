"""A form of a weight written into a graph, as the operators of :mod:`.weight_forms`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant
from converter.precision.weights.forms import Array, Form
from converter.precision.weights.places import Weight


class Writer:
    """Writes forms into one model, each once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int, str, int], onnx_ir.Value] = {}

    def store(self, node: onnx_ir.Node, weight: Weight, form: Form) -> None:
        """Has a node take its weight from a form's operators, which all that share it take.

        Args:
            node: The node, which is changed.
            weight: Which input of it the weight is. The initializer goes when nothing else uses it.
            form: What is stored in its place.
        """
        graph, value = node.graph, weight.value
        assert isinstance(graph, onnx_ir.Graph)
        key = (value.name or "", weight.out, form.kind, id(graph))
        if key not in self._made:
            again = sum(known[0] == key[0] for known in self._made)
            chain = _Chain(node, value, key[0] + "_" * again)
            self._made[key] = chain.write(form)
        node.replace_input_with(weight.index, self._made[key])
        name = value.name or ""
        if name in graph.initializers and not value.uses() and not value.is_graph_output():
            del graph.initializers[name]


class _Chain:
    """A form's operators before a node, called by ``base``."""

    def __init__(self, node: onnx_ir.Node, value: onnx_ir.Value, base: str) -> None:
        assert isinstance(node.graph, onnx_ir.Graph)
        self._graph, self._node, self._value, self._base = node.graph, node, value, base

    def write(self, form: Form) -> onnx_ir.Value:
        """The weight in its own type again."""
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
        return add_constant(self._graph, f"{self._base}_{part}", array)

    def _op(
        self,
        kind: str,
        inputs: list[onnx_ir.Value],
        shape: Sequence[int],
        **attributes: int | Sequence[int],
    ) -> onnx_ir.Value:
        new = onnx_ir.node(kind, inputs, attributes, name=f"{self._base}_{kind}")
        output = new.outputs[0]
        output.name = f"{self._base}_{kind}_output"
        output.type, output.shape = self._value.type, onnx_ir.Shape(shape)
        self._graph.insert_before(self._node, new)
        return output
