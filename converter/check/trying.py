"""Holds an artifact to its source on probes: where they part, and on what.

A difference counts only where it isn't rounding: below what float32 holds of what the output
usually is, or at most :data:`~converter.verify.differences.AMPLIFIED` times what the source itself
does with rounding added to its input. Where the source answers NaN or infinity, the artifact may
answer anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from converter.check.accuracy import AccuracyResult, Tried, comparer_for
from converter.check.answers import Outputs
from converter.check.comparison import OutputResult
from converter.check.gate_result import GateResult, failed
from converter.check.gates import Limits
from converter.check.matching import Matching
from converter.check.output_gates import judge_values
from converter.check.probes import Probe, rows_of, takes
from converter.check.sums import Array, as_float, is_float
from converter.errors import ModelyardError
from converter.ir.lists import Rows
from converter.ir.model import TensorSpec
from converter.ir.value_ranges import ROUNDING
from converter.runtime.session import Progress, Session
from converter.samples.base import Sample
from converter.verify.differences import AMPLIFIED

SHAKES = 3
"""How often the source is run with rounding added, where an artifact parts from it."""

IT = "it"
"""What a probe is called where a sample's name goes."""

Answered = tuple[Probe, Outputs, "Outputs | ModelyardError"]
"""A probe, what the source gives for it, and what the artifact does."""


def run_probes(
    answered: Iterable[tuple[Probe, Outputs]],
    artifact: Session,
    progress: Progress | None = None,
    *,
    remote: bool = False,
) -> Iterator[Answered]:
    """Runs an artifact on probes that its interface allows.

    Args:
        answered: The probes, each with what the source gives.
        artifact: What runs.
        progress: Told of each.
        remote: Whether it is on a server, which may refuse a batch as too large, and edges: JSON
            has no NaN.
    """
    for probe, expected in answered:
        if not takes(artifact.inputs, probe.feeds):
            continue
        if progress:
            progress(f"probing with {probe.name}")
        try:
            yield probe, expected, artifact.run(probe.feeds)
        except ModelyardError as error:
            if not (remote and (probe.rows or probe.kind == "edge")):
                yield probe, expected, error


def _names(lists: Sequence[Rows]) -> set[str]:
    return {name for rows in lists for name in rows.outputs}


def magnitudes(outputs: Iterable[Outputs]) -> dict[str, float]:
    """The largest finite magnitude of each float output, over all samples."""
    found: dict[str, float] = {}
    for sample in outputs:
        for name, array in sample.items():
            if is_float(array.dtype):
                values = np.abs(as_float(array))
                largest = float(np.max(values[np.isfinite(values)], initial=0.0))
                found[name] = max(found.get(name, 0.0), largest)
    return found


def rows_in(
    ran: Iterable[Answered], outputs: Sequence[TensorSpec], lists: Sequence[Rows] = ()
) -> Iterator[tuple[Outputs, Outputs]]:
    """What probes of the samples' own kind give, row by row.

    Args:
        ran: Probes with what the source gave, and what the artifact gave or how it failed.
        outputs: The outputs' specs, which say where the batch axis is.
        lists: Lists are left out: their rows may stand elsewhere.

    Yields:
        The source's outputs for a row, and the artifact's.
    """
    listed = _names(lists)
    for probe, expected, found in ran:
        if isinstance(found, ModelyardError):
            continue
        expected = {name: array for name, array in expected.items() if name not in listed}
        if probe.kind == "mix":
            yield expected, found
        elif probe.kind == "mixes":
            count = len(probe.rows)
            yield from zip(
                rows_of(expected, outputs, count), rows_of(found, outputs, count), strict=True
            )


def parted(
    tried: Sequence[Tried], ran: Sequence[Answered], specs: Sequence[TensorSpec]
) -> list[tuple[Sample, Outputs, Outputs]]:
    """The probes on which an artifact parts, as samples, each with what the source and the artifact
    give; of a batch of edges the one that it is.

    Args:
        tried: What probes told,
        ran: of each.
        specs: The model's outputs.
    """
    found = []
    for item, (probe, expected, given) in zip(tried, ran, strict=True):
        if item.missed is None or item.kind == "wide" or isinstance(given, ModelyardError):
            continue
        feeds = probe.feeds
        if item.probe in probe.rows and probe.instead:
            row, count = probe.rows.index(item.probe), len(probe.rows)
            feeds = probe.instead[row].feeds
            expected, given = (rows_of(side, specs, count)[row] for side in (expected, given))
        found.append((Sample(item.probe, dict(feeds)), expected, given))
    return found


@dataclass(frozen=True)
class Trier:
    """Judges what an artifact gave on probes.

    Attributes:
        limits: What is allowed.
        shaken: Runs the source with rounding added, by a seed.
        outputs: What is known of the outputs.
        lists: Those that are lists.
        usual: The largest magnitude of each output on the samples.
        known: The largest error of each output on the samples: a lower precision may err as much
            on a probe, which may be one number and small.
    """

    limits: Limits
    shaken: Callable[[Outputs, int], Outputs]
    outputs: Sequence[TensorSpec] = ()
    lists: Sequence[Rows] = ()
    usual: Mapping[str, float] | None = None
    known: Mapping[str, float] = field(default_factory=dict)

    def judge(
        self, result: AccuracyResult, ran: Iterable[Answered], left_out: Sequence[str] = ()
    ) -> AccuracyResult:
        """Adds to a result what probes told.

        Args:
            result: What the samples told: its errors are what a lower precision may err on a probe.
            ran: Probes with what the source gave, and what the artifact gave or how it failed.
            left_out: Names of probes that weren't run, for the report.
        """
        known = {output.name: output.max_abs or 0.0 for output in result.comparison.outputs}
        trier = replace(self, known=known)
        tried = tuple(trier._tried(*item) for item in ran)
        return replace(result, tried=tried, left_out=tuple(left_out))

    def _tried(self, probe: Probe, expected: Outputs, found: Outputs | ModelyardError) -> Tried:
        """What a probe tells: the first gate that is missed, on whichever row."""
        count = len(probe.rows) if probe.kind == "edge" and probe.rows else 1
        tried = Tried(probe.name, probe.kind, count, probe.macs)
        if isinstance(found, ModelyardError):
            why = f"it refuses an input that the source takes: {found.message}"
            return replace(tried, missed=failed("interface", None, None, why))
        if probe.kind in ("mix", "mixes") and not self.limits.exact:
            return tried  # they count as rows where errors stand beside variance
        if probe.kind == "edge":  # where everything ties, any row of a list may be found
            expected = {n: a for n, a in expected.items() if n not in _names(self.lists)}
        proof = _Proof(self.shaken, probe, self.outputs)
        limits = self.limits.at_other_sizes() if probe.kind == "sizes" else self.limits
        for row, name, r, c in self._parts(probe, expected, found):
            for gate, output in self._gates(limits, r, c):
                if not (self.limits.exact and output and proof.explains(output, row, r, c)):
                    return replace(tried, probe=name, missed=gate)
        return tried

    def _parts(
        self, probe: Probe, expected: Outputs, found: Outputs
    ) -> Iterator[tuple[int | None, str, Outputs, Outputs]]:
        """What is compared: in float32 each row, where it can be told; then all of it."""
        count = len(probe.rows)
        if self.limits.exact and all(_alike(expected, found, name) for name in expected):
            sides = (rows_of(side, self.outputs, count) for side in (expected, found))
            for row, (r, c) in enumerate(zip(*sides, strict=True)):
                name = probe.rows[row]
                yield row, name if probe.kind == "edge" else f"{name} of {probe.name}", r, c
        yield None, probe.name, expected, found

    def _gates(
        self, limits: Limits, expected: Outputs, found: Outputs
    ) -> Iterator[tuple[GateResult, str | None]]:
        """The gates that are missed, each with its output; where the source gives nothing finite,
        none is."""
        listed = _names(self.lists)
        known = {
            output: _finite(np.asarray(r), np.asarray(found[output]))
            for output, r in expected.items()
            if output in found and (output in listed or not _equal(r, found[output]))
        }
        for output in expected:
            if output not in found:
                yield failed("interface", None, None, f"{output} is missing"), None
        comparer = comparer_for(self.outputs, Matching.of(self.lists, self.limits.cosine))
        r, c = ({n: pair[side] for n, pair in known.items()} for side in (0, 1))
        comparer.add(r, c, IT)
        for result in comparer.result().outputs:
            gate = self._gate(limits, result)
            if gate is not None:
                yield gate, result.name

    def _gate(self, limits: Limits, output: OutputResult) -> GateResult | None:
        if output.shape_problem:
            why = f"{output.name} has another shape: {output.shape_problem}"
            return failed("interface", None, None, why)
        usual = (self.usual or {}).get(output.name, 0.0)
        least = ROUNDING * usual if limits.exact else self.known.get(output.name, 0.0)
        near = output.max_abs is None or output.max_abs <= least
        if output.kind == "float" and not output.introduced and near:
            return None
        missed = [g for g in judge_values(limits, [output]) if g.status == "failed"]
        return replace(missed[0], why=missed[0].why.removesuffix(f" on {IT}")) if missed else None


class _Proof:
    """Whether rounding explains a difference: asks the source, once for a probe.

    Args:
        shaken: Runs the source with rounding added, by a seed.
        probe: What it is run on.
        outputs: The model's.
    """

    def __init__(
        self, shaken: Callable[[Outputs, int], Outputs], probe: Probe, outputs: Sequence[TensorSpec]
    ) -> None:
        self._shaken, self._probe, self._outputs = shaken, probe, outputs
        self._moved: list[Outputs] | None = None

    def explains(self, output: str, row: int | None, r: Outputs, c: Outputs) -> bool:
        """For one output, of one row or of all of them."""
        if self._moved is None:
            try:
                self._moved = [self._shaken(self._probe.feeds, seed) for seed in range(SHAKES)]
            except ModelyardError:  # it takes no other values
                self._moved = []
        moved = [{output: np.asarray(each[output])} for each in self._moved]
        if row is not None:
            count = len(self._probe.rows)
            moved = [rows_of(each, self._outputs, count)[row] for each in moved]
        known = [each[output] for each in moved if output in each]
        return bool(known) and _explained(np.asarray(r[output]), np.asarray(c[output]), known)


def _alike(expected: Outputs, found: Outputs, name: str) -> bool:
    return name in found and np.shape(expected[name]) == np.shape(found[name])


def _equal(r: Array, c: Array) -> bool:
    """Whether both hold the same, in one type: no gate is missed by that."""
    return np.asarray(r).dtype == np.asarray(c).dtype and np.array_equal(r, c)


def _finite(r: Array, c: Array) -> tuple[Array, Array]:
    """Both with zeros where the reference is NaN or infinite: that counts for nothing."""
    if not is_float(r.dtype) or r.shape != c.shape or r.dtype.kind == "c":
        return r, c
    known = np.isfinite(as_float(r))
    if known.all():
        return r, c
    return np.where(known, r, np.zeros_like(r)), np.where(known, c, np.zeros_like(c))


def _explained(r: Array, c: Array, moved: Sequence[Array]) -> bool:
    """Whether an output differs by no more than rounding moves it in the source."""
    if any(other.shape != r.shape for other in moved):
        return True  # how much there is, hangs on rounding
    if r.shape != c.shape:
        return False
    if not is_float(r.dtype):
        unsteady = np.zeros(r.shape, bool)
        for other in moved:
            unsteady |= np.asarray(other != r)
        return bool((unsteady | np.asarray(c == r)).all())
    one, other = as_float(r), as_float(c)
    if (np.isfinite(one) & ~np.isfinite(other)).any():
        return any((~np.isfinite(as_float(each)) & np.isfinite(one)).any() for each in moved)
    known = np.isfinite(one) & np.isfinite(other)
    most = max(_apart(one, as_float(each), known) for each in moved)
    return _apart(one, other, known) <= AMPLIFIED * most


def _apart(one: Array, other: Array, known: Array) -> float:
    """The root of the mean squared difference where both are known and finite."""
    both = known & np.isfinite(other)
    apart = np.where(both, other, 0.0) - np.where(both, one, 0.0)
    return float(np.linalg.norm(apart)) / math.sqrt(max(int(np.count_nonzero(known)), 1))
