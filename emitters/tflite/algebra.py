"""Formulas over numbers, some of which are known now and some only at run time.

    low = (place + 0.5) * (size / out) - 0.5

is a constant where ``place``, ``size`` and ``out`` are, and operators of float32 where one of them
is a tensor: the same formula serves static and free sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Array, DataType, Shape, Tensor

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": np.divide,
    "MINIMUM": np.minimum,
    "MAXIMUM": np.maximum,
}
_UNARY: dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "ROUND": np.rint,
}


class Numbers:
    """A float32 array that is known, or a tensor of them.

    Args:
        context: Where operators go.
        value: The array or tensor; of another type, it is made float32.
    """

    def __init__(self, context: Context, value: Array | Tensor | float) -> None:
        if isinstance(value, Tensor) and value.data is not None and value.quant is None:
            value = value.data
        self.context = context
        self.value: Array | Tensor = (
            build.cast(context, value, DataType.FLOAT)
            if isinstance(value, Tensor)
            else np.asarray(value, np.float32)
        )

    @property
    def tensor(self) -> Tensor:
        """As a tensor, float32."""
        if isinstance(self.value, Tensor):
            return self.value
        return self.context.constant(self.value)

    @property
    def array(self) -> Array | None:
        """The numbers, where they are known."""
        return None if isinstance(self.value, Tensor) else self.value

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.value.shape

    def integers(self) -> Tensor:
        """Cut to int32."""
        if not isinstance(self.value, Tensor):
            return self.context.constant(self.value.astype(np.int32))
        return build.cast(self.context, self.value, DataType.INT32)

    def reshaped(self, shape: Sequence[int | str]) -> Numbers:
        """In another shape."""
        return Numbers(self.context, build.reshape(self.context, self.tensor, shape))

    def _binary(self, op: str, other: Numbers | float) -> Numbers:
        known = other if isinstance(other, Numbers) else Numbers(self.context, other)
        a, b = self.array, known.array
        if a is not None and b is not None:
            return Numbers(self.context, _BINARY[op](a, b))
        return Numbers(self.context, build.binary(self.context, op, self.tensor, known.tensor))

    def _unary(self, op: str) -> Numbers:
        if self.array is not None:
            return Numbers(self.context, _UNARY[op](self.array))
        return Numbers(self.context, build.unary(self.context, op, self.tensor))

    def __add__(self, other: Numbers | float) -> Numbers:
        return self._binary("ADD", other)

    def __sub__(self, other: Numbers | float) -> Numbers:
        return self._binary("SUB", other)

    def __mul__(self, other: Numbers | float) -> Numbers:
        return self._binary("MUL", other)

    def __truediv__(self, other: Numbers | float) -> Numbers:
        return self._binary("DIV", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Numbers:
        return Numbers(self.context, other) - self

    def floor(self) -> Numbers:
        """Down to whole numbers."""
        return self._unary("FLOOR")

    def ceil(self) -> Numbers:
        """Up to whole numbers."""
        return self._unary("CEIL")

    def round(self) -> Numbers:
        """To the nearest whole number, halves to even ones."""
        return self._unary("ROUND")

    def __abs__(self) -> Numbers:
        return self._unary("ABS")

    def at_least(self, other: Numbers | float) -> Numbers:
        """The larger."""
        return self._binary("MAXIMUM", other)

    def at_most(self, other: Numbers | float) -> Numbers:
        """The smaller."""
        return self._binary("MINIMUM", other)

    def is_at_most(self, other: Numbers | float) -> Numbers:
        """1 where it isn't larger, else 0."""
        known = other if isinstance(other, Numbers) else Numbers(self.context, other)
        if self.array is not None and known.array is not None:
            return Numbers(self.context, self.array <= known.array)
        made = build.binary(self.context, "LESS_EQUAL", self.tensor, known.tensor, DataType.BOOL)
        return Numbers(self.context, made)


def extent(context: Context, size: int | str) -> Numbers:
    """The size of an axis, of no axes itself."""
    if isinstance(size, int):
        return Numbers(context, float(size))
    return Numbers(context, context.size(size)).reshaped(())


def counting(context: Context, count: Tensor | int, size: int | str) -> Numbers:
    """0, 1, ... up to a count: an int32 of no axes, or a number.

    Args:
        context: Where operators go.
        count: How many.
        size: The same as a dimension.
    """
    if isinstance(count, int):
        return Numbers(context, np.arange(count))
    limits = [context.constant(np.asarray(n, np.int32)) for n in (0, 1)]
    made = context.emit("RANGE", [limits[0], count, limits[1]], (size,), DataType.INT32)
    return Numbers(context, made)
