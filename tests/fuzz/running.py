"""Runs seeds through the checks, and shrinks what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.fuzz.case import Case
from tests.fuzz.emitting import check_target
from tests.fuzz.finding import Finding
from tests.fuzz.generate import generate
from tests.fuzz.integers import check_int8
from tests.fuzz.pipeline import check_passes
from tests.fuzz.shrink import shrink
from tests.fuzz.values import Rejected, Value

Check = Callable[[Case, Mapping[str, Value]], Iterable[Finding]]


@dataclass
class Found:
    """Something wrong with a case.

    Attributes:
        case: As generated; as small as it could be made, where that was asked for.
        target: The check's name.
        finding: What was found.
    """

    case: Case
    target: str
    finding: Finding


@dataclass
class Tally:
    """What became of seeds: how many were run, and how many say nothing, with the reasons."""

    run: int = 0
    useless: list[str] = field(default_factory=list)


def checks() -> dict[str, Check]:
    """Every check by its name; a target's, of the model as it was read and simplified."""
    made: dict[str, Check] = {"passes": check_passes}
    for target in ("tflite", "coreml"):
        made[target] = partial(check_target, target, simplify=True)
        made[f"{target}-raw"] = partial(check_target, target, simplify=False)
    made["int8"] = check_int8
    return made


def run(
    seeds: Iterable[int],
    targets: Sequence[str],
    tally: Tally,
    *,
    smaller: bool = False,
    make: Callable[[int], Case] = generate,
) -> Iterator[Found]:
    """What is found, as it is found.

    Args:
        seeds: What cases are made of.
        targets: Names of :func:`checks`.
        tally: Counted in.
        smaller: Whether to shrink each finding.
        make: Makes a case of a seed.
    """
    known = checks()
    for seed in seeds:
        case = make(seed)
        try:
            expected = case.expected()
        except Rejected as error:
            tally.useless.append(f"{case.name}: {str(error)[:200]}")
            continue
        tally.run += 1
        for target in targets:
            kinds: set[str] = set()
            for finding in list(known[target](case, expected)):
                if finding.kind not in kinds:
                    kinds.add(finding.kind)
                    found = Found(case, target, finding)
                    yield _smaller(found, known[target]) if smaller else found


def _smaller(found: Found, check: Check) -> Found:
    def shows(candidate: Case) -> bool:
        return found.finding.kind in {item.kind for item in check(candidate, candidate.expected())}

    case = shrink(found.case, shows)
    for item in check(case, case.expected()):
        if item.kind == found.finding.kind:
            return Found(case, found.target, item)
    return found
