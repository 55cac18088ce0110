"""Formulas over numbers, some of which are known now and some only at run time.

    low = (place + 0.5) * (size / out) - 0.5

is a constant where ``place``, ``size`` and ``out`` are, and operations of float32 where one of them
is a variable: the same formula serves static and free sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.sizing import Size
from emitters.coreml.types import Array

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "real_div": np.divide,
    "minimum": np.minimum,
    "maximum": np.maximum,
}
_UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
}


class Numbers:
    """A float32 array that is known, or a variable of them.

    Args:
        context: Where operations go.
        value: The array or variable; of another type, it is made float32.
    """

    def __init__(self, context: Context, value: Array | Var | float) -> None:
        self.context = context
        self._known: Array | None = None
        self._var: Var | None = None
        if isinstance(value, (np.ndarray, np.generic, float, int)):
            self._known = np.asarray(value, np.float32)
        elif value.val is not None:
            self._known = np.asarray(value.val, np.float32)
        else:
            self._var = context.cast(value, "fp32")

    @property
    def var(self) -> Var:
        """As a variable, fp32."""
        if self._var is None:
            assert self._known is not None
            self._var = self.context.const(self._known)
        return self._var

    @property
    def array(self) -> Array | None:
        """The numbers, where they are known."""
        return self._known

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return self._known.ndim if self._known is not None else len(self.var.shape)

    def integers(self) -> Var:
        """Cut to int32."""
        if self._known is not None:
            return self.context.const(self._known.astype(np.int32))
        return self.context.cast(self.var, "int32")

    def of_type(self, kind: str) -> Var:
        """As a variable of another MIL type."""
        if self._known is not None and kind == "fp16":
            return self.context.const(self._known.astype(np.float16))
        return self.context.cast(self.var, kind)

    def reshaped(self, wanted: Sequence[Size]) -> Numbers:
        """In another shape."""
        known = sizing.numbers(wanted)
        if self._known is not None and known is not None:
            return Numbers(self.context, self._known.reshape(known))
        return Numbers(self.context, sizing.reshape(self.context, self.var, wanted))

    def expanded(self, axes: Sequence[int]) -> Numbers:
        """With axes of one element at these places of the result."""
        if not axes:
            return self
        if self._known is not None:
            return Numbers(self.context, np.expand_dims(self._known, tuple(axes)))
        made = self.context.op("expand_dims", x=self.var, axes=np.asarray(axes, np.int32))
        return Numbers(self.context, made)

    def _binary(self, kind: str, other: Numbers | float) -> Numbers:
        second = other if isinstance(other, Numbers) else Numbers(self.context, other)
        a, b = self.array, second.array
        if a is not None and b is not None:
            return Numbers(self.context, _BINARY[kind](a, b))
        x, y = (one.var if one.array is None else one.array for one in (self, second))
        return Numbers(self.context, self.context.op(kind, x=x, y=y))

    def _unary(self, kind: str) -> Numbers:
        if self.array is not None:
            return Numbers(self.context, _UNARY[kind](self.array))
        return Numbers(self.context, self.context.op(kind, x=self.var))

    def __add__(self, other: Numbers | float) -> Numbers:
        return self._binary("add", other)

    def __sub__(self, other: Numbers | float) -> Numbers:
        return self._binary("sub", other)

    def __mul__(self, other: Numbers | float) -> Numbers:
        return self._binary("mul", other)

    def __truediv__(self, other: Numbers | float) -> Numbers:
        return self._binary("real_div", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Numbers:
        return Numbers(self.context, other) - self

    def __abs__(self) -> Numbers:
        return self._unary("abs")

    def floor(self) -> Numbers:
        """Down to whole numbers."""
        return self._unary("floor")

    def ceil(self) -> Numbers:
        """Up to whole numbers."""
        return self._unary("ceil")

    def round(self) -> Numbers:
        """To the nearest whole number, halves to even ones."""
        return self._unary("round")

    def at_least(self, other: Numbers | float) -> Numbers:
        """The larger."""
        return self._binary("maximum", other)

    def at_most(self, other: Numbers | float) -> Numbers:
        """The smaller."""
        return self._binary("minimum", other)

    def is_at_most(self, other: Numbers | float) -> Numbers:
        """1 where it isn't larger, else 0."""
        second = other if isinstance(other, Numbers) else Numbers(self.context, other)
        if self.array is not None and second.array is not None:
            return Numbers(self.context, (self.array <= second.array).astype(np.float32))
        x, y = (one.var if one.array is None else one.array for one in (self, second))
        return Numbers(self.context, self.context.op("less_equal", x=x, y=y))


def number(context: Context, size: Size) -> Numbers:
    """A size, of no axes itself."""
    if isinstance(size, (int, np.integer)):
        return Numbers(context, float(size))
    return Numbers(context, sizing.scalar(context, size))


def counting(context: Context, count: Size) -> Numbers:
    """0, 1, ... up to a size."""
    if isinstance(count, (int, np.integer)):
        return Numbers(context, np.arange(int(count)))
    return Numbers(context, sizing.counted(context, count))
