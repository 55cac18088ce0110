"""A model that rounds to integers of few bits, in exact arithmetic: what it would compute if it
didn't round.

    Given:   q = QuantizeLinear(x, s, z)        y = DequantizeLinear(q, s, z)
    Result:  q = x / s + z                      y = (q - z) * s           all of them float32

So are integers on the way between the two (a Pad with zero points, a Concat), and what multiplies
them. Constants that a DequantizeLinear unpacks stay integers, as do indices and sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.errors import ModelError
from converter.ir import edit
from converter.ir.definitions import schema_of
from converter.ir.edit import all_nodes, attribute_int, is_op, static_shape
from converter.ir.model import Model
from converter.passes.legalize import legalize
from converter.passes.legalize.integers import REWRITES

DataType = onnx_ir.DataType

ROUNDS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"})
"""Operators whose first output is integers that were rounded."""

_BODIES = (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS)
_SMALL = (DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16)


def rounds(node: onnx_ir.Node | None) -> bool:
    """Whether a node's first output is integers that were rounded."""
    return is_op(node, *ROUNDS)


def exact_form(model: Model) -> Model:
    """The model without rounding; names stay. The model stays as it is, weights are shared.

    Raises:
        ModelError: What was rounded is used as integers: as indices, bit by bit.
    """
    made = model.copy().graph
    plain = {name: way for name, way in REWRITES.items() if name.startswith("QLinear")}
    legalize(made, lambda node: not is_op(node, *plain), plain)
    left = next((node for node in all_nodes(made) if is_op(node, *plain)), None)
    if left is not None:
        raise _whole(left)
    _Exact(made).rewrite()
    return replace(model, graph=made)


class _Exact:
    """Rewrites a model in place.

    Attributes:
        real: Values that were integers, and are float32 now.
    """

    def __init__(self, model: onnx_ir.Model) -> None:
        self._model, self._opset = model, model.opset_imports.get("", 0)
        self.real: set[onnx_ir.Value] = set()
        self._body: onnx_ir.Graph | onnx_ir.Function = model.graph
        self._numbers: dict[float, onnx_ir.Value] = {}
        self._made = 0

    def rewrite(self) -> None:
        """Rewrites the main graph, its subgraphs and the functions.

        Raises:
            ModelError: What was rounded is used as integers.
        """
        bodies: list[onnx_ir.Graph | onnx_ir.Function] = [self._model.graph]
        for body in [*bodies, *self._model.functions.values()]:
            self._body = body
            self._rewrite_body()
        for value in self.real:
            if value.is_graph_output() and value.graph is not self._model.graph:
                raise _whole(value.producer())

    def _rewrite_body(self) -> None:
        for node in list(onnx_ir.traversal.RecursiveGraphIterator(self._body)):
            takes = any(value in self.real for value in node.inputs)
            if is_op(node, "QuantizeLinear", "DynamicQuantizeLinear") or (
                takes and is_op(node, *_FORMS)
            ):
                _FORMS[node.op_type](self, node)
            elif takes:
                self._carry(node)

    # -- operators -------------------------------------------------------------------------

    def quantize(self, node: onnx_ir.Node) -> None:
        """x / scale + zero_point"""
        x, scale, zero = self._operands(node)
        self._become(node, self._shifted("Add", self._op(node, "Div", x, scale), zero, node))

    def dequantize(self, node: onnx_ir.Node) -> None:
        """(x - zero_point) * scale, in the scale's type"""
        x, scale, zero = self._operands(node)
        given = node.inputs[1]
        made = self._op(node, "Mul", self._shifted("Sub", x, zero, node), scale)
        if given is not None and given.dtype not in (None, DataType.FLOAT):
            made = self._op(node, "Cast", made, to=int(given.dtype))
        self._become(node, made, whole=False)

    def quantize_dynamically(self, node: onnx_ir.Node) -> None:
        """x / scale + zero_point, both as they are found"""
        x, (whole, scale, zero) = node.inputs[0], node.outputs
        assert x is not None and node.graph is not None
        point = self._op(node, "Cast", zero, to=int(DataType.FLOAT))
        ratio = self._op(node, "Div", x, scale)
        made = self._op(node, "Add", ratio, point)
        after = [made.producer(), ratio.producer(), point.producer()]
        for new in after:
            assert new is not None
            node.graph.remove(new)
            node.graph.insert_after(node, new)
        whole.replace_all_uses_with(made, replace_graph_outputs=True)
        whole.name, made.name = f"{whole.name}/whole", whole.name
        made.shape = whole.shape
        self.real.add(made)

    def multiply(self, node: onnx_ir.Node) -> None:
        """MatMulInteger: the product of what each is beside its zero point."""
        sides = []
        for index in (0, 1):
            side = self._float(node, node.inputs[index])
            zero = node.inputs[index + 2] if len(node.inputs) > index + 2 else None
            if zero is not None and _size(zero) != 1:
                raise _whole(node)
            sides.append(self._shifted("Sub", side, self._point(node, zero, None), node))
        self._become(node, self._op(node, "MatMul", *sides))

    def cast(self, node: onnx_ir.Node) -> None:
        """What becomes other integers is no longer cut to whole ones; what becomes floats is."""
        kind = DataType(attribute_int(node, "to", 0) or 0)
        if kind.is_integer():
            source = node.inputs[0]
            assert source is not None
            self._become(node, self._op(node, "Identity", source))

    def _carry(self, node: onnx_ir.Node) -> None:
        """Has an operator that takes floats in an integer's place take them, beside others."""
        kinds, gives = self._kinds(node)
        for index, value in enumerate(node.inputs):
            if value is not None and index in kinds:
                node.replace_input_with(index, self._float(node, value))
        for index in gives:
            node.outputs[index].type = onnx_ir.TensorType(DataType.FLOAT)
            self.real.add(node.outputs[index])

    def _kinds(self, node: onnx_ir.Node) -> tuple[set[int], set[int]]:
        """The places of a node's inputs and outputs that are of one type with what was rounded."""
        inputs, outputs = range(len(node.inputs)), range(len(node.outputs))
        whole = [i for i in inputs if node.inputs[i] in self.real]
        if node.domain not in ("", "ai.onnx"):  # a function of the model's, of any type
            small = {i for i in inputs if (v := node.inputs[i]) is not None and v.dtype in _SMALL}
            return {*small, *whole}, {i for i in outputs if node.outputs[i].dtype in _SMALL}
        schema = schema_of(node.op_type, self._opset)
        if schema is None or any(a.type in _BODIES for a in node.attributes.values()):
            raise _whole(node)
        takes = [_type_of(schema.inputs, i) for i in inputs]
        letters = {takes[i] for i in whole}
        floats = {
            each.type_param_str
            for each in schema.type_constraints
            if "tensor(float)" in each.allowed_type_strs
        }
        if not letters <= floats:
            raise _whole(node)
        gives = {i for i in outputs if _type_of(schema.outputs, i) in letters}
        return {i for i in inputs if takes[i] in letters}, gives

    # -- parts -----------------------------------------------------------------------------

    def _operands(
        self, node: onnx_ir.Node
    ) -> tuple[onnx_ir.Value, onnx_ir.Value, onnx_ir.Value | None]:
        """The data, scale and zero point of a Q or DQ, in float32, which go together."""
        x, scale = node.inputs[:2]
        zero = node.inputs[2] if len(node.inputs) > 2 else None
        assert x is not None and scale is not None
        sizes, rank = static_shape(scale), static_shape(x)
        if sizes is None or len(sizes) > 1 or attribute_int(node, "block_size", 0):
            raise ModelError(
                f"the scales of {node.name} aren't one for each index of an axis", code="model"
            )
        shape: list[int] | None = None
        if sizes == [1]:
            shape = []
        elif sizes:
            if rank is None:
                raise ModelError(
                    f"{node.name} has a scale for each index, and an unknown rank", code="model"
                )
            axis = (attribute_int(node, "axis", 1) or 0) % len(rank)
            shape = [-1 if place == axis else 1 for place in range(len(rank))]
        steps = self._shaped(node, self._float(node, scale), shape)
        return self._float(node, x), steps, self._point(node, zero, shape)

    def _point(
        self, node: onnx_ir.Node, zero: onnx_ir.Value | None, shape: list[int] | None
    ) -> onnx_ir.Value | None:
        """A zero point, float32; None where it is 0."""
        known = edit.constant(zero)
        if zero is None or (known is not None and not np.any(known)):
            return None
        if known is not None and known.size == 1 and self._body is self._model.graph:
            return self._number(float(known.item()))
        return self._shaped(node, self._float(node, zero), shape)

    def _number(self, number: float) -> onnx_ir.Value:
        """A constant of the main graph, there once: what opening a session takes grows with nodes
        faster than they do."""
        if number not in self._numbers:
            name = f"exact/number {number:g}"
            made = edit.add_constant(self._model.graph, name, np.asarray(number, np.float32))
            self._numbers[number] = made
        return self._numbers[number]

    def _shaped(
        self, node: onnx_ir.Node, value: onnx_ir.Value, shape: list[int] | None
    ) -> onnx_ir.Value:
        if shape is None:
            return value
        sizes = onnx_ir.tensor(np.asarray(shape, np.int64))
        constant = self._op(node, "Constant", value=sizes)
        constant.type = onnx_ir.TensorType(DataType.INT64)
        return self._op(node, "Reshape", value, constant)

    def _shifted(
        self, op: str, value: onnx_ir.Value, by: onnx_ir.Value | None, node: onnx_ir.Node
    ) -> onnx_ir.Value:
        return value if by is None else self._op(node, op, value, by)

    def _float(self, node: onnx_ir.Node, value: onnx_ir.Value | None) -> onnx_ir.Value:
        """A value in float32, before a node."""
        assert value is not None
        if value in self.real or value.dtype == DataType.FLOAT:
            return value
        return self._op(node, "Cast", value, to=int(DataType.FLOAT))

    def _op(
        self, before: onnx_ir.Node, op: str, *inputs: onnx_ir.Value, **attributes: Any
    ) -> onnx_ir.Value:
        """The output of a new node, float32 unless somebody says otherwise."""
        self._made += 1
        name = f"exact/{self._made}/{op}"
        node = onnx_ir.node(op, list(inputs), attributes, name=name)
        node.outputs[0].name, node.outputs[0].type = name, onnx_ir.TensorType(DataType.FLOAT)
        assert before.graph is not None
        before.graph.insert_before(before, node)
        return node.outputs[0]

    def _become(self, node: onnx_ir.Node, value: onnx_ir.Value, *, whole: bool = True) -> None:
        """Puts a value that was made before a node in its place."""
        made, old, graph = value.producer(), node.outputs[0], node.graph
        assert made is not None and graph is not None
        kind = onnx_ir.TensorType(DataType.FLOAT) if whole else old.type
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        name, value.shape, value.type = old.name, old.shape, kind
        graph.remove(node, safe=True)
        old.name = None
        value.name = name
        if whole:
            self.real.add(value)


_FORMS: Mapping[str, Callable[[_Exact, onnx_ir.Node], None]] = {
    "QuantizeLinear": _Exact.quantize,
    "DequantizeLinear": _Exact.dequantize,
    "DynamicQuantizeLinear": _Exact.quantize_dynamically,
    "MatMulInteger": _Exact.multiply,
    "Cast": _Exact.cast,
}


def _type_of(formals: Any, index: int) -> str:
    """The type that an operator's schema has for an input or output; the last may be for many."""
    formal: onnx.defs.OpSchema.FormalParameter = formals[min(index, len(formals) - 1)]
    return formal.type_str


def _size(value: onnx_ir.Value) -> int | None:
    shape = static_shape(value)
    known = [size for size in shape or () if isinstance(size, int)]
    return None if shape is None or len(known) < len(shape) else int(np.prod(known, dtype=np.int64))


def _whole(node: onnx_ir.Node | None) -> ModelError:
    what = f"{node.name} ({node.op_type})" if node is not None else "a body"
    return ModelError(f"{what} takes integers that were rounded as they are", code="model")
