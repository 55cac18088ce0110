"""The module of a source's model in which the graph that was read of it parts from it.

A module agrees where the graph has tensors that hold what it gave. One whose nodes the exporter
fused with others has none, though it is right: so the module that is named is the earliest from
which a difference is carried, module by module, to the model's outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from converter.check.sums import is_float
from converter.diff.side import Side
from converter.ir.model import Model
from converter.ir.taps import chunked
from converter.plugins import Excerpt, Locating, Part
from converter.samples import Sample

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-3
"""Of a tensor's largest value: what rounding adds up to in a deep model stays below."""

_VALUES = 4096
_FEW = 16


def parting_module(model: Model, source: Locating, sample: Sample) -> Part | None:
    """The module in which a graph parts from its source, with the line that it parts at, where that
    is known; None where nothing is known of modules.

    Args:
        model: As it was read of the source, its nodes called after modules.
        source: What it was read of.
        sample: One on which their outputs part.

    Raises:
        ModelyardError: One of them can't be run.
    """
    seen = source.parts(sample.feeds)
    if not seen.ran:
        return None
    found = _Found.of(model, seen.tensors, sample)
    part = _first(seen.ran, found) or seen.ran[-1]
    calls = source.parts(sample.feeds, part.name)
    found = _Found.of(model, calls.tensors, sample)
    inside = _statement(calls.ran, part.name, found)
    return replace(part, place=inside.place) if inside is not None and inside.place else part


@dataclass
class _Found:
    """Which tensors of a source's are in a graph.

    Attributes:
        held: For each, by its key, the nodes that make a tensor that holds the same.
        shapes: The nodes that make tensors of a shape.
        telling: Those that hold more than one value: wherever the same is found, it is that.
        tensors: All that were looked for.
    """

    held: dict[str, list[str]] = field(default_factory=dict)
    shapes: dict[tuple[int, ...], list[str]] = field(default_factory=dict)
    telling: set[str] = field(default_factory=set)
    tensors: dict[str, Excerpt] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, tensors: Mapping[str, Excerpt], sample: Sample) -> _Found:
        """Runs the graph on a sample, and looks for the tensors."""
        found = cls({key: [] for key in tensors}, tensors=dict(tensors))
        by_shape = _by_shape(tensors)
        found.telling = {key for known in by_shape.values() for key in known.telling}
        side = Side("the model", model)
        for piece in chunked(model.graph, list(side.values)):
            for outputs in side.run(piece, [sample]):
                for name, array in outputs.items():
                    node = side.producer(name).name or ""
                    found.shapes.setdefault(array.shape, []).append(node)
                    if array.shape in by_shape and array.dtype.kind in "fiubV":
                        for key in by_shape[array.shape].alike(array):
                            found.held[key].append(node)
        return found

    def agrees(self, part: Part) -> bool:
        """Whether the graph has all that a part gave, or nothing that could stand for it."""
        return all(self._has(key, part.name) for key in part.outputs)

    def _has(self, key: str, path: str) -> bool:
        within = any(_within(node, path) for node in self.held[key])
        if within or (key in self.telling and self.held[key]):
            return True
        nodes = self.shapes.get(self.tensors[key].shape, ())
        return not any(_within(node, path) for node in nodes)


def _within(node: str, path: str) -> bool:
    """Whether a node is called after the module of a path, or one in it."""
    return not path or node == path or node.startswith((f"{path}.", f"{path}/"))


def _first(ran: Sequence[Part], found: _Found) -> Part | None:
    """The earliest that parts, and from which a difference is carried to the last one."""
    parted = set[int]()
    for number in reversed(range(len(ran))):
        if not found.agrees(ran[number]):
            after = _readers(ran, number) or _around(ran, number)
            if number == len(ran) - 1 or parted.intersection(after):
                parted.add(number)
    return ran[min(parted)] if parted else None


def _readers(ran: Sequence[Part], number: int) -> list[int]:
    """The later ones that take a tensor of one's, and the last one where that gives it."""
    given, last = set(ran[number].outputs), len(ran) - 1
    found = [i for i in range(number + 1, last) if given.intersection(ran[i].inputs)]
    return found + [last] * bool(given.intersection(ran[last].outputs))


def _around(ran: Sequence[Part], number: int) -> list[int]:
    """The module that a module is in, which may do with its tensors what nobody sees; none of a
    call, all of whose readers are known."""
    part = ran[number]
    after = range(number + 1, len(ran))
    around = (i for i in after if ran[i].name != part.name and _within(part.name, ran[i].name))
    return [] if part.call else [next(around, len(ran) - 1)]


def _statement(calls: Sequence[Part], path: str, found: _Found) -> Part | None:
    """What parts first of what a module calls, in the first of its runs that parts."""
    start = 0
    for end, part in enumerate(calls):
        if part.name == path and not part.call:
            if not found.agrees(part):
                first = _first(_fed(calls[start : end + 1]), found)
                return first if first is not part else None
            start = end + 1
    return None


def _fed(run: Sequence[Part]) -> list[Part]:
    """What hangs on a module's inputs, of what it calls; itself the last."""
    *calls, module = run
    fed, kept = set(module.inputs), []
    for part in calls:
        if fed.intersection(part.inputs):
            fed.update(part.outputs)
            kept.append(part)
    return [*kept, module]


@dataclass
class _Rows:
    """Tensors of one shape, a row each."""

    keys: list[str]
    values: Array
    limits: Array
    telling: list[str]

    def alike(self, array: Array) -> list[str]:
        """Those that hold what an array holds."""
        taken = _chosen(array)
        few = np.linspace(0, len(taken) - 1, min(_FEW, len(taken)), dtype=np.int64)
        rows = np.flatnonzero(_near(self.values[:, few], taken[few], self.limits))
        near = _near(self.values[rows], taken, self.limits[rows])
        return [self.keys[row] for row in rows[near]]


def _by_shape(tensors: Mapping[str, Excerpt]) -> dict[tuple[int, ...], _Rows]:
    grouped: dict[tuple[int, ...], list[str]] = {}
    for key, excerpt in tensors.items():
        grouped.setdefault(excerpt.shape, []).append(key)
    found = {}
    for shape, keys in grouped.items():
        values = np.stack([tensors[key].values.astype(np.float64) for key in keys])
        finite = np.where(np.isfinite(values), values, 0.0)
        floats = [is_float(tensors[key].values.dtype) for key in keys]
        limits = TOLERANCE * np.max(np.abs(finite), axis=1, initial=0.0) * floats
        telling = [k for k, row in zip(keys, finite, strict=True) if row.size and np.ptp(row) > 0]
        found[shape] = _Rows(keys, values, limits, telling)
    return found


def _near(rows: Array, values: Array, limits: Array) -> Array:
    """For each row, whether it holds the values, up to its limit; NaN is the same as NaN."""
    with np.errstate(invalid="ignore"):
        near = np.abs(rows - values) <= limits[:, None]
    same = near | (rows == values) | (np.isnan(rows) & np.isnan(values))
    return np.asarray(same.all(axis=1))


def _chosen(array: Array) -> Array:
    """What :class:`converter.plugins.Excerpt` has of a tensor."""
    flat = array.reshape(-1)
    if flat.size > _VALUES:
        flat = flat[np.arange(_VALUES) * (flat.size - 1) // (_VALUES - 1)]
    return flat.astype(np.float64)
