"""Normalizations that Keras hasn't in this form."""

from typing import Any

from keras import ops

Tensor = Any


def hardmax(x: Tensor, axis: int) -> Tensor:
    """One at the first of the largest along an axis, zero elsewhere."""
    place = ops.argmax(x, axis=axis)
    return ops.one_hot(place, x.shape[axis], axis=axis, dtype=x.dtype)


def softmax_of_halves(x: Tensor, axis: int) -> Tensor:
    """Softmax by its formula: of halves, each step of it rounds, and sums are of wider numbers."""
    powers = ops.exp(x - ops.max(x, axis=axis, keepdims=True))
    total = ops.sum(ops.cast(powers, "float32"), axis=axis, keepdims=True)
    return powers / ops.cast(total, x.dtype)


def layer_norm(x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    """Less its mean along axes, by its deviation.

    Args:
        x: A tensor of any shape.
        axes: Those along which mean and deviation are taken.
        epsilon: What is added to the variance.
    """
    centered = x - ops.mean(x, axis=axes, keepdims=True)
    variance = ops.mean(ops.square(centered), axis=axes, keepdims=True)
    return centered / ops.sqrt(variance + epsilon)


def lp_normalize(x: Tensor, p: int, axis: int) -> Tensor:
    """By its length along an axis; zeros stay zeros.

    Args:
        x: A tensor of any shape.
        p: 1 for the sum of magnitudes, 2 for the root of the sum of squares.
        axis: The one along which the length is taken.
    """
    if p == 1:
        length = ops.sum(ops.abs(x), axis=axis, keepdims=True)
    else:
        length = ops.sqrt(ops.sum(ops.square(x), axis=axis, keepdims=True))
    return x / ops.where(ops.equal(length, 0), ops.ones_like(length), length)


def local_response(
    x: Tensor, size: int, axis: int, alpha: float, beta: float, bias: float
) -> Tensor:
    """By the squares of so many neighbouring channels.

    Args:
        x: A tensor of any shape.
        size: How many neighbouring channels count.
        axis: The channels.
        alpha: Times the mean of the squares.
        beta: The power of the divisor.
        bias: What the divisor has besides.
    """
    count, rank = x.shape[axis], len(x.shape)
    pairs = [(0, 0)] * rank
    pairs[axis] = ((size - 1) // 2, size - 1 - (size - 1) // 2)
    squares = ops.pad(ops.square(x), pairs)
    before = (slice(None),) * axis
    total = sum(squares[(*before, slice(at, at + count))] for at in range(size))
    return x / ops.power(bias + alpha / size * total, beta)
