"""What every target is held to."""

from __future__ import annotations

from tests.conformance import show
from tests.conformance.cases import open_store
from tests.conformance.outcome import FAILURES, counts
from tests.conformance.running import chosen, run
from tests.conformance.selection import Filters
from tests.conformance.tables import Run


def hold(target: str, floor: int, filters: Filters | None = None) -> Run:
    """Runs the cases of a target: none wrong, rejected or crashed, at least ``floor`` taken."""
    store = open_store()
    done = run(store, target, chosen(store, target, filters=filters))
    failed = [show.line(o, verbose=True) for o in done.outcomes if o.state in FAILURES]
    assert not failed, "\n".join([f"{len(failed)} cases failed", *failed[:20]])
    found = counts(done.outcomes)
    assert found["passed"] + found["built"] >= floor, dict(found)
    return done
