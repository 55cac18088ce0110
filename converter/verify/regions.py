"""Compares two models that round to integers, each region of the one with that of the other.

Integers of int8 drift apart along a graph: one that falls on the other side of a rounding takes
others with it. So both models get the same integers at all borders: tensors of the main graph that
both have under one name, of one type, and that stand for the same numbers in some order of axes
(:mod:`converter.verify.exact` says which). What a region makes of them may be one step apart.

Where a rewrite moved or took away a rounding, that is no border, and lies inside of a region. Such
a region may be as far from the model's as the model's own is from exact arithmetic, on either side.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np
import onnx_ir

from converter.analysis.intermediate_outputs import UNKNOWN_ELEMENTS, reads
from converter.errors import ModelError
from converter.ir.edit import static_shape
from converter.ir.facts import RANDOM
from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from converter.text import words
from converter.verify.differences import (
    FLOOR,
    Tolerance,
    difference,
    identical,
    largest_change,
    magnitude,
    overflows,
    tolerance_of,
)
from converter.verify.exact import exact_form, rounds
from converter.verify.probes import LOUD, SIZES, Array, Feeds, Probe, sizes_of
from converter.verify.verifier import Verdict, Verifier

DataType = onnx_ir.DataType
Perm = tuple[int, ...]

MOST_BYTES = 256 << 20
"""Bytes of all borders' integers and exact numbers above which some of them are none."""

_BYTES = 12
"""What an element of a border takes: integers on two probes and exact numbers, of two models."""

_MOST_AXES = 5

_STORED = frozenset({DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16})


class RoundingVerifier:
    """Compares versions of a model that rounds to integers: without rounding, then the integers.

    Args:
        model: The original.
        exact: That without rounding (:func:`converter.verify.exact.exact_form`).
        probes: As :func:`converter.verify.probes.build_probes` makes them. Without rounding all but
            the edges tell: beside zero points, silence is float32's rounding, for a normalization
            to scale up.
    """

    def __init__(self, model: Model, exact: Model, probes: Sequence[Probe]) -> None:
        real = [p for p in probes if p is probes[0] or p.kind == "sample" or p.name in SIZES]
        loud = [probe for probe in probes if probe.name.startswith(LOUD)]
        self._exact = Verifier(exact, real, overflow_counts=False)
        self._regions = _Regions(model, exact, [*real[:1], *loud[:1]])

    def compare(self, candidate: Model) -> Verdict:
        """As :meth:`Verifier.compare`.

        Raises:
            ModelError: ONNX Runtime doesn't run the original without rounding.
        """
        self._exact.prepare()
        try:
            exact = exact_form(candidate)
        except ModelError as error:
            return Verdict(True, skipped=(f"not compared: {error.message}",))
        verdict = self._exact.compare(exact)
        if not verdict.ok:
            return verdict
        try:
            found = self._regions.compare(candidate, exact)
        except ModelError as error:
            how = f"compared without rounding; integers not compared: {error.message}"
            return replace(verdict, how=how)
        if found.reason:
            return replace(verdict, ok=False, reason=found.reason)
        return replace(verdict, how=found.told())


@dataclass
class _Found:
    """What comparing integers came to.

    Attributes:
        roundings, borders: How many tensors are rounded, and how many of them are borders.
        reason: In words, where something is too far apart.
        steps: The most that integers are apart.
        apart, values: How many integers are, of how many.
        behind: Tensors that only a rounding inside of their region explains.
    """

    roundings: int
    borders: int
    reason: str = ""
    steps: int = 0
    apart: int = 0
    values: int = 0
    behind: set[str] = field(default_factory=set)

    def note(self, before: Array, after: Array, apart: _Apart) -> None:
        """Counts a tensor in."""
        if _is_stored(before) and math.isfinite(apart.far):
            self.steps = max(self.steps, int(apart.far))
            self.apart += int(np.count_nonzero(before != after))
            self.values += before.size

    def told(self) -> str:
        """For people."""
        far = "equal"
        if self.steps:
            share = words.number(100 * self.apart / self.values, 2)
            plural = "s" if self.steps > 1 else ""
            far = f"at most {self.steps} step{plural} apart ({share}% of them)"
        said = (
            f"compared without rounding; integers of {self.borders} of {self.roundings} tensors, "
            f"from the same ones before them: {far}"
        )
        moved = f"; {len(self.behind)} behind roundings that were moved" if self.behind else ""
        return said + moved


class _Regions:
    """A model's integers, and what versions of it make of them.

    Args:
        model: The original.
        exact: That without rounding.
        probes: One that it runs on, and maybe one whose values reach the integers' ends.
    """

    def __init__(self, model: Model, exact: Model, probes: Sequence[Probe]) -> None:
        self._model, self._without, self._probes = model, exact, probes
        self._tolerance = tolerance_of(exact)
        self._names: list[str] = []
        self._exact: Feeds = {}
        self._whole: list[Feeds] = []

    def _prepare(self) -> None:
        """Runs the original with all that it rounds as outputs, with and without rounding."""
        if self._whole:
            return
        if any(node.op_type in RANDOM for node in self._model.nodes()):
            raise ModelError("it is random", code="model")
        if not self._probes:
            raise ModelError("there is no sample", code="model")
        first = self._probes[0]
        self._names = _within_memory(self._model, _rounded(self._model), first.feeds)
        self._exact = _run(_tapped(self._without, self._names), [first.feeds])[0]
        tapped = _tapped(self._model, self._names)
        try:
            whole = _run(tapped, [probe.feeds for probe in self._probes])
        except ModelError:  # large values are an edge, which a model may refuse
            self._probes = [first]
            whole = _run(tapped, [first.feeds])
        floors = {spec.name: FLOOR * magnitude(whole[0][spec.name]) for spec in self._model.outputs}
        self._tolerance = replace(self._tolerance, floors=floors)
        self._whole = whole

    def compare(self, candidate: Model, exact: Model) -> _Found:
        """Feeds a version the original's integers at all borders, and compares what it gives.

        Args:
            candidate: The version.
            exact: That without rounding.

        Raises:
            ModelError: ONNX Runtime doesn't run one of them so.
        """
        self._prepare()
        ours, theirs = _rounded(self._model), _rounded(candidate)
        alike = [name for name in self._names if ours[name] == theirs.get(name)]
        orders = self._orders(exact, alike)
        found = _Found(len(ours), len(orders))
        feeds = [
            probe.feeds | {_fed(name): _turned(whole[name], at) for name, at in orders.items()}
            for probe, whole in zip(self._probes, self._whole, strict=True)
        ]
        results = _run(_cut(candidate, orders), feeds)
        for at, probe in enumerate(self._probes):
            wrong = self._first_wrong(found, at, results[at], orders)
            if wrong:
                found.reason = f"on {probe.name}, {wrong}"
                break
        return found

    def _orders(self, exact: Model, names: Collection[str]) -> dict[str, Perm]:
        """In which order a version has the axes of tensors that stand for the same numbers."""
        after = _run(_tapped(exact, names), [self._probes[0].feeds])[0]
        limit = self._tolerance.relative
        orders = {name: _order(self._exact[name], after[name], limit) for name in names}
        return {name: order for name, order in orders.items() if order is not None}

    def _first_wrong(
        self, found: _Found, at: int, results: Feeds, orders: Mapping[str, Perm]
    ) -> str:
        """What is too far apart on a probe, in words."""
        without: Feeds = {}
        for name, after in results.items():
            whole = self._whole[at][name]
            before = _turned(whole, orders.get(name))
            if self._probes[at].kind == "edge" and (overflows(before) or overflows(after)):
                continue
            apart = _apart(before, after, self._tolerance, name)
            found.note(before, after, apart)
            if not apart.reason:
                continue
            if not without:  # seldom asked for
                without = self._without_rounding(at, orders)
            if apart.far > apart.limit + 2 * _own_rounding(whole, without[name]):
                return f"{name}, from the integers before it: {apart.reason}"
            found.behind.add(name)
        return ""

    def _without_rounding(self, at: int, borders: Collection[str]) -> Feeds:
        """What the original's regions give for its integers at borders on a probe, unrounded."""
        fed = {_fed(name): self._whole[at][name] for name in borders}
        regions = exact_form(_cut(self._model, borders))
        return _run(regions, [self._probes[at].feeds | fed])[0]


@dataclass(frozen=True)
class _Apart:
    """How far a version's tensor is from the original's.

    Attributes:
        far: The largest difference: in steps of integers, or as the numbers are.
        limit: The largest that passes.
        reason: Why it doesn't pass, in words.
    """

    far: float
    limit: float
    reason: str


def _apart(before: Array, after: Array, tolerance: Tolerance, name: str) -> _Apart:
    if _is_stored(before) and before.shape == after.shape and before.dtype == after.dtype:
        steps = int(np.max(_steps(before, after), initial=0))
        limit = 1 + tolerance.relative * float(np.max(np.abs(before.astype(np.int32)), initial=0))
        return _Apart(steps, limit, f"{steps} steps apart" if steps > limit else "")
    found = difference(before, after, tolerance, name)
    limit = tolerance.relative * magnitude(before) + tolerance.floors.get(name, 0.0)
    return _Apart(math.inf if found.max_abs is None else found.max_abs, limit, found.reason)


def _own_rounding(whole: Array, without: Array) -> float:
    """How far roundings inside of a region move what it gives, at most: in steps of integers, or as
    the numbers are."""
    if _is_stored(whole):
        ends = np.iinfo(whole.dtype)
        moved = np.abs(np.clip(without, ends.min, ends.max) - whole)
        return max(0.0, float(np.max(moved, initial=0.0)) - 0.5)
    if whole.dtype.kind == "f":
        return largest_change(whole, without)
    return 0.0 if identical(whole, without) else math.inf


def _steps(one: Array, other: Array) -> Array:
    return np.abs(one.astype(np.int32) - other.astype(np.int32))


def _is_stored(array: Array) -> bool:
    return array.dtype.kind in "iu" and array.dtype.itemsize <= 2


def _order(before: Array, after: Array, limit: float) -> Perm | None:
    """The order of axes in which ``after`` is ``before``; None where there is none, or several
    that aren't the same."""
    if sorted(before.shape) != sorted(after.shape) or before.ndim > _MOST_AXES:
        return None
    far, found = limit * magnitude(before), dict[Perm, Perm]()
    for perm in permutations(range(before.ndim)):
        told = tuple(axis for axis in perm if before.shape[axis] != 1)
        fits = tuple(before.shape[axis] for axis in perm) == after.shape
        if fits and told not in found and largest_change(before.transpose(perm), after) <= far:
            found[told] = perm
    return next(iter(found.values())) if len(found) == 1 else None


def _turned(array: Array, order: Perm | None) -> Array:
    return array if order is None else np.ascontiguousarray(array.transpose(order))


# -- models ------------------------------------------------------------------------------------


def _rounded(model: Model) -> dict[str, DataType]:
    """The types of the main graph's tensors that are rounded to 8 or 16 bits, and used."""
    used, found = set(model.graph.graph.outputs), dict[str, DataType]()
    for node in reversed(model.graph.graph):
        if used.isdisjoint(node.outputs):
            continue
        used.update(reads(node))
        given = node.outputs[0]
        if rounds(node) and given in used and given.dtype is not None and given.dtype in _STORED:
            found[given.name or ""] = given.dtype
    return found


def _within_memory(model: Model, names: Collection[str], seen: Feeds) -> list[str]:
    """The smallest of these, so that the integers and exact numbers of all are within bounds."""
    sizes = sizes_of(model.inputs, seen)
    values = {value.name: value for node in model.graph.graph for value in node.outputs}
    elements = {
        name: math.prod(
            dim if isinstance(dim, int) else sizes.get(str(dim), 1)
            for dim in static_shape(values[name]) or [UNKNOWN_ELEMENTS]
        )
        for name in names
    }
    chosen, taken = set[str](), 0
    for name in sorted(names, key=lambda name: elements[name]):
        taken += _BYTES * elements[name]
        if taken <= MOST_BYTES:
            chosen.add(name)
    return [name for name in names if name in chosen]


def _values(graph: onnx_ir.Graph, names: Collection[str]) -> list[onnx_ir.Value]:
    return [value for node in graph for value in node.outputs if value.name in names]


def _tapped(model: Model, names: Collection[str]) -> Model:
    """The model with these tensors as outputs too."""
    made = model.copy()
    graph = made.graph.graph
    graph.outputs.extend(v for v in _values(graph, names) if not v.is_graph_output())
    return made


def _cut(model: Model, names: Collection[str]) -> Model:
    """The model with these tensors as outputs, and in their place inputs to what reads them."""
    made = _tapped(model, names)
    graph = made.graph.graph
    for value in _values(graph, names):
        fed = onnx_ir.Value(name=_fed(value.name or ""), type=value.type, shape=value.shape)
        for use in list(value.uses()):
            use.node.replace_input_with(use.idx, fed)
        graph.inputs.append(fed)
    return made


def _fed(name: str) -> str:
    return f"{name}/fed"


def _run(model: Model, feeds: Sequence[Feeds]) -> list[Feeds]:
    """What ONNX Runtime gives for each of some inputs."""
    session = OrtSession(model.graph, plain=True)
    try:
        return [session.run(each) for each in feeds]
    finally:
        session.close()
