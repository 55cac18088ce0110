"""Writes new ONNX nodes in the place of one, each with the type and shape that ONNX infers.

A size of an axis is an ``int`` where it is known, else :class:`Free`, which is computed in the
graph only where it is asked for. What is made of sizes stays a number wherever it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.ir import operands
from converter.ir.edit import add_constant, constant_tensor, is_used

Array = np.ndarray[Any, Any]
Value = onnx_ir.Value
DataType = onnx_ir.DataType


class Free:
    """A size that is known when the model runs.

    Args:
        name: The dimension's; ``a*b`` of a product. None where nothing names it.
        make: Computes it: int64 [1].
    """

    def __init__(self, name: str | None, make: Callable[[], Value]) -> None:
        self.name = name
        self._make = make

    @cached_property
    def value(self) -> Value:
        """Computed: int64 [1]."""
        return self._make()


Size = int | Free
Operand = Value | Array | None


class Builder:
    """New nodes before one.

    Args:
        node: What they take the place of.
        opset: The model's.
    """

    def __init__(self, node: onnx_ir.Node, opset: int) -> None:
        graph = node.graph
        assert isinstance(graph, onnx_ir.Graph)
        self.node = node
        self.graph = graph
        self.opset = opset
        self._count = 0
        self._made: list[onnx_ir.Node] = []
        self._constants: list[Value] = []

    def op(self, op_type: str, *operands: Operand, **attributes: Any) -> Value:
        """A node of one output. Arrays become initializers; see :meth:`ops`."""
        return self.ops(op_type, 1, *operands, **attributes)[0]

    def ops(
        self, op_type: str, outputs: int, *operands: Operand, **attributes: Any
    ) -> Sequence[Value]:
        """The outputs of a node of the standard domain.

        Raises:
            onnx.shape_inference.InferenceError: The operands aren't what it takes: a bug of ours.
        """
        inputs = [self.value(item) for item in operands]
        new = onnx_ir.node(op_type, inputs, attributes, num_outputs=outputs, name=self._name())
        for place, output in enumerate(new.outputs):
            output.name = new.name if not place else f"{new.name}_{place}"
        self._infer(new)
        return self.add(new)

    def add(self, new: onnx_ir.Node) -> Sequence[Value]:
        """The outputs of a node that is put in front, with the types and shapes that it has."""
        self.graph.insert_before(self.node, new)
        self._made.append(new)
        return new.outputs

    def put(self, made: Sequence[Value | None]) -> list[onnx_ir.Node]:
        """As :meth:`give`; the node goes.

        Returns:
            The new nodes.
        """
        self.give(made)
        self.graph.remove(self.node, safe=True)
        return self._made

    def give(self, made: Sequence[Value | None]) -> None:
        """Has values take over the node's first outputs, their names and uses. One for an output
        that nothing uses may be left out."""
        for place, (old, value) in enumerate(zip(self.node.outputs, made, strict=False)):
            if value is None or not is_used(self.node, place):
                continue
            if value.producer() not in self._made or value.is_graph_output():
                value = self.op("Identity", value)
            name, value.type = old.name, old.type or value.type
            if old.shape is not None and (value.shape is None or _named(old.shape)):
                value.shape = old.shape
            old.replace_all_uses_with(value, replace_graph_outputs=True)
            old.name, value.name = None, name

    def discard(self) -> None:
        """Takes back what was made."""
        for new in reversed(self._made):
            self.graph.remove(new, safe=True)
        for value in self._constants:
            self.graph.initializers.pop(str(value.name))

    def value(self, operand: Operand) -> Value | None:
        """An operand as a value; an array as an initializer."""
        if isinstance(operand, np.ndarray | np.generic):
            self._constants.append(add_constant(self.graph, self._name(), np.asarray(operand)))
            return self._constants[-1]
        return operand

    def _name(self) -> str:
        self._count += 1
        return f"{self.node.name or self.node.op_type}/{self._count}"

    def _infer(self, new: onnx_ir.Node) -> None:
        """Types and shapes of a node's outputs, by ONNX's own inference."""
        proto = onnx_ir.to_proto(new)
        given = [value for value in new.inputs if value is not None]
        types = {str(value.name): onnx_ir.to_proto(value).type for value in given}
        data = {
            str(value.name): onnx_ir.to_proto(tensor)
            for value in given
            if (tensor := constant_tensor(value)) is not None and tensor.size <= _INTERESTING
        }
        schema = onnx.defs.get_schema(new.op_type, self.opset)
        found = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=[onnx.helper.make_opsetid("", self.opset)]
        )
        for output in new.outputs:
            kind = found[str(output.name)]
            output.type = onnx_ir.serde.deserialize_type_proto_for_type(kind)
            output.shape = onnx_ir.serde.deserialize_type_proto_for_shape(kind)

    # -- sizes -----------------------------------------------------------------------

    def size(self, x: Value, axis: int) -> Size:
        """The size of an axis; negative ones count from the last."""
        assert x.shape is not None
        dim, place = x.shape[axis], axis % len(x.shape)
        if isinstance(dim, int):
            return dim
        return Free(dim.value, lambda: self.op("Shape", x, start=place, end=place + 1))

    def sizes(self, x: Value) -> list[Size]:
        """The sizes of all axes."""
        return [self.size(x, axis) for axis in range(rank(x))]

    def product(self, sizes: Sequence[Size]) -> Size:
        """Sizes multiplied; 1 where there are none."""
        known = int(np.prod([item for item in sizes if isinstance(item, int)], dtype=np.int64))
        free = [item for item in sizes if isinstance(item, Free)]
        if not free:
            return known
        if known == 1 and len(free) == 1:
            return free[0]
        names = [item.name for item in free]
        name = None if None in names else "*".join([*map(str, names), *[str(known)] * (known != 1)])

        def make() -> Value:
            made = free[0].value
            for item in free[1:]:
                made = self.op("Mul", made, item.value)
            return made if known == 1 else self.op("Mul", made, np.asarray([known], np.int64))

        return Free(name, make)

    def vector(self, sizes: Sequence[Size]) -> Array | Value:
        """Sizes as int64 [n]."""
        known = [item for item in sizes if isinstance(item, int)]
        if len(known) == len(sizes):
            return np.asarray(known, np.int64)
        parts: list[Any] = []
        for item in sizes:
            if isinstance(item, Free):
                parts.append(item.value)
            elif parts and isinstance(parts[-1], np.ndarray):
                parts[-1] = np.append(parts[-1], item)
            else:
                parts.append(np.asarray([item], np.int64))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    # -- shapes ----------------------------------------------------------------------

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """``x`` with other sizes. One that is free is left to Reshape to find (-1), and one that is
        that axis's own already stays (0)."""
        own, wanted = dims(x), [plain(item) for item in sizes]
        if wanted == own and None not in own:
            return x
        target, empty = list(sizes), 0 in wanted
        for place, (item, dim) in enumerate(zip(wanted, own, strict=False)):
            if isinstance(item, str) and item == dim and not empty:
                target[place] = 0
        free = [place for place, item in enumerate(target) if isinstance(item, Free)]
        if len(free) == 1 and not empty:
            target[free[0]] = -1
        made = self.op("Reshape", x, self.vector(target), allowzero=int(empty))
        made.shape = onnx_ir.Shape(wanted)
        return made

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """``x`` with its axes in another order."""
        order = list(order)
        return x if order == sorted(order) else self.op("Transpose", x, perm=order)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` with axes of one element at these places of the result."""
        return self.op("Unsqueeze", x, np.asarray(axes, np.int64)) if len(axes) else x

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` without these axes, of one element each."""
        return self.op("Squeeze", x, np.asarray(axes, np.int64)) if axes else x

    def reduce(self, kind: str, x: Value, axes: Sequence[int], *, keep: bool = True) -> Value:
        """A reduction over axes.

        Args:
            kind: The operator: ``ReduceSum``, ``ReduceMean``...
            x: What is reduced; without axes, it is the result.
            axes: Axes, negative ones from the end.
            keep: Whether they stay, with one element each.
        """
        if not axes:
            return x
        return self.op(kind, x, np.asarray(axes, np.int64), keepdims=int(keep))

    def cast(self, x: Value, dtype: DataType) -> Value:
        """``x`` of another type."""
        return x if x.dtype == dtype else self.op("Cast", x, to=int(dtype))

    def filled(self, number: float, sizes: Sequence[Size], like: Value) -> Value:
        """A tensor with one number everywhere.

        Args:
            number: The number.
            sizes: The tensor's shape; free sizes are computed.
            like: Its dtype becomes the tensor's.
        """
        shape, one = self.vector(sizes), self.number(number, like).reshape(1)
        if isinstance(shape, np.ndarray):
            made = self.value(np.full(shape, one))
        else:
            made = self.op("ConstantOfShape", shape, value=onnx_ir.tensor(one))
            made.shape = onnx_ir.Shape(map(plain, sizes))
        assert made is not None
        return made

    def number(self, x: float, like: Value) -> Array:
        """A number without axes, of the type of ``like``."""
        assert like.dtype is not None
        return np.asarray(x, like.dtype.numpy())

    # -- what the node says ------------------------------------------------------------

    def input(self, index: int) -> Value | None:
        """An input of the node; None where it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    constant = staticmethod(operands.array_of)

    def needed(self, index: int, what: str) -> Array:
        """As :func:`converter.ir.operands.needed`."""
        return operands.needed(self.node, index, what)

    def given(self, index: int, what: str) -> Array | None:
        """As :func:`converter.ir.operands.given`."""
        return operands.given(self.node, index, what)


def _named(shape: onnx_ir.Shape) -> bool:
    """Whether every size is a number or has a name."""
    return all(isinstance(dim, int) or dim.value is not None for dim in shape)


def key_of(node: onnx_ir.Node) -> str:
    """What a node's rewrite is found by: its operator, with the domain where that isn't ONNX's."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


Rewrite = Callable[[Builder, onnx_ir.Node], Value | tuple[Value | None, ...] | None]
"""What takes the place of a node's outputs; None where it can't be written so.

Raises :class:`Refused` where that is for good, with the reason."""

_INTERESTING = 1024
"""Elements of a constant that inference looks into: axes, shapes."""


def rank(x: Value) -> int:
    """How many axes a value has."""
    assert x.shape is not None
    return len(x.shape)


def dims(x: Value) -> list[int | str | None]:
    """A value's sizes: numbers, names, or None."""
    assert x.shape is not None
    return [dim if isinstance(dim, int) else dim.value for dim in x.shape]


def plain(size: Size) -> int | str | None:
    """A size as a number, or its name; None where it has none."""
    return size if isinstance(size, int) else size.name
