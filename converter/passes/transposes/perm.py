"""Permutations of axes, as a Transpose has them: axis i of the result is axis ``perm[i]``."""

from __future__ import annotations

from collections.abc import Sequence

Perm = tuple[int, ...]
Dims = Sequence[int | str | None]


def identity(rank: int) -> Perm:
    """The permutation that moves nothing."""
    return tuple(range(rank))


def after(first: Perm, second: Perm) -> Perm:
    """What ``first`` and then ``second`` come to."""
    return tuple(first[axis] for axis in second)


def inverse(perm: Perm) -> Perm:
    """What takes ``perm`` back."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


def step(stored: Perm, wanted: Perm) -> Perm:
    """The Transpose that makes a tensor stored as ``wanted`` of one stored as ``stored``."""
    return after(inverse(stored), wanted)


def without(perm: Perm, axes: Sequence[int]) -> Perm:
    """``perm`` for a tensor that lost ``axes``; the others keep their order."""
    left = [axis for axis in perm if axis not in axes]
    return tuple(sorted(left).index(axis) for axis in left)


def with_axes(perm: Perm, axes: Sequence[int]) -> Perm:
    """``perm`` for a tensor that got ``axes`` besides, each where it stands by itself."""
    rank = len(perm) + len(axes)
    kept = [axis for axis in range(rank) if axis not in axes]
    moved = iter(kept[axis] for axis in perm)
    return tuple(axis if axis in axes else next(moved) for axis in range(rank))


def permuted(dims: Dims, perm: Perm) -> list[int | str | None]:
    """``dims`` of a tensor after a Transpose."""
    return [dims[axis] for axis in perm]


def moves_ones_only(dims: Dims, perm: Perm) -> bool:
    """Whether a Transpose of a tensor of ``dims`` leaves its elements in their order."""
    order = [axis for axis in perm if dims[axis] != 1]
    return order == sorted(order)


def reshape_target(dims: Dims, perm: Perm) -> list[int] | None:
    """The shape for a Reshape that does what a Transpose does; None where none does.

    Args:
        dims: Of the tensor before; a symbol or None for a free one.
        perm: The Transpose.
    """
    if not moves_ones_only(dims, perm):
        return None
    target: list[int] = []
    for axis, source in enumerate(perm):
        size = dims[source]
        target.append(size if isinstance(size, int) else 0 if axis == source else -1)
    return target if target.count(-1) <= 1 else None


class Regrouping:
    """How a Reshape merges and splits axes: groups of axes before and after, in order.

    Args:
        groups: For each group the axes before and the axes after, whose sizes have the same
            product.
        before: The shape before the Reshape.
        after: The shape after it.

    Attributes:
        groups: For each group the axes before and the axes after, whose sizes have the same
            product.
    """

    def __init__(self, groups: list[tuple[list[int], list[int]]], before: Dims, after: Dims):
        self.groups, self.before, self.after = groups, list(before), list(after)

    @classmethod
    def of(cls, before: Dims, after: Dims) -> Regrouping | None:
        """The finest groups; None where sizes that aren't known hide them."""
        groups: list[tuple[list[int], list[int]]] = []
        i = j = 0
        while i < len(before) and j < len(after):
            one, other = before[i], after[j]
            if one == other and one is not None:
                groups.append(([i], [j]))
                i, j = i + 1, j + 1
                continue
            taken = _products(before[i:], after[j:])
            if taken is None:
                return None
            groups.append((list(range(i, i + taken[0])), list(range(j, j + taken[1]))))
            i, j = i + taken[0], j + taken[1]
        if any(size != 1 for size in (*before[i:], *after[j:])):
            return None
        rest = (list(range(i, len(before))), list(range(j, len(after))))
        if rest != ([], []):
            groups.append(rest)
        return cls(groups, before, after)

    def forward(self, perm: Perm) -> Perm | None:
        """The permutation of the axes after that goes with ``perm`` of those before."""
        return _through([(a, b) for a, b in self.groups], self.before, perm)

    def backward(self, perm: Perm) -> Perm | None:
        """The permutation of the axes before that goes with ``perm`` of those after."""
        return _through([(b, a) for a, b in self.groups], self.after, perm)


def _products(before: Dims, after: Dims) -> tuple[int, int] | None:
    """How many sizes of each make the smallest equal products."""
    one, other = before[0], after[0]
    if not isinstance(one, int) or not isinstance(other, int):
        return None
    i = j = 1
    while one != other:
        sizes, at = (before, i) if one < other else (after, j)
        if at >= len(sizes):
            return None
        size = sizes[at]
        if not isinstance(size, int):
            return None
        if one < other:
            one, i = one * size, i + 1
        else:
            other, j = other * size, j + 1
    return i, j


def _through(groups: list[tuple[list[int], list[int]]], dims: Dims, perm: Perm) -> Perm | None:
    keyed = []
    for number, (mine, theirs) in enumerate(groups):
        places = [perm.index(axis) for axis in mine if dims[axis] != 1]
        if places != sorted(places):
            return None
        between = perm[places[0] : places[-1] + 1] if places else ()
        if any(dims[axis] != 1 and axis not in mine for axis in between):
            return None
        first = places[0] if places else min((perm.index(a) for a in mine), default=len(perm))
        keyed.append((first, number, theirs))
    return tuple(axis for _, _, theirs in sorted(keyed) for axis in theirs)
