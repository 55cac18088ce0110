"""Sizes of variables, which free dimensions leave to the run, and reshapes to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emitters.coreml.context import Context, Var, free

Size = int | Var
"""A number, or a variable of shape [1], int32."""


def integer(context: Context, number: int) -> Var:
    """A constant without axes, int32."""
    return context.const(np.asarray(number, np.int32))


def size(context: Context, x: Var, axis: int) -> Size:
    """The size of an axis."""
    dim = x.shape[axis]
    if not free(dim):
        return int(dim)
    axis %= len(x.shape)
    whole = context.op("shape", x=x)
    return context.op("slice_by_index", x=whole, begin=[axis], end=[axis + 1])


def sizes(context: Context, x: Var) -> list[Size]:
    """The sizes of all axes."""
    return [size(context, x, axis) for axis in range(len(x.shape))]


def product(context: Context, dims: Sequence[Size]) -> Size:
    """How many elements axes of these sizes have together."""
    known = int(np.prod([dim for dim in dims if isinstance(dim, int)], dtype=np.int64))
    made: Size = known
    for dim in dims:
        if isinstance(dim, int):
            continue
        made = dim if isinstance(made, int) and made == 1 else context.op("mul", x=dim, y=made)
    return made


def vector(context: Context, dims: Sequence[Size]) -> list[int] | Var:
    """Sizes as a list of numbers, or as a variable of shape [rank], int32."""
    known = [dim for dim in dims if isinstance(dim, int)]
    if len(known) == len(dims):
        return known
    if len(dims) == 1:
        return dims[0]
    parts = [context.const(np.asarray([d], np.int32)) if isinstance(d, int) else d for d in dims]
    return context.op("concat", values=parts, axis=0)


def reshaped(context: Context, x: Var, dims: Sequence[Size]) -> Var:
    """``x`` in another shape of as many elements; one size that isn't known follows from the
    others."""
    if tuple(dims) == tuple(x.shape):
        return x
    if not dims:
        axes = list(range(len(x.shape)))
        return context.op("squeeze", x=x, axes=axes) if axes else x
    unknown = [place for place, dim in enumerate(dims) if not isinstance(dim, int)]
    if len(unknown) == 1:
        dims = [-1 if place == unknown[0] else dim for place, dim in enumerate(dims)]
    return context.op("reshape", x=x, shape=vector(context, dims))
