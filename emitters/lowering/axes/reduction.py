"""Operators along some axes: the others are joined, before, between and behind those."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from converter.ir.attributes import number, text
from converter.ir.edit import is_used
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Operand, Size, Value, rank
from emitters.lowering.axes.moving import transposed
from emitters.lowering.axes.packed import Packed, Work, entries, runs_alike, runs_apart, same
from emitters.lowering.axes.stretching import stretched


def three(w: Work, x: Packed, axis: int) -> Value:
    """What is before an axis, the axis, and what is behind, if anything is.

    Args:
        w: The node's work.
        x: The tensor.
        axis: Counted from the first.

    Returns:
        A value of three axes, or of two where ``axis`` is the last.
    """
    runs = [range(axis), [axis], range(axis + 1, len(x.dims))]
    return w.joined(x, runs if runs[2] else runs[:2])


def placed(w: Work, x: Packed, default: int) -> int:
    """The node's axis, from the first on.

    Args:
        w: The node's work.
        x: What the axis is of.
        default: The axis where the node names none.
    """
    return number(w.node, "axis", default) % len(x.dims)


def resized(x: Packed, axis: int, size: Sequence[Size]) -> tuple[Size, ...]:
    """The sizes with others in an axis' place.

    Args:
        x: The tensor.
        axis: Counted from the first.
        size: What stands there instead: any number of sizes.
    """
    return (*x.dims[:axis], *size, *x.dims[axis + 1 :])


def same_size(w: Work) -> list[Packed]:
    """Softmax and others that leave the sizes."""
    x = w.input(0)
    axis = placed(w, x, -1)
    return [Packed(w.like(three(w, x, axis), *w.rest(1), axis=1)[0], x.dims)]


def cum_sum(w: Work) -> list[Packed]:
    """The axis is an operand."""
    x, axis = w.input(0), int(w.b.needed(1, "axis").item())
    axis %= len(x.dims)
    return [Packed(w.like(three(w, x, axis), np.asarray(1))[0], x.dims)]


def arg(w: Work) -> list[Packed]:
    """ArgMax, ArgMin."""
    x = w.input(0)
    axis, keep = placed(w, x, 0), number(w.node, "keepdims", 1)
    made = w.like(three(w, x, axis), axis=1, keepdims=0)[0]
    return [Packed(made, resized(x, axis, [1] if keep else []))]


def several(w: Work) -> list[Packed]:
    """TopK, Split: outputs whose sizes along the axis are others."""
    x = w.input(0)
    axis = placed(w, x, -1 if w.node.op_type == "TopK" else 0)
    made = w.like(three(w, x, axis), *w.rest(1), outputs=len(w.node.outputs), axis=1)
    return [Packed(each, resized(x, axis, [w.b.size(each, 1)])) for each in made]


def concat(w: Work) -> list[Packed]:
    """One after the other."""
    xs = w.inputs()
    axis = placed(w, xs[0], 0)
    made = w.like(*(three(w, x, axis) for x in xs), axis=1)[0]
    return [Packed(made, resized(xs[0], axis, [w.b.size(made, 1)]))]


def normalized(w: Work) -> list[Packed]:
    """LayerNormalization and RMSNormalization, over all axes from one on."""
    if any(is_used(w.node, place) for place in range(1, len(w.node.outputs))):
        raise Refused("the mean or deviation of a normalization of so many axes")
    x = w.input(0)
    axis, factors = placed(w, x, -1), list[Operand]()
    for place in range(1, len(w.node.inputs)):
        factor = stretched(w, w.input(place), x.dims[axis:])
        factors.append(w.joined(factor, [range(len(x.dims) - axis)]))
    whole = w.joined(x, [range(axis), range(axis, len(x.dims))])
    return [Packed(w.like(whole, *factors, axis=1)[0], x.dims)]


def channels(w: Work) -> list[Packed]:
    """Normalizations of [batch, channels, space...], numbers for each channel besides."""
    x = w.input(0)
    whole = w.joined(x, [[0], [1], range(2, len(x.dims))])
    return [Packed(w.like(whole, *w.rest(1))[0], x.dims)]


def quantized(w: Work) -> list[Packed]:
    """By one scale, or one for each place along an axis."""
    x, scale = w.input(0), w.input(1)
    if all(dim == 1 for dim in scale.dims):
        return [Packed(w.like(w.plain(x), *w.rest(1))[0], x.dims)]
    if len(scale.dims) != 1:
        raise Refused("scales of blocks of a tensor of so many axes")
    axis = placed(w, x, 1)
    return [Packed(w.like(three(w, x, axis), *w.rest(1), axis=1)[0], x.dims)]


# -- reductions ----------------------------------------------------------------------------


def reduced(w: Work) -> list[Packed]:
    """Neighbouring axes that go are one; where there are too many runs all that go are last."""
    x, given = w.input(0), w.b.given(1, "axes")
    if (given is None or not given.size) and number(w.node, "noop_with_empty_axes", 0):
        return [x]
    count, keep = len(x.dims), number(w.node, "keepdims", 1)
    axes = range(count) if given is None or not given.size else given.ravel()
    gone = {int(axis) % count for axis in axes}
    rest = [axis for axis in range(count) if axis not in gone]
    dims = tuple(dim for axis, dim in enumerate(x.dims) if axis in rest)
    kept = tuple(1 if axis in gone else dim for axis, dim in enumerate(x.dims))
    runs = runs_alike([axis in gone for axis in range(count)])
    if len(runs) > w.most:
        x = transposed(w, x, [*rest, *sorted(gone)])
        gone = set(range(len(rest), count))
        runs = [list(range(len(rest))), sorted(gone)]
    places = np.asarray([place for place, run in enumerate(runs) if run[0] in gone])
    made = w.like(w.joined(x, runs), places, keepdims=0, noop_with_empty_axes=0)[0]
    return [Packed(made, kept if keep else dims)]


# -- parts and borders -----------------------------------------------------------------------


def sliced(w: Work) -> list[Packed]:
    """A part along some axes, up to two at a time."""
    x = w.input(0)
    values = [w.b.input(place) for place in range(1, 5)]
    starts, ends, _, steps = (None if v is None else entries(w.b, v) for v in values)
    assert starts is not None and ends is not None
    given = w.b.given(3, "axes")
    axes = range(len(starts)) if given is None else [int(axis) for axis in given.ravel()]
    sides = [starts, ends, steps or [1] * len(starts)]
    if any(item is None for side in sides for item in side):
        raise Refused("limits of a Slice of so many axes of which nothing is known")
    return [_in_turn(w, x, _cut, axes, sides)]


def padded(w: Work) -> list[Packed]:
    """Borders along some axes, up to two at a time."""
    x, pads, given = w.input(0), w.b.needed(1, "pads").ravel(), w.b.given(3, "axes")
    axes = range(len(x.dims)) if given is None else [int(axis) for axis in given.ravel()]
    before, after = np.split(pads, 2)
    needed = [place for place in range(len(axes)) if before[place] or after[place]]
    sides = [[int(side[place]) for place in needed] for side in (before, after)]
    return [_in_turn(w, x, _bordered, [axes[place] for place in needed], sides)]


_Cut = Callable[[Work, Value, Sequence[int], Sequence[Operand]], Value]


def _in_turn(
    w: Work, x: Packed, cut: _Cut, axes: Sequence[int], sides: Sequence[Sequence[Size | None]]
) -> Packed:
    """A Slice or Pad along axes, some at a time; what it says of each is in ``sides``."""
    axes = [axis % len(x.dims) for axis in axes]
    while axes:
        count = len(axes)
        while len(runs_apart(len(x.dims), axes[:count])) > w.most:
            count -= 1
        runs = runs_apart(len(x.dims), axes[:count])
        places = [runs.index([axis]) for axis in axes[:count]]
        vectors = [w.b.vector([n for n in side[:count] if n is not None]) for side in sides]
        value = w.joined(x, runs)
        made = cut(w, value, places, vectors)
        dims = list(x.dims)
        for axis, place in zip(axes, places, strict=False):
            dims[axis] = w.b.size(made, place)
        x, axes, sides = Packed(made, tuple(dims)), axes[count:], [side[count:] for side in sides]
    return x


def _cut(w: Work, x: Value, places: Sequence[int], limits: Sequence[Operand]) -> Value:
    starts, ends, steps = limits
    return w.b.op("Slice", x, starts, ends, np.asarray(places), steps)


def _bordered(w: Work, x: Value, places: Sequence[int], sides: Sequence[Operand]) -> Value:
    pads = np.zeros((2, rank(x)), np.int64)
    pads[:, list(places)] = np.asarray(sides)
    return w.b.op("Pad", x, pads.ravel(), w.b.input(2), mode=text(w.node, "mode", "constant"))


def alike(x: Packed, other: Packed, but: int) -> bool:
    """Whether two tensors have the same sizes along all axes but one.

    Args:
        x: One tensor.
        other: The other, with as many axes.
        but: The axis that doesn't count.
    """
    pairs = enumerate(zip(x.dims, other.dims, strict=True))
    return all(axis == but or same(a, b) for axis, (a, b) in pairs)


ALONG = {
    **dict.fromkeys(("Hardmax", "LogSoftmax", "LpNormalization", "Softmax"), same_size),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg),
    **dict.fromkeys(("Split", "TopK"), several),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), normalized),
    **dict.fromkeys(
        ("BatchNormalization", "GroupNormalization", "InstanceNormalization"), channels
    ),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), quantized),
    "Concat": concat,
    "CumSum": cum_sum,
    "Pad": padded,
    "Slice": sliced,
}
