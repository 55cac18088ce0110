"""GridSample of three axes: gathers, since MIL's resample is of images."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np

from emitters.coreml import sizing
from emitters.coreml.algebra import Numbers, number
from emitters.coreml.context import Context, Var
from emitters.coreml.sizing import Size
from emitters.lowering.plans.grid_sampling import GridRule, in_pixels, samples_at
from emitters.lowering.plans.resize_rules import Sample


def sample_volume(context: Context, x: Var, grid: Var, rule: GridRule) -> Var:
    """Voxels around each place, times their weights: one for nearest, 2 an axis for linear.

    Args:
        context: Where it is computed.
        x: [N, C, D, H, W], of floats.
        grid: [N, d, h, w, 3].
        rule: The attributes; the mode is ``nearest`` or ``linear``.
    """
    n, channels, *dims = sizing.sizes(context, x)
    taps, one = [], Numbers(context, 1.0)
    for axis, dim in enumerate(dims):
        size = number(context, dim)
        where = in_pixels(rule, _coordinate(context, grid, 2 - axis), size)
        taps.append(samples_at(rule, where, size, one))
    each = sizing.product(context, dims)
    flat = sizing.reshape(context, x, [n, channels, each])
    volume = context.op("transpose", x=flat, perm=[0, 2, 1])
    volume = sizing.reshape(context, volume, [sizing.compute(context, "mul", n, each), channels])
    made = _summed(context, volume, _first(context, n, each), dims, taps)
    made = context.op("transpose", x=made, perm=[0, 2, 1])
    places = sizing.sizes(context, grid)[1:-1]
    return sizing.reshape(context, made, [n, channels, *places])


def _coordinate(context: Context, grid: Var, which: int) -> Numbers:
    """One of three, for each place: [N, P]."""
    n, *places, _ = sizing.sizes(context, grid)
    taken = context.op("gather", x=grid, indices=np.int32(which), axis=4)
    return Numbers(context, sizing.reshape(context, taken, [n, sizing.product(context, places)]))


def _first(context: Context, n: Size, each: Size) -> Var:
    """The number of each volume's first voxel: int32 [N, 1]."""
    rows = context.op("mul", x=sizing.counted(context, n), y=_factor(each))
    return context.op("expand_dims", x=rows, axes=[1])


def _factor(size: Size) -> Size:
    return np.int32(size) if isinstance(size, int) else size


def _summed(
    context: Context,
    volume: Var,
    first: Var,
    dims: list[Size],
    taps: list[list[Sample[Numbers]]],
) -> Var:
    """The weighted sum of voxels [N, P, C] of volumes [N * voxels, C]; taps are [N, P]."""
    total, kind = None, context.type_of(volume)
    columns = [[(tap.index.integers(), tap.weight) for tap in axis] for axis in taps]
    for choice in product(*columns):
        places = _flat(context, [index for index, _ in choice], dims)
        places = context.op("add", x=places, y=first)
        part = context.op("gather", x=volume, indices=places, axis=0)
        weight = reduce(lambda a, b: a * b, [weight for _, weight in choice])
        if weight.array is None or (weight.array != 1).any():
            part = context.op("mul", x=part, y=weight.expanded([2]).of_type(kind))
        total = part if total is None else context.op("add", x=total, y=part)
    return total


def _flat(context: Context, indices: list[Var], dims: list[Size]) -> Var:
    """Indices along axes of some sizes as one: int32."""
    whole = indices[0]
    for index, dim in zip(indices[1:], dims[1:], strict=True):
        whole = context.op("add", x=context.op("mul", x=whole, y=_factor(dim)), y=index)
    return whole
