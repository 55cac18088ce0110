"""What the command line prints."""

import sys
from collections import Counter

from tests.conformance.outcome import FAILURES, Outcome, counts
from tests.conformance.tables import Run, by_reason, with_constants

_EVERY = 250
"""Cases between two lines of a log."""


class Progress:
    """A line now and then."""

    def __init__(self, target: str, total: int) -> None:
        self._target, self._total = target, total
        self._states: Counter[str] = Counter()

    def __call__(self, outcome: Outcome) -> None:
        """Counts one more."""
        self._states[outcome.state] += 1
        if (done := self._states.total()) % _EVERY == 0:
            text = f"{self._target}: {done}/{self._total}  {_said(self._states)}"
            print(text, file=sys.stderr, flush=True)


def summary(run: Run, *, verbose: bool, refused: bool) -> None:
    """What became of the cases; every failure, and every case with ``verbose``."""
    few = verbose or len(run.outcomes) <= 20
    for outcome in run.outcomes:
        if few or outcome.state in FAILURES:
            print(line(outcome, verbose=verbose))
    if refused:
        for reason, group in by_reason(run.outcomes):
            print(f"{len(group):5}  {reason}")
            print(f"       {', '.join(item.name for item in group[:4])}")
    constant = len(with_constants(run.outcomes))
    also = f", {constant} of them with inputs made constant" if constant else ""
    print(
        f"{run.target}: {len(run.outcomes)} cases in {run.seconds:.1f} s: "
        f"{_said(counts(run.outcomes)) or 'none'}{also}"
    )


def line(outcome: Outcome, *, verbose: bool) -> str:
    """One case."""
    text = f"{outcome.state:10} {outcome.name}"
    if outcome.constants:
        text += f" [constant: {', '.join(outcome.constants)}]"
    if outcome.reason:
        text += f"\n           {outcome.reason}"
    if verbose and outcome.trace:
        text += "\n" + "\n".join(f"           | {item}" for item in outcome.trace.splitlines())
    return text


def _said(found: Counter[str]) -> str:
    return ", ".join(f"{count} {state}" for state, count in found.most_common())
