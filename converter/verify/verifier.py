"""Compares a model before and after a pass, and takes back the pass where they differ.

Whoever rewrites a model doesn't get to vouch for it: ONNX Runtime runs both, as they are
written, on the same inputs. How close is close enough: :mod:`converter.verify.differences`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from converter.analysis.batch import Ran
from converter.errors import ModelError
from converter.ir.facts import RANDOM
from converter.ir.model import Model
from converter.ir.rounding import with_rounded_weights
from converter.runtime.ort import OrtSession, RefusedModel
from converter.verify.checker import checker_says
from converter.verify.differences import (
    AMPLIFIED,
    FLOOR,
    Difference,
    Tolerance,
    difference,
    identical,
    largest_change,
    magnitude,
    overflows,
    tolerance_of,
)
from converter.verify.probes import Array, Probe, contents, effort, shaken

Outputs = dict[str, Array]

MOVED = ("inputs", "weights", "weights", "weights")
"""What is moved in its last places, each time otherwise, to see how much rounding does."""


@dataclass(frozen=True)
class Verdict:
    """What comparing two models came to.

    Attributes:
        ok: They compute the same.
        reason: Where they don't: on which input, in which output, by how much.
        cosine: Least cosine over all float outputs and probes; None where there was none.
        max_abs: Largest absolute difference in a float output.
        skipped: What could not be compared, and why, one line each.
        how: How it was compared, and what came of it, where these figures don't say.
    """

    ok: bool
    reason: str = ""
    cosine: float | None = None
    max_abs: float | None = None
    skipped: tuple[str, ...] = ()
    how: str = ""


class Verifier:
    """Runs a model and its rewritten versions on the same probes.

    Nothing is run before the first comparison. Each version is compared with the last accepted
    one and with the original, so that many small steps can't add up to a large one.

    Args:
        model: The original; not changed while the verifier is in use.
        probes: As :func:`build_probes` makes them.
        overflow_counts: Whether infinities and NaN, on edges too, have to stay where they are.
        known: What the original gave already, as it is written: inputs and outputs by name.
    """

    def __init__(
        self,
        model: Model,
        probes: Sequence[Probe],
        *,
        overflow_counts: bool = True,
        known: Iterable[Ran] = (),
    ) -> None:
        self._original = self._last = self._seen = model
        self._probes = list(probes)
        self._overflow_counts = overflow_counts
        wanted = {contents(probe.feeds) for probe in probes}
        self._known = {
            held: outputs for feeds, outputs in known if (held := contents(feeds)) in wanted
        }
        self._skipped: list[str] = []
        self._results: list[Outputs] = []
        self._accepted: list[Outputs] = []
        self._candidate: list[Outputs] | None = None
        self._unsteady: set[str] = set()
        self._moved: dict[str, list[Outputs]] = {}
        self._check_level: int | None = None
        self._fine: Model | None = None
        self._tolerance: Tolerance | None = None

    def prepare(self) -> None:
        """Runs the original, once.

        Raises:
            ModelError: ONNX Runtime refuses the original, or it refuses a sample.
        """
        if self._tolerance is not None:
            return
        session = OrtSession(self._original.graph, plain=True)
        try:
            self._run_original(session)
            if any(node.op_type in RANDOM for node in self._original.nodes()):
                self._find_unsteady(session)
        finally:
            session.close()
        self._accepted = self._results
        self._tolerance = replace(tolerance_of(self._original), floors=self._floors())

    def _run_original(self, session: OrtSession) -> None:
        kept, waiting = [], self._probes[::-1]
        while waiting:
            probe = waiting.pop()
            try:
                found = self._known.get(contents(probe.feeds))
                self._results.append(session.run(probe.feeds) if found is None else found)
            except ModelError as error:
                if probe.kind == "sample":
                    raise RefusedModel(
                        f"the model does not run on {probe.name}: {error.message}",
                        hint=error.hint,
                        details=error.details,
                    ) from error
                self._skipped.append(f"{probe.name}: the original refuses it ({error.message})")
                waiting += [probe.instead] if probe.instead else []
                continue
            kept.append(probe)
        self._probes = kept

    def _find_unsteady(self, session: OrtSession) -> None:
        """Outputs of a model with random operators that aren't the same every time."""
        for probe, before in zip(self._probes, self._results, strict=True):
            again = session.run(probe.feeds)
            self._unsteady |= {
                name for name, array in before.items() if not identical(array, again[name])
            }
        self._skipped += [f"output {name}: it is random" for name in sorted(self._unsteady)]

    def _floors(self) -> dict[str, float]:
        sure = [
            outputs
            for probe, outputs in zip(self._probes, self._results, strict=True)
            if probe.kind == "sample" or probe.name == "noise"
        ]
        names = [spec.name for spec in self._original.outputs]
        return {
            name: FLOOR * max((magnitude(outputs[name]) for outputs in sure), default=0.0)
            for name in names
        }

    @property
    def ran(self) -> list[Ran]:
        """What the last accepted model gave: inputs and outputs by name, of each probe."""
        return self._with_feeds(self._accepted)

    @property
    def ran_before(self) -> list[Ran]:
        """What the original gave, likewise."""
        return self._with_feeds(self._results)

    def _with_feeds(self, results: Sequence[Outputs]) -> list[Ran]:
        feeds = (probe.feeds for probe in self._probes)
        return list(zip(feeds, results, strict=True)) if results else []

    @property
    def effort(self) -> str:
        """What comparing takes: on how many inputs, and for how long, for people."""
        return effort(self._probes, models=1 if self._results else 2)

    def checker_says(self, candidate: Model) -> str:
        """What onnx's checker has against a version, as strict as the original lets it be."""
        if self._check_level is None:
            graph = self._original.graph
            self._check_level = next((at for at in (2, 1) if checker_says(graph, at) == ""), 0)
            if self._check_level == 0:
                self._skipped.append("onnx.checker: it refuses the original too")
        if candidate is self._fine:  # a pass's result, before what all of them made is compared
            return ""
        wrong = checker_says(candidate.graph, self._check_level)
        self._fine = None if wrong else candidate
        return wrong

    def compare(self, candidate: Model) -> Verdict:
        """Whether ``candidate`` is valid and computes what the last accepted model does.

        Args:
            candidate: A rewritten version.

        Raises:
            ModelError: from :meth:`prepare`, about the original.
        """
        self.prepare()
        self._candidate = None
        self._seen = candidate
        wrong = _interface_differs(self._last, candidate) or self.checker_says(candidate)
        if wrong:
            return self._verdict(wrong)
        results: list[Outputs] = []
        try:
            session = OrtSession(candidate.graph, plain=True)
        except ModelError as error:
            return self._verdict(error.message)
        try:
            for probe in self._probes:
                results.append(session.run(probe.feeds))
        except ModelError as error:
            return self._verdict(f"on {self._probes[len(results)].name}: {error.message}")
        finally:
            session.close()
        verdict = self._compare_results(results)
        if verdict.ok:
            self._candidate = results
        return verdict

    def accept(self) -> None:
        """Makes the version that was compared last, and found right, the one to compare with."""
        if self._candidate is not None:
            self._accepted, self._candidate = self._candidate, None
            self._last = self._seen

    def _verdict(self, reason: str) -> Verdict:
        return Verdict(False, reason, skipped=tuple(self._skipped))

    def _compare_results(self, results: Sequence[Outputs]) -> Verdict:
        notes: list[str] = []
        step = self._differences(self._accepted, results, notes)
        if step.reason:
            return self._verdict(step.reason)
        if self._accepted is not self._results:
            drift = self._differences(self._results, results, [])
            if drift.reason:
                return self._verdict(f"{drift.reason}, compared with the original")
        return Verdict(True, "", step.cosine, step.max_abs, (*self._skipped, *notes))

    def _differences(
        self, reference: Sequence[Outputs], results: Sequence[Outputs], notes: list[str]
    ) -> Difference:
        """The first difference that is too much, else the worst of all."""
        assert self._tolerance is not None
        worst = Difference()
        for probe, before, after in zip(self._probes, reference, results, strict=True):
            for name in (name for name in before if name not in self._unsteady):
                found = difference(before[name], after[name], self._tolerance, name)
                where = f"on {probe.name}, output {name}: {found.reason}"
                if not found.reason:
                    worst = worst.worse(found)
                elif self._is_beyond(probe, before[name], after[name]):
                    notes.append(f"{where}; beyond what a float can hold")
                elif what := self._excused(probe, name, found):
                    notes.append(f"{where}; rounding of the {what} moves the original as much")
                else:
                    return replace(found, reason=where)
        return worst

    def _is_beyond(self, probe: Probe, before: Array, after: Array) -> bool:
        return (
            not self._overflow_counts
            and probe.kind == "edge"
            and (overflows(before) or overflows(after))
        )

    def _excused(self, probe: Probe, name: str, found: Difference) -> str:
        """What moves the original as much, when it is off in its last places."""
        if found.max_abs is None:
            return ""
        before = self._results[self._probes.index(probe)][name]
        for what, moved in zip(MOVED, self._moved_runs(probe), strict=True):
            if found.max_abs <= AMPLIFIED * largest_change(before, moved[name]):
                return what
        return ""

    def _moved_runs(self, probe: Probe) -> Iterator[Outputs]:
        """What the original gives with its inputs moved, and with its weights."""
        kept = self._moved.setdefault(probe.name, [])
        for place in range(len(MOVED)):
            if place == len(kept):
                kept.append(self._run_moved(probe, place))
            yield kept[place]

    def _run_moved(self, probe: Probe, seed: int) -> Outputs:
        """With the inputs moved (0), or the weights."""
        model = self._original.graph
        model = with_rounded_weights(model, seed) if seed else model
        with closing(OrtSession(model, plain=True)) as session:
            return session.run(probe.feeds if seed else shaken(probe.feeds))


def _interface_differs(last: Model, candidate: Model) -> str:
    for kind in ("inputs", "outputs"):
        before, after = getattr(last, kind), getattr(candidate, kind)
        if [spec.name for spec in before] != [spec.name for spec in after]:
            return f"the {kind} are now {', '.join(spec.name for spec in after) or 'none'}"
        for old, new in zip(before, after, strict=True):
            if old.dtype != new.dtype:
                return f"{kind[:-1]} {old.name} is now {new.describe()}, not {old.describe()}"
    return ""
