"""Which cases a target is held to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tests.conformance.baseline import Baseline, baseline
from tests.conformance.cases import Case, Store
from tests.conformance.outcome import Outcome
from tests.conformance.pool import run_cases
from tests.sweep import taken

SELECTIONS = {
    "all": "every case",
    "plain": "plain tensors, default domain",
    "runs": "plain tensors, default domain, and ONNX Runtime itself passes the case as it is",
}

_DEFAULTS = {"onnx": "plain", "tensorrt": "all", "tensorrt-rtx": "all"}


def selection_of(target: str) -> str:
    """Which of :data:`SELECTIONS` a target is held to."""
    return _DEFAULTS.get(target, "runs")


@dataclass(frozen=True)
class Filters:
    """What of a selection to run.

    Attributes:
        only: Patterns for names of cases; ``test_conv*``, or any part of a name.
        ops: Operators under test.
        share: One case in so many, by the hash of its name and of ``salt``.
    """

    only: Sequence[str] = ()
    ops: Sequence[str] = ()
    share: int = 1
    salt: str = ""

    def take(self, case: Case) -> bool:
        """Whether the case is among them."""
        return (
            (not self.only or any(_matches(case.name, pattern) for pattern in self.only))
            and (not self.ops or case.op in self.ops)
            and taken(case.name, self.share, self.salt)
        )


def chosen(store: Store, target: str, filters: Filters | None = None) -> list[Case]:
    """The cases that a target is to run."""
    cases, selection = list(store.cases.values()), selection_of(target)
    if selection != "all":
        cases = [case for case in cases if not case.special]
    if selection == "runs":
        known = known_to_run(store)
        cases = [case for case in cases if known[case.name] == "passed"]
    return [case for case in cases if filters is None or filters.take(case)]


def known_to_run(store: Store) -> dict[str, str]:
    """The state of each plain case in ONNX Runtime itself, through nothing of ours."""
    return baseline(store, lambda cases: run_cases(store, cases, Baseline.target))


def excuse(outcomes: Sequence[Outcome], baseline: Mapping[str, str]) -> list[Outcome]:
    """For ``onnx``: what ONNX Runtime can't do itself isn't held against our file in it.

    A wrong result is excused where the case's own model gives a wrong one too; a file that is
    rejected, where the case's own is not run rightly either.
    """
    return [
        replace(outcome, state="beyond") if _is_beyond(outcome, baseline) else outcome
        for outcome in outcomes
    ]


def _is_beyond(outcome: Outcome, baseline: Mapping[str, str]) -> bool:
    itself = baseline.get(outcome.name)
    if outcome.state == "wrong":
        return itself == "wrong"
    return outcome.state == "rejected" and itself in ("wrong", "rejected")


def _matches(name: str, pattern: str) -> bool:
    if re.search(r"[*?\[]", pattern):
        return fnmatchcase(name, pattern)
    return name == pattern or (not pattern.startswith("test_") and pattern in name)
