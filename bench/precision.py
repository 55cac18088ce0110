"""``python -m bench.precision [--model NAME ...]``: what lower precisions keep, and how fast.

Carries out the cases of :mod:`bench.precision_cases` by ``converter.api``, prints a line for each
set that was judged, and writes docs/precision.md. With names, nothing is written.

Every artifact is judged on each set against its source, run in its own framework. What computes
in the lower precision is counted in the artifact's own file (:mod:`bench.precision_shares`), and
its latency measured in turns with that of the same model in float32.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bench.precision_cases import CASES, Case, Data
from bench.precision_page import write_page
from bench.precision_shares import Share, share_of
from converter import api
from converter.check.accuracy import AccuracyResult
from converter.check.latency import LatencyRatio
from converter.check.machine import describe_machine
from converter.errors import GateError
from converter.report import words
from converter.request import Request, group

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Judged:
    """How an artifact did on one set.

    Attributes:
        title: The set.
        samples: How many.
        worst, together: The smallest cosine of a sample and an output; the smallest of an output's
            values in all samples.
        metric: The task metric of the source and of the artifact, in words; empty without labels.
        drop: What it lost, in points; None without labels.
        finite: Whether there is no NaN or Inf that the source doesn't have.
    """

    title: str
    samples: int
    worst: float
    together: float
    metric: str
    drop: float | None
    finite: bool

    @classmethod
    def of(cls, title: str, accuracy: AccuracyResult) -> Judged:
        """Of what a check found."""
        outputs = accuracy.comparison.outputs
        metric = accuracy.metrics[0] if accuracy.metrics else None
        return cls(
            title,
            accuracy.comparison.samples,
            min((o.cosine_worst for o in outputs if o.cosine_worst is not None), default=1.0),
            min((o.cosine_all for o in outputs if o.cosine_all is not None), default=1.0),
            f"{metric.name} {metric.source:.2f} / {metric.candidate:.2f}" if metric else "",
            metric.drop if metric else None,
            not any(o.introduced or o.altered for o in outputs),
        )


@dataclass
class Seen:
    """What came of a case.

    Attributes:
        case: The case.
        judged: By set, in the case's order; empty where the conversion missed its gates.
        share: What computes in the lower precision.
        decisions: What the conversion says it decided.
        faster: Float32's latency over the artifact's; None where it wasn't measured.
        seconds: Of the conversion and its own check.
        error: Why there is no artifact.
    """

    case: Case
    judged: list[Judged] = field(default_factory=list)
    share: Share | None = None
    decisions: list[str] = field(default_factory=list)
    faster: LatencyRatio | None = None
    seconds: float = 0.0
    error: str = ""

    def missed(self) -> list[str]:
        """What the case asks for and didn't get, a line each."""
        return [self.error] if self.error else list(self._missed())

    def _missed(self) -> Iterator[str]:
        case = self.case
        for number, judged in enumerate(self.judged):
            wanted = case.cosine if number == 0 or case.elsewhere is None else case.elsewhere
            if not judged.finite:
                yield f"{judged.title}: NaN or Inf"
            if wanted is not None and not judged.worst >= wanted:
                yield f"{judged.title}: cosine {judged.worst:.5f} < {wanted:g}"
            if case.together is not None and not judged.together >= case.together:
                yield f"{judged.title}: cosine of all {judged.together:.5f} < {case.together:g}"
            if case.drop is not None and judged.drop is not None and judged.drop > case.drop:
                yield f"{judged.title}: {judged.drop:.2f} points lost > {case.drop:g}"
        if case.share is not None and (self.share is None or self.share.share < case.share):
            yield f"{self.share.share if self.share else 0:.1%} of MACs < {case.share:.0%}"


def run_case(case: Case, folder: Path, *, bench: bool = True) -> Seen:
    """Converts, judges on every set, counts, and measures latency.

    Args:
        case: The case.
        folder: For sample sets, which cases share, and for what is made.
        bench: Whether to measure latency.
    """
    seen, out = Seen(case), folder / "out"
    source = case.source if isinstance(case.source, str) else case.source(folder)
    first = dict(case.judged[0].options(folder))
    options = {**first, **_calibration(case, folder), **case.options}
    start = time.perf_counter()
    try:
        made = api.convert(
            source,
            precision=["fp32", case.precision],
            out=str(out),
            overwrite=True,
            bench=False,
            **options,
        )
    except GateError as error:
        seen.error = "; ".join([error.message, *error.details[:1]])
        return seen
    finally:
        seen.seconds = time.perf_counter() - start
    assert made.report is not None
    plain, lowered = made.report.artifacts
    assert lowered.accuracy is not None
    found = AccuracyResult(lowered.accuracy, tuple(lowered.metrics))
    seen.judged.append(Judged.of(case.judged[0].title, found))
    seen.decisions = lowered.decisions
    artifact = out / lowered.path
    for data in case.judged[1:]:
        seen.judged.append(_judged(artifact, source, case, data, folder))
    seen.share = share_of(artifact)
    if bench:
        seen.faster = _faster(artifact, out / plain.path, source, first)
    return seen


def _calibration(case: Case, folder: Path) -> Mapping[str, Any]:
    return case.calibration.options(folder) if case.calibration else {}


def _judged(artifact: Path, source: str, case: Case, data: Data, folder: Path) -> Judged:
    """How an artifact does on another set; limits are so wide that no gate is missed."""
    wide = {"min_cosine": -1.0, "max_drop": 1000.0}
    options = {**data.options(folder), **wide, "precision": [case.precision]}
    return Judged.of(data.title, api.check(str(artifact), source, **options).accuracy)


def _faster(
    artifact: Path, plain: Path, source: str, samples: Mapping[str, Any]
) -> LatencyRatio | None:
    """The latency of the float32 artifact over that of another, both run in turns."""
    known = _sample_options(source)
    options = {**known, **{k: v for k, v in samples.items() if k in known or k == "samples"}}
    ratios = api.bench(str(artifact), str(plain), **options).latency.ratios
    return ratios[0] if ratios else None


def _sample_options(source: str) -> dict[str, Any]:
    """What the catalogue says of a model's samples, labels left out: its float32 artifact is a
    source that it knows nothing of."""
    if not source.startswith("zoo:"):
        return {}
    from zoo import catalogue

    ours = {*group("Samples"), "dims"} - {"labels", "label_names"}
    names = {item.name for item in fields(Request)} & ours
    return {k: v for k, v in catalogue.resolve(source).items() if k in names}


def lines_of(seen: Seen) -> Iterator[str]:
    """A line for each set, for the terminal."""
    case = seen.case
    if seen.error:
        yield f"{case.name}, {case.title}: {seen.error}"
    for judged in seen.judged:
        share = f"{seen.share.share:.1%}" if seen.share else "-"
        faster = words.speedup(seen.faster) if seen.faster else "-"
        cosines = f"{judged.worst:.5f} / {judged.together:.5f} {judged.metric}"
        how = f"{share} of MACs, {faster}, {seen.seconds:.0f} s"
        yield f"{case.name}, {case.title}, {judged.title}: {cosines}; {how}"


def main(argv: Sequence[str]) -> int:
    """Runs the cases that are named, or all; 1 where something that is asked for was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.precision", description=__doc__)
    known = list(dict.fromkeys(case.name for case in CASES))
    parser.add_argument("--model", action="append", choices=known, metavar="NAME", default=[])
    asked = parser.parse_args(argv).model
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-precision-") as folder:
        for case in CASES:
            if not asked or case.name in asked:
                found.append(run_case(case, Path(folder)))
                print("\n".join(lines_of(found[-1])), flush=True)
    missed = [f"{seen.case.name}, {line}" for seen in found for line in seen.missed()]
    print("\n".join(f"MISSED: {line}" for line in missed))
    if not asked:
        write_page(ROOT / "docs" / "precision.md", found, asdict(describe_machine()))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
