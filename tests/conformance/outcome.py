"""What becomes of cases."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

STATES = {
    "passed": "runs in the target's runtime and gives the case's outputs",
    "built": "written; it can't run on this machine",
    "refused": "Modelyard refuses it beforehand, with the reason",
    "unreadable": "the pipeline's opset can't express it, so no target gets it",
    "beyond": "ONNX Runtime itself refuses the case, or gives other outputs",
    "wrong": "runs, and gives other outputs",
    "rejected": "written, and the runtime refuses it",
    "crashed": "an unexpected error, a dead process, or no end within the time limit",
}

FAILURES = ("wrong", "rejected", "crashed")
"""What must not be."""


@dataclass
class Outcome:
    """What became of a case.

    Attributes:
        name, op: The case, and the operator under test.
        state: Of :data:`STATES`.
        reason: Why, where it neither passed nor was built.
        constants: The inputs that were made initializers.
        trace: The traceback of an exception, or the end of a dead child's log.
    """

    name: str
    op: str
    state: str
    reason: str = ""
    constants: list[str] = field(default_factory=list)
    trace: str = ""


def counts(outcomes: Iterable[Outcome]) -> Counter[str]:
    """How many there are in each state."""
    return Counter(outcome.state for outcome in outcomes)
