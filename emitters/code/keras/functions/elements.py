"""Arithmetic that Keras hasn't in this form."""

from typing import Any

from keras import ops

Tensor = Any


def divide_towards_zero(x: Tensor, y: Tensor) -> Tensor:
    """The whole part of a quotient."""
    quotient = ops.floor_divide(ops.abs(x), ops.abs(y))
    return ops.where(ops.equal(ops.less(x, 0), ops.less(y, 0)), quotient, -quotient)


def remainder(x: Tensor, y: Tensor) -> Tensor:
    """What a division towards zero leaves: it has the sign of x."""
    rest = ops.mod(ops.abs(x), ops.abs(y))
    return ops.where(ops.less(x, 0), -rest, rest)
