"""What a gate is, judged, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from converter.errors import GateError
from converter.text import words

Status = Literal["passed", "failed", "not judged"]


@dataclass(frozen=True)
class GateResult:
    """One gate, judged.

    Attributes:
        name: ``cosine``, ``drop top1``...
        limit: What was allowed; None where the gate has no number.
        value: The worst that was found; None where there is none.
        status: ``passed``, ``failed`` or ``not judged``.
        why: What decided, in words: which output or metric, and where.
        unit: Of limit and value: ``points``, ``ms`` or nothing.
        measured: Whether it was judged on times, which differ from run to run.
    """

    name: str
    limit: float | None
    value: float | None
    status: Status
    why: str
    unit: str = ""
    measured: bool = False

    @property
    def passed(self) -> bool:
        """Whether it was judged and kept to."""
        return self.status == "passed"


ON_A_PROBE = "on a probe"
"""How names of gates end that an artifact missed on a probe, not on a sample."""

ON_PROBES_ALONE = (
    "All samples passed. If the model never gets inputs like those named above, "
    "--no-probes leaves them out."
)

LOWERED, JUDGED = "lowered", "judged"
"""Gates that are missed with ``--strict`` alone: a lower precision lowered something; every float
output could be judged."""


def flagged(name: str, why: str, *, strict: bool) -> GateResult:
    """What users have to see, and what only ``--strict`` makes a missed gate.

    Args:
        name: :data:`LOWERED` or :data:`JUDGED`.
        why: What was found.
        strict: Whether it was given.
    """
    return GateResult(name, None, None, "failed" if strict else "not judged", why)


def judged(
    name: str, limit: float, value: float, kept: bool, why: str, unit: str = ""
) -> GateResult:
    """A gate that was judged by a number.

    Args:
        name: ``cosine``, ``drop top1``...
        limit: What was allowed, in ``unit``.
        value: The worst that was found, in ``unit``.
        kept: Whether the gate passed.
        why: What decided, in words: which output or metric, and where.
        unit: ``points``, ``ms`` or nothing.
    """
    return GateResult(name, limit, value, "passed" if kept else "failed", why, unit)


def passed(name: str, limit: float | None, value: float | None, why: str) -> GateResult:
    """A gate that was kept.

    Args:
        name: ``cosine``, ``drop top1``...
        limit: What was allowed; None where the gate has no number.
        value: The worst that was found; None where there is none.
        why: What decided, in words.
    """
    return GateResult(name, limit, value, "passed", why)


def failed(name: str, limit: float | None, value: float | None, why: str) -> GateResult:
    """A gate that was missed.

    Args:
        name: ``cosine``, ``drop top1``...
        limit: What was allowed; None where the gate has no number.
        value: The worst that was found; None where there is none.
        why: What decided, in words: which output or metric, and where.
    """
    return GateResult(name, limit, value, "failed", why)


def unjudged(name: str, why: str, limit: float | None = None, unit: str = "") -> GateResult:
    """A gate that couldn't be judged.

    Args:
        name: ``cosine``, ``drop top1``...
        why: What was missing, in words.
        limit: What was allowed; None where the gate has no number.
        unit: Of ``limit``: ``points``, ``ms`` or nothing.
    """
    return GateResult(name, limit, None, "not judged", why, unit)


def located(gates: Sequence[GateResult], where: str) -> list[GateResult]:
    """The gates, the first that was missed for what outputs hold saying where as well.

    Args:
        gates: In their order.
        where: What there is to say; empty for nothing.
    """
    found = list(gates)
    for number, gate in enumerate(found):
        if where and gate.status == "failed" and not gate.measured:
            found[number] = replace(gate, why=f"{gate.why}; {where}")
            break
    return found


def require(gates: Iterable[GateResult], what: str) -> None:
    """Raises GateError listing every failed gate of ``what`` (an artifact's name)."""
    missed = [gate for gate in gates if gate.status == "failed"]
    if missed:
        raise GateError(
            f"{what} missed {len(missed)} gate{'s' * (len(missed) > 1)}",
            details=[f"{gate.name}: {told(gate)}" for gate in missed],
            hint=ON_PROBES_ALONE if all(ON_A_PROBE in gate.name for gate in missed) else "",
        )


def told(gate: GateResult) -> str:
    """What decided, with the numbers where there are: ``0.993320, limit 0.9999; y on cat.png``."""
    found, limit = numbers(gate)
    return f"{found}, limit {limit}; {gate.why}" if found and limit else gate.why


def numbers(gate: GateResult) -> tuple[str, str]:
    """What was found and the limit, with their unit; empty where there is none.

    A limit has all its digits; what was found as many as tell it from the limit.
    """
    as_words = words.cosine if gate.name.startswith("cosine") else words.number
    found = "" if gate.value is None else words.beside(gate.value, gate.limit, as_words)
    limit = "" if gate.limit is None else words.limit(gate.limit)
    unit = f" {gate.unit}" if gate.unit else ""
    one = unit[:-1] if unit == " points" and gate.limit == 1 else unit
    return found + unit * bool(found), limit + one * bool(limit)
