"""Runs seeds through the checks, and shrinks what they find."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.fuzz.case import Case, Finding
from tests.fuzz.emitting import check_target
from tests.fuzz.generate import generate
from tests.fuzz.integers import check_int8
from tests.fuzz.pipeline import check_passes
from tests.fuzz.shrink import shrink
from tests.fuzz.values import Rejected, Value

Check = Callable[[Case, Mapping[str, Value]], Iterable[Finding]]

CHECKS: dict[str, Check] = {
    "passes": check_passes,
    "tflite": partial(check_target, "tflite", simplify=True),
    "tflite-raw": partial(check_target, "tflite", simplify=False),
    "coreml": partial(check_target, "coreml", simplify=True),
    "coreml-raw": partial(check_target, "coreml", simplify=False),
    "openvino": partial(check_target, "openvino", simplify=True),
    "openvino-raw": partial(check_target, "openvino", simplify=False),
    "int8": check_int8,
}
"""Every check by its name; a target's, of the model as it was read (raw) and simplified."""


@dataclass
class Tally:
    """What became of seeds: how many were run, and how many say nothing, with the reasons."""

    run: int = 0
    useless: list[str] = field(default_factory=list)


def run(
    seeds: Iterable[int], targets: Sequence[str], tally: Tally, *, smaller: bool = False
) -> Iterator[tuple[Case, Finding]]:
    """What is found, as it is found, one of a kind in each case.

    Args:
        seeds: What cases are made of.
        targets: Names of :data:`CHECKS`.
        tally: Counted in.
        smaller: Whether to shrink each finding.
    """
    for seed in seeds:
        case = generate(seed)
        try:
            expected = case.expected()
        except Rejected as error:
            tally.useless.append(f"{case.name}: {str(error)[:200]}")
            continue
        tally.run += 1
        for target in targets:
            found = {item.kind: item for item in CHECKS[target](case, expected)}
            for finding in found.values():
                yield _smaller(case, finding, CHECKS[target]) if smaller else (case, finding)


def _smaller(case: Case, finding: Finding, check: Check) -> tuple[Case, Finding]:
    def shows(candidate: Case) -> Iterator[Finding]:
        found = check(candidate, candidate.expected())
        return (item for item in found if item.kind == finding.kind)

    small = shrink(case, lambda candidate: any(shows(candidate)))
    return small, next(shows(small), finding)
