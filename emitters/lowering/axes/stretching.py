"""Expand, Tile, and operators that stretch their operands to each other by numpy's rule.

Neighbouring axes along which the same operands are stretched are one. Where there are more left
than axes may be, operands are repeated along some beforehand, as makes the fewest elements:

    Given:   [a, 1, b, 1, c, 1] * [1, d, 1, e, 1, f]
    Result:  [a, 1, b, 1, c * f] * [1, d, 1, e, c * f]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf, prod

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from converter.passes.legalize.builder import Size, Value
from emitters.lowering.axes.packed import Packed, Work, entries, runs_alike, same

_GUESS = 16
"""What a free size counts as where ways are compared."""

UNSURE = "sizes that may be 1 or not, of tensors of more axes than the target has"


def expand(w: Work) -> list[Packed]:
    """To sizes, of which 1 leaves an axis as it is."""
    x, target = w.input(0), w.b.input(1)
    assert target is not None
    asked = entries(w.b, target)
    rank = max(len(asked), len(x.dims))
    asked, own = [*[1] * (rank - len(asked)), *asked], _wide(x.dims, rank)
    shape = w.node.outputs[0].shape or ()
    wanted = [_grown(*each) for each in zip(own, asked, shape, strict=True)]
    return [stretched(w, x, wanted)]


def _grown(dim: Size, item: Size | None, known: int | onnx_ir.SymbolicDim) -> Size:
    """What a size is expanded to."""
    if isinstance(dim, int):
        size = dim if dim != 1 else (known if isinstance(known, int) else item)
    else:
        named = isinstance(known, onnx_ir.SymbolicDim) and known.value == dim.name
        size = dim if item == 1 or (named and dim.name is not None) else None
    if size is None:
        raise Refused(UNSURE, "fix them (--input, --batch)")
    return size


def tile(w: Work) -> list[Packed]:
    """An axis at a time."""
    x, repeats = w.input(0), [int(item) for item in w.b.needed(1, "repeats").ravel()]
    own = list(zip(x.dims, repeats, strict=True))
    x = stretched(w, x, [count if dim == 1 else dim for dim, count in own])
    for axis, (dim, count) in enumerate(own):
        if 1 in (dim, count):
            continue
        runs = [range(axis), [axis], range(axis + 1, len(x.dims))]
        made = w.b.op("Tile", w.joined(x, runs), np.asarray([1, count, 1]))
        size = w.b.product([dim, count])
        x = Packed(made, (*x.dims[:axis], size, *x.dims[axis + 1 :]))
    return [x]


def _wide(dims: Sequence[Size], rank: int) -> list[Size]:
    return [1] * (rank - len(dims)) + list(dims)


def stretched(w: Work, x: Packed, wanted: Sequence[Size]) -> Packed:
    """A tensor repeated along its axes of size 1.

    Args:
        w: The node's work.
        x: The tensor.
        wanted: The result's sizes; at least as many as ``x`` has axes.
    """
    own = _wide(x.dims, len(wanted))
    grown = {axis for axis, dim in enumerate(own) if dim == 1 and wanted[axis] != 1}
    while grown:
        gone = {axis for axis, dim in enumerate(own) if dim == 1} - grown
        runs = runs_alike([axis in grown for axis in range(len(own))], gone)
        part = grown
        if len(runs) > w.most:
            part = set(next(run for run in reversed(runs) if run[0] in grown))
            runs = runs_alike([axis in part for axis in range(len(own))], gone | grown - part)
        before = w.view(Packed(x.value, tuple(own)), [_product(w, own, run) for run in runs])
        sizes = [_product(w, wanted, run) if run[0] in part else 1 for run in runs]
        own = [wanted[axis] if axis in part else dim for axis, dim in enumerate(own)]
        x, grown = Packed(w.b.op("Expand", before, w.b.vector(sizes)), tuple(own)), grown - part
    return Packed(x.value, tuple(own))


def _product(w: Work, dims: Sequence[Size], axes: Sequence[int]) -> Size:
    return w.b.product([dims[axis] for axis in axes])


# -- several operands ------------------------------------------------------------------------


def elementwise(w: Work) -> list[Packed]:
    """Operators that stretch their operands."""
    found = _alike(w, w.inputs(), w.most)
    made = w.like(*found.values)[0]
    return [Packed(made, tuple(found.dims(w, made)))]


def matmul(w: Work) -> list[Packed]:
    """Of matrices, whose batches are stretched."""
    one, other = w.inputs()
    ranks = len(one.dims), len(other.dims)
    if len(one.dims) == 1:
        one = Packed(one.value, (1, *one.dims))
    if len(other.dims) == 1:
        other = Packed(other.value, (*other.dims, 1))
    found = _alike(w, [one, other], w.most - 2, matrices=True)
    made = w.b.op("MatMul", *found.values)
    rows, columns = [one.dims[-2]] * (ranks[0] > 1), [other.dims[-1]] * (ranks[1] > 1)
    return [Packed(made, (*found.dims(w, made), *rows, *columns))]


@dataclass(frozen=True)
class _Alike:
    """Operands with as few axes as may be, that numpy's rule stretches as before.

    Attributes:
        values: The operands.
        result: The sizes that they are stretched to; None where that shows when the model runs.
        runs: Which axes are one now.
    """

    values: list[Value]
    result: list[Size | None]
    runs: list[list[int]]

    def dims(self, w: Work, made: Value) -> list[Size]:
        """The sizes of the result, which an operator made of the operands."""
        places = {run[0]: place for place, run in enumerate(self.runs)}
        pairs = enumerate(self.result)
        return [w.b.size(made, places[axis]) if dim is None else dim for axis, dim in pairs]


def _alike(w: Work, operands: Sequence[Packed], most: int, *, matrices: bool = False) -> _Alike:
    """The last two axes of matrices stay as they are."""
    own = 2 if matrices else 0
    rank = max(len(x.dims) for x in operands) - own
    xs = [Packed(x.value, tuple(_wide(x.dims, rank + own))) for x in operands]
    result = [_joined([x.dims[axis] for x in xs]) for axis in range(rank)]
    runs = _runs(xs, result)
    if len(runs) > most:
        ways = _ways(xs, runs, result, most)
        xs = [stretched(w, x, dims) for x, dims in zip(xs, ways, strict=True)]
        runs = _runs(xs, result)
    values = []
    for x in xs:
        sizes = [w.product(x, run) for run in runs] + list(x.dims[rank:])
        values.append(w.view(x, sizes or [1]))
    return _Alike(values, result, runs)


def _joined(sizes: Sequence[Size]) -> Size | None:
    """The size that sizes are stretched to; None where one of them may be 1 or not."""
    others = [size for size in sizes if size != 1] or [1]
    return others[0] if all(same(others[0], size) for size in others[1:]) else None


def _runs(xs: Sequence[Packed], result: Sequence[Size | None]) -> list[list[int]]:
    """Neighbouring axes along which the same operands have size 1; where all have, none. An axis
    where one of them may have it or not is alone."""
    keys: list[object] = [
        axis if size is None else tuple(x.dims[axis] == 1 for x in xs)
        for axis, size in enumerate(result)
    ]
    return runs_alike(keys, [axis for axis, size in enumerate(result) if size == 1])


def _ways(
    xs: Sequence[Packed], runs: Sequence[Sequence[int]], result: Sequence[Size | None], most: int
) -> list[list[Size]]:
    """The sizes that operands have to be stretched to, so that ``most`` axes do.

    Raises:
        Refused: They may be stretched already, or not.
    """
    best: tuple[float, list[list[Size]]] = (inf, [])
    for cuts in combinations(range(1, len(runs)), most - 1):
        parts = [runs[a:b] for a, b in pairwise([0, *cuts, len(runs)])]
        if any(len(part) > 1 and result[run[0]] is None for part in parts for run in part):
            continue
        ways = [_stretch(x, parts, result) for x in xs]
        grown = [dims for x, dims in zip(xs, ways, strict=True) if list(x.dims) != dims]
        cost = sum(prod(_counted(dims)) for dims in grown)
        if cost < best[0]:
            best = cost, ways
    if not best[1]:
        raise Refused(UNSURE, "fix them (--input, --batch)")
    return best[1]


def _stretch(
    x: Packed, parts: Sequence[Sequence[Sequence[int]]], result: Sequence[Size | None]
) -> list[Size]:
    """An operand's sizes where it is stretched along parts along which it is in part."""
    dims = list(x.dims)
    for part in parts:
        axes = [axis for run in part for axis in run]
        if any(x.dims[axis] != 1 for axis in axes):
            for axis in axes:
                dims[axis] = result[axis] or dims[axis]
    return dims


def _counted(dims: Sequence[Size]) -> Iterator[int]:
    yield from (dim if isinstance(dim, int) else _GUESS for dim in dims)


STRETCHES = {"Expand": expand, "MatMul": matmul, "Tile": tile}
