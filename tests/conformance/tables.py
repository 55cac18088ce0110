"""Outcomes by operator."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.conformance.cases import Case, Store
from tests.conformance.outcome import STATES, Outcome, counts
from tests.conformance.pool import run_cases
from tests.conformance.selection import excuse, known_to_run


@dataclass(frozen=True)
class Run:
    """One target on its cases.

    Attributes:
        target: The emitter.
        cases, outcomes: In the same order.
        seconds: Wall time of all of it.
    """

    target: str
    cases: list[Case]
    outcomes: list[Outcome]
    seconds: float


def run(store: Store, target: str, cases: list[Case], **how: Any) -> Run:
    """A target on cases; ``how`` is as for :func:`run_cases`."""
    start = time.perf_counter()
    outcomes = run_cases(store, cases, target, **how)
    if target == "onnx":
        outcomes = excuse(outcomes, known_to_run(store))
    return Run(target, cases, outcomes, time.perf_counter() - start)


def states_of(run: Run) -> list[str]:
    """The states to show: those that occur, in the order of :data:`STATES`."""
    found = counts(run.outcomes)
    return [state for state in STATES if found[state]]


def by_operator(outcomes: Iterable[Outcome]) -> Iterator[tuple[str, Counter[str], int]]:
    """Operator, number of cases in each state, how many needed constant inputs; by name."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.op, []).append(outcome)
    for op in sorted(groups, key=str.lower):
        group = groups[op]
        yield op, counts(group), len(with_constants(group))


def with_constants(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those that are taken only with inputs made constant."""
    return [o for o in outcomes if o.constants and o.state in ("passed", "built")]


def by_reason(outcomes: Iterable[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """Refusals by their reason without the node's name, most frequent first."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.state in ("refused", "unreadable"):
            groups.setdefault(_general(outcome), []).append(outcome)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


OWED = {"coreml": ("Core ML", "Core ML has no ")}
"""What refusals are called, and begin with, that a target's own runtime is the cause of."""


def owed(run: Run) -> list[Outcome]:
    """Refusals that the target's own runtime is the cause of: it hasn't what the case needs."""
    if run.target not in OWED:
        return []
    refused = [outcome for outcome in run.outcomes if outcome.state == "refused"]
    return [outcome for outcome in refused if is_owed(run.target, _general(outcome))]


def is_owed(target: str, reason: str) -> bool:
    """Whether a refusal's reason, or a part of it, is one of the runtime's own."""
    if target not in OWED:
        return False
    parts = (part.strip() for part in reason.split(";"))
    return any(part.split(": ", 1)[-1].startswith(OWED[target][1]) for part in parts)


def _general(outcome: Outcome) -> str:
    """A reason without what only this case has: the names of its nodes."""
    parts = dict.fromkeys(part.strip() for part in outcome.reason.split(";"))
    texts = []
    for part in parts:
        op, opened, rest = part.partition(" (")
        _, closed, reason = rest.partition("): ")
        texts.append(f"{op}: {reason}" if opened and closed and " " not in op else part)
    return "; ".join(dict.fromkeys(texts))
