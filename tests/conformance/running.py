"""A target on the cases it is held to."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance.baseline import Baseline, baseline
from tests.conformance.cases import Case, Store
from tests.conformance.outcome import Settings
from tests.conformance.pool import run_cases
from tests.conformance.selection import Filters, excuse, select, selection_of
from tests.conformance.tables import Run


def chosen(
    store: Store, target: str, selection: str | None = None, filters: Filters | None = None
) -> list[Case]:
    """The cases that a target is to run."""
    selection = selection or selection_of(target)
    filters = filters or Filters()
    known = known_to_run(store) if selection == "runs" else {}
    return [c for c in select(list(store.cases.values()), selection, known) if filters.take(c)]


def known_to_run(store: Store) -> dict[str, str]:
    """The state of each plain case in ONNX Runtime itself, through nothing of ours."""
    return baseline(store, lambda cases: run_cases(store, cases, Settings(Baseline.target)))


def run(
    store: Store, target: str, cases: list[Case], settings: Settings | None = None, **how: Any
) -> Run:
    """A target on cases; ``how`` is as for :func:`run_cases`."""
    start = time.perf_counter()
    outcomes = run_cases(store, cases, settings or Settings(target), **how)
    if target == "onnx":
        outcomes = excuse(target, outcomes, known_to_run(store))
    return Run(target, cases, outcomes, time.perf_counter() - start)
