"""Reshape and its like, which leave the order of the elements; Transpose.

A Transpose moves blocks of axes, in several steps where there are more blocks than axes may be:

    Given:   [B, h, 8, w, 8, C] -> transpose 0 1 3 2 4 5
    Result:  [B * h, 8, w, 8 * C] -> transpose 0 2 1 3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, permutations

from converter.ir.attributes import ints, number
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Free, Size, Value
from emitters.lowering.axes.packed import Packed, Work, entries

UNKNOWN = "a shape of more axes than the target has of which nothing is known"


def identity(w: Work) -> list[Packed]:
    """The same."""
    return [w.input(0)]


def flatten(w: Work) -> list[Packed]:
    """Two axes."""
    x = w.input(0)
    axis = number(w.node, "axis", 1)
    parts = (x.dims[:axis], x.dims[axis:])
    return [Packed(x.value, tuple(w.b.product(part) for part in parts))]


def unsqueeze(w: Work) -> list[Packed]:
    """Axes of size 1 more."""
    x, given = w.input(0), w.b.needed(1, "axes")
    rank = len(x.dims) + given.size
    added, rest = {int(axis) % rank for axis in given.ravel()}, iter(x.dims)
    return [Packed(x.value, tuple(1 if axis in added else next(rest) for axis in range(rank)))]


def squeeze(w: Work) -> list[Packed]:
    """Axes of size 1 less."""
    x, given = w.input(0), w.b.given(1, "axes")
    if given is None:
        if any(isinstance(dim, Free) for dim in x.dims):
            raise Refused(
                "axes that depend on the input's sizes", "fix the sizes (--input, --batch)"
            )
        gone = {axis for axis, dim in enumerate(x.dims) if dim == 1}
    else:
        gone = {int(axis) % len(x.dims) for axis in given.ravel()}
    return [Packed(x.value, tuple(dim for axis, dim in enumerate(x.dims) if axis not in gone))]


def reshape(w: Work) -> list[Packed]:
    """To sizes none of which is 0 or -1."""
    x, target = w.input(0), w.b.input(1)
    assert target is not None
    zeros, shape = not number(w.node, "allowzero", 0), w.node.outputs[0].shape or ()
    wanted = entries(w.b, target)
    for axis, known in enumerate(shape):
        if isinstance(known, int):
            wanted[axis] = known
        elif wanted[axis] == 0 and zeros:
            wanted[axis] = x.dims[axis]
    if None in wanted:
        raise Refused(UNKNOWN, "fix the sizes (--input, --batch)")
    given = [item for item in wanted if item is not None]
    others = [item for item in given if item != -1]
    left = w.left(x.dims, others) if len(others) < len(given) else 1
    return [Packed(x.value, tuple(left if item == -1 else item for item in given))]


# -- permutations --------------------------------------------------------------------------


def transpose(w: Work) -> list[Packed]:
    """As said above."""
    x = w.input(0)
    return [transposed(w, x, ints(w.node, "perm", range(len(x.dims))[::-1]))]


def transposed(w: Work, x: Packed, perm: Sequence[int]) -> Packed:
    """A tensor with its axes in another order.

    Args:
        w: The node's work.
        x: The tensor.
        perm: The axis of ``x`` for each axis of the result.
    """
    kept = [axis for axis, dim in enumerate(x.dims) if dim != 1]
    order = [kept.index(axis) for axis in perm if axis in kept]
    sizes: list[Size] = [x.dims[axis] for axis in kept]
    made = x
    for step in steps(order, w.most):
        blocks = sorted(step)
        value: Value = w.view(made, [w.b.product([sizes[i] for i in block]) for block in blocks])
        value = w.b.transpose(value, [blocks.index(block) for block in step])
        sizes = [sizes[axis] for block in step for axis in block]
        made = Packed(value, tuple(sizes))
    return Packed(made.value, tuple(x.dims[axis] for axis in perm))


Step = tuple[tuple[int, ...], ...]
"""A permutation of blocks of neighbouring axes, in their new order."""


def _blocks(perm: Sequence[int]) -> Step:
    """A permutation as one of the fewest blocks."""
    blocks: list[list[int]] = []
    for axis in perm:
        if blocks and axis == blocks[-1][-1] + 1:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    return tuple(tuple(block) for block in blocks)


def steps(perm: Sequence[int], most: int) -> list[Step]:
    """The fewest steps, as far as was looked, of up to ``most`` blocks that make a permutation.

    One or two where two do; else the one after which the fewest blocks are left, and so on.
    """
    whole = _blocks(perm)
    if len(whole) <= 1:
        return []
    if len(whole) <= most:
        return [whole]
    best: tuple[Step, Step] | None = None
    for first in _single_steps(whole, most):
        rest = _rest(first, perm)
        if best is None or len(rest) < len(best[1]):
            best = first, rest
        if len(rest) <= most:
            break
    assert best is not None
    return [best[0], *steps([axis for block in best[1] for axis in block], most)]


def _rest(first: Step, perm: Sequence[int]) -> Step:
    """What is left of a permutation after a step."""
    place = {axis: index for index, axis in enumerate(axis for block in first for axis in block)}
    return _blocks([place[axis] for axis in perm])


def _single_steps(whole: Step, most: int) -> Iterator[Step]:
    """All permutations in ``most`` blocks that keep a permutation's own blocks whole."""
    parts = sorted(whole)
    for cuts in combinations(range(1, len(parts)), most - 1):
        ends = [0, *cuts, len(parts)]
        blocks = [tuple(axis for part in parts[a:b] for axis in part) for a, b in pairwise(ends)]
        yield from permutations(blocks)


MOVES = {
    "Flatten": flatten,
    "Identity": identity,
    "Reshape": reshape,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
