"""Tensors by their elements and sizes, whatever axes they are stored with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import gcd, prod
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import constant_tensor
from converter.ir.equal_sizes import Size as Count
from converter.ir.equal_sizes import computed
from converter.ir.facts import MOVES
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Array, Builder, Free, Operand, Size, Value, plain


@dataclass(frozen=True)
class Packed:
    """A tensor of any number of axes.

    Attributes:
        value: Its elements in their order, of whatever shape; an array where they are constant.
        dims: Its sizes.
    """

    value: Value | Array
    dims: tuple[Size, ...]


class Work:
    """A node that is being written with fewer axes.

    Args:
        builder: Makes nodes in its place.
        known: What is packed so far.
        most: How many axes there may be.
    """

    def __init__(self, builder: Builder, known: Mapping[Value, Packed], most: int) -> None:
        self.b = builder
        self.node = builder.node
        self.most = most
        self._known = known

    def input(self, index: int) -> Packed:
        """An input of the node.

        Raises:
            Refused: It isn't there, or nobody knows how many axes it has.
        """
        value = self.b.input(index)
        if value is None or value.shape is None:
            raise Refused("an input with an unknown number of axes")
        if value in self._known:
            return self._known[value]
        return Packed(value, tuple(self.b.sizes(value)))

    def inputs(self) -> list[Packed]:
        """All inputs of the node."""
        return [self.input(index) for index in range(len(self.node.inputs))]

    def view(self, x: Packed, sizes: Sequence[Size]) -> Value:
        """The elements with other sizes."""
        content = x.value
        if isinstance(content, Value):
            tensor = constant_tensor(content)
            if tensor is None or tuple(tensor.shape) == tuple(sizes):
                return self.b.reshape(content, sizes)
            content = tensor.numpy()
        made = self.b.value(content.reshape([size for size in sizes if isinstance(size, int)]))
        assert made is not None
        return made

    def joined(self, x: Packed, runs: Iterable[Sequence[int]]) -> Value:
        """The elements with an axis for each run of neighbouring axes."""
        return self.view(x, [self.product(x, run) for run in runs])

    def product(self, x: Packed, axes: Iterable[int]) -> Size:
        """How many elements some axes have."""
        return self.b.product([x.dims[axis] for axis in axes])

    def left(self, whole: Sequence[Size], parts: Sequence[Size]) -> Size:
        """A product of sizes by that of others, which divides it."""
        over, under = list(whole), list[Size]()
        for part in parts:
            found = next((item for item in over if same(item, part)), None)
            if found is None:
                under.append(part)
            else:
                over.remove(found)
        numbers = [prod(n for n in each if isinstance(n, int)) for each in (over, under)]
        common = gcd(*numbers)
        top, bottom = (
            self.b.product([n // common, *(item for item in each if isinstance(item, Free))])
            for n, each in zip(numbers, (over, under), strict=True)
        )
        if bottom == 1:
            return top
        both = (top, bottom)
        return Free(None, lambda: self.b.op("Div", *(self.b.vector([each]) for each in both)))

    def plain(self, x: Packed) -> Value:
        """The elements with no more axes than there may be."""
        if isinstance(x.value, Value) and len(x.value.shape or ()) <= self.most:
            return x.value
        return self.view(x, x.dims if len(x.dims) <= self.most else [self.b.product(x.dims)])

    def like(self, *operands: Operand, outputs: int = 1, **changed: Any) -> Sequence[Value]:
        """The outputs of the node's operator on other operands, some attributes changed."""
        own = {name: attribute.value for name, attribute in self.node.attributes.items()}
        return self.b.ops(self.node.op_type, outputs, *operands, **{**own, **changed})

    def rest(self, first: int) -> list[Operand]:
        """The inputs from one on, as they are."""
        return list(self.node.inputs[first:])


def runs_apart(rank: int, alone: Iterable[int]) -> list[list[int]]:
    """Neighbouring axes together, but for some, each of which is alone."""
    apart = set(alone)
    keys = groupby(range(rank), lambda axis: axis + 1 if axis in apart else 0)
    return [list(run) for _, run in keys]


def runs_alike(keys: Sequence[Any], left_out: Iterable[int] = ()) -> list[list[int]]:
    """Neighbouring axes of equal keys together; some axes count for nothing."""
    gone = set(left_out)
    kept = [axis for axis in range(len(keys)) if axis not in gone]
    return [list(run) for _, run in groupby(kept, lambda axis: keys[axis])]


def same(one: Size, other: Size) -> bool:
    """Whether two sizes are known to be equal."""
    return one is other or (plain(one) is not None and plain(one) == plain(other))


# -- vectors of sizes ----------------------------------------------------------------------


def entries(b: Builder, vector: Value) -> list[Size | None]:
    """The elements of a vector of sizes: numbers as they stand there, and sizes that are computed.
    None for one of which nobody knows that it is a size, and neither 0 nor -1."""
    array = b.constant(vector)
    if array is not None:
        return [int(item) for item in array.ravel()]
    maker = vector.producer()
    if maker is not None and maker.op_type == "Concat":
        return [item for part in maker.inputs if part is not None for item in entries(b, part)]
    if maker is not None and maker.op_type in ("Unsqueeze", "Reshape", "Cast", "Identity"):
        source = maker.inputs[0]
        array = b.constant(source)
        if array is not None and array.size == 1:
            return [int(array.item())]
    count = vector.shape[0] if vector.shape is not None and len(vector.shape) == 1 else None
    if not isinstance(count, int):
        raise Refused("a shape that isn't known at all", "fix the sizes (--input, --batch)")
    if not _counts(vector):
        return [None] * count
    known = computed(vector) or [None] * count
    return [_element(b, vector, place, size) for place, size in enumerate(known)]


def _element(b: Builder, vector: Value, place: int, known: Count | None) -> Size:
    if known is not None and not known.symbols:
        return known.number

    def make() -> Value:
        whole = b.cast(vector, onnx_ir.DataType.INT64)
        ends = (np.asarray([place]), np.asarray([place + 1]))
        return whole if vector.shape == (1,) else b.op("Slice", whole, *ends)

    numbers = () if known is None or known.number == 1 else (str(known.number),)
    name = f"{vector.name}/{place}" if known is None else "*".join((*known.symbols, *numbers))
    return Free(name, make)


_COUNTING = frozenset({
    "Add", "Cast", "Ceil", "Concat", "Div", "Floor", "Gather", "Identity", "Max", "Min", "Mod",
    "Mul", "ReduceProd", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze",
})  # fmt: skip
"""What makes sizes of sizes."""


def _counts(value: Value | None) -> bool:
    """Whether a value is computed from shapes and from numbers that aren't negative alone."""
    tensor = constant_tensor(value)
    if tensor is not None:
        return bool((np.asarray(tensor.numpy()) >= 0).all())
    maker = value.producer() if value is not None else None
    if maker is None or maker.op_type in ("Shape", "Size"):
        return maker is not None
    inputs = maker.inputs[:1] if maker.op_type in MOVES else maker.inputs
    return maker.op_type in _COUNTING and all(_counts(each) for each in inputs if each is not None)
