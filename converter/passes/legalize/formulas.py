"""Formulas over numbers, some of which are known now and some only when the model runs.

    low = (place + 0.5) * (size / out) - 0.5

is a constant where ``place``, ``size`` and ``out`` are, and nodes where one of them is a value: the
same formula serves static and free sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir

from converter.passes.legalize.builder import Array, Builder, DataType, Free, Size, Value, rank

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Min": np.minimum,
    "Max": np.maximum,
    "Mod": np.mod,
}
_UNARY: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
}

_NEUTRAL = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}
"""The second operand that changes nothing."""

_FLAT = np.asarray([-1])


class Numbers:
    """An array that is known, or a value: float32, or another type.

    Args:
        builder: Where nodes go; None where all numbers are known.
        content: The array or value; it is cast.
        dtype: The numbers' type; that of the others in a formula, too.
    """

    def __init__(
        self,
        builder: Builder | None,
        content: Array | Value | float,
        dtype: DataType = DataType.FLOAT,
    ) -> None:
        self._where = builder
        self.dtype = dtype
        self.content: Array | Value = (
            self._builder.cast(content, dtype)
            if isinstance(content, Value)
            else np.asarray(content, dtype.numpy())
        )

    @property
    def _builder(self) -> Builder:
        assert self._where is not None, "numbers that are known alone have no nodes"
        return self._where

    @classmethod
    def of_size(cls, builder: Builder, size: Size, dtype: DataType = DataType.FLOAT) -> Numbers:
        """A size, of no axes.

        Args:
            builder: Where nodes go, for a free size.
            size: A number, or a free size.
            dtype: The number's type in the formula.
        """
        if isinstance(size, int):
            return cls(builder, size, dtype)
        return cls(builder, builder.squeeze(size.value, [0]), dtype)

    @classmethod
    def counted(cls, builder: Builder, size: Size, dtype: DataType = DataType.INT64) -> Numbers:
        """0, 1, ... up to a size, along one axis.

        Args:
            builder: Where nodes go, for a free size.
            size: How many numbers there are.
            dtype: The numbers' type: an integer.
        """
        if isinstance(size, int):
            return cls(builder, np.arange(size), dtype)
        first, step = (np.asarray(number, dtype.numpy()) for number in (0, 1))
        made = builder.op("Range", first, cls.of_size(builder, size, dtype).value, step)
        made.shape = onnx_ir.Shape([size.name])
        return cls(builder, made, dtype)

    @property
    def array(self) -> Array | None:
        """The numbers, where they are known."""
        return None if isinstance(self.content, Value) else self.content

    def size(self) -> Size:
        """A whole number as a size."""
        known = self.array
        return Free(None, lambda: self.expanded([0]).value) if known is None else int(known)

    @property
    def value(self) -> Value:
        if not isinstance(self.content, Value):
            made = self._builder.value(self.content)
            assert made is not None
            self.content = made
        return self.content

    def of(self, dtype: DataType | None) -> Numbers:
        """Cast to a type; to integers, cut."""
        assert dtype is not None
        return Numbers(self._where, self.content, dtype)

    def expanded(self, axes: Sequence[int]) -> Numbers:
        """With axes of one element at these places of the result."""
        if isinstance(self.content, Value):
            return self._made(self._builder.unsqueeze(self.content, axes))
        return self._made(np.expand_dims(self.content, tuple(axes)))

    def flat(self) -> Array | Value:
        """All of them along one axis."""
        x = self.content
        return self._builder.op("Reshape", x, _FLAT) if isinstance(x, Value) else x.ravel()

    def _made(self, content: Array | Value) -> Numbers:
        return Numbers(self._where, content, self.dtype)

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return rank(self.content) if isinstance(self.content, Value) else self.content.ndim

    def _binary(self, op: str, other: Numbers | float) -> Numbers:
        a, b = self.content, self._other(other)
        if isinstance(b, np.ndarray) and b.shape == () and _NEUTRAL.get(op) == b:
            return self
        if isinstance(a, Value) or isinstance(b, Value):
            return self._made(self._builder.op(op, a, b))
        return self._made(_BINARY[op](a, b))

    def _other(self, other: Numbers | float) -> Array | Value:
        return (
            other.content if isinstance(other, Numbers) else self._made(np.asarray(other)).content
        )

    def _unary(self, op: str) -> Numbers:
        x = self.content
        return self._made(self._builder.op(op, x) if isinstance(x, Value) else _UNARY[op](x))

    def __add__(self, other: Numbers | float) -> Numbers:
        return self._binary("Add", other)

    def __sub__(self, other: Numbers | float) -> Numbers:
        return self._binary("Sub", other)

    def __mul__(self, other: Numbers | float) -> Numbers:
        return self._binary("Mul", other)

    def __truediv__(self, other: Numbers | float) -> Numbers:
        return self._binary("Div", other)

    def __mod__(self, other: Numbers | float) -> Numbers:
        """What is left of whole numbers, with the sign of ``other``."""
        return self._binary("Mod", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Numbers:
        return self._made(np.asarray(other)) - self

    def __abs__(self) -> Numbers:
        return self._unary("Abs")

    def floor(self) -> Numbers:
        """Down to whole numbers."""
        return self._unary("Floor")

    def ceil(self) -> Numbers:
        """Up to whole numbers."""
        return self._unary("Ceil")

    def round(self) -> Numbers:
        """To the nearest whole number, halves to even ones."""
        return self._unary("Round")

    def at_least(self, other: Numbers | float) -> Numbers:
        return self._binary("Max", other)

    def at_most(self, other: Numbers | float) -> Numbers:
        return self._binary("Min", other)

    def is_same(self, other: Numbers) -> Array | Value:
        """Where both are equal."""
        a, b = self.content, other.content
        known = not isinstance(a, Value) and not isinstance(b, Value)
        return np.asarray(a == b) if known else self._builder.op("Equal", a, b)

    def is_at_most(self, other: Numbers | float) -> Numbers:
        """1 where it isn't larger, else 0."""
        a, b = self.content, self._other(other)
        if isinstance(a, Value) or isinstance(b, Value):
            return self._made(self._builder.op("LessOrEqual", a, b))
        return self._made(a <= b)


def joined(builder: Builder, numbers: Sequence[Numbers]) -> Array | Value:
    """Numbers of no axes and one type as a vector."""
    known = [one.array for one in numbers if one.array is not None]
    if len(known) == len(numbers):
        return np.asarray(known)
    return builder.op("Concat", *(one.expanded([0]).content for one in numbers), axis=0)
