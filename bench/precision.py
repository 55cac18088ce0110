"""``python -m bench.precision [--only ROW ...]``: what lower precisions keep, and how fast.

Carries out the cases of :mod:`bench.precision_cases` by ``converter.api``, prints a line for each
set that was judged, and writes docs/precision.md. Where a limit is missed it ends with 1 and names
the row; the page is written all the same. With ``--only`` (a row, or a pattern of several), nothing
is written. This is where the limits of large models are held: a release is preceded by a run.

Every artifact is judged on each set against its source, run in its own framework. What computes
in the lower precision is counted in the artifact's own file (:mod:`bench.precision_shares`), and
its latency measured in turns with that of the same model in float32.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.precision_cases import CASES, Case, Data
from bench.precision_checks import Made
from bench.precision_page import write_page
from bench.precision_shares import Share, share_of
from converter import api
from converter.check.accuracy import AccuracyResult
from converter.check.latency import LatencyRatio
from converter.errors import GateError
from converter.machine import describe_machine
from converter.options.request import all_fields, group
from converter.report.model import RUNS, ArtifactReport
from converter.text import words

PAGE = Path(__file__).resolve().parent.parent / "docs" / "precision.md"


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
        checked: What each of the case's checks found, in words, and whether it is enough.
        gates: Gates that weren't passed, with what they came to.
        megabytes: What the artifact takes, and the same target's in float32.
        faster: Float32's latency over the artifact's; None where it wasn't measured.
        seconds: Of the conversion and its own check.
        error: Why there is no artifact.
    """

    case: Case
    judged: list[Judged] = field(default_factory=list)
    share: Share | None = None
    checked: list[tuple[str, bool]] = field(default_factory=list)
    gates: list[str] = field(default_factory=list)
    megabytes: tuple[float, float] | None = None
    faster: LatencyRatio | None = None
    seconds: float = 0.0
    error: str = ""

    def missed(self) -> list[str]:
        """What the case asks for and didn't get, a line each."""
        return [self.error] if self.error else list(self._missed())

    def _missed(self) -> Iterator[str]:
        case = self.case
        yield from self.gates
        for number, (data, judged) in enumerate(zip(case.judged, self.judged, strict=True)):
            wanted = case.cosine if number == 0 or case.elsewhere is None else case.elsewhere
            if data.count is not None and judged.samples != data.count:
                yield f"{judged.title}: {judged.samples} samples, not {data.count}"
            if not judged.finite:
                yield f"{judged.title}: NaN or Inf"
            if wanted is not None and not judged.worst >= wanted:
                yield f"{judged.title}: cosine {judged.worst:.5f} < {wanted:g}"
            if case.together is not None and not judged.together >= case.together:
                yield f"{judged.title}: cosine of all {judged.together:.5f} < {case.together:g}"
            if case.drop is not None and number == 0 and judged.drop is None:
                yield f"{judged.title}: no task metric"
            if case.drop is not None and judged.drop is not None and judged.drop > case.drop:
                yield f"{judged.title}: {judged.drop:.2f} points lost > {case.drop:g}"
        if case.share is not None and (self.share is None or self.share.share < case.share):
            yield f"{self.share.share if self.share else 0:.1%} of MACs < {case.share:.0%}"
        if case.megabytes is not None and self.megabytes and self.megabytes[0] > case.megabytes:
            yield f"{self.megabytes[0]:.2f} MB > {case.megabytes:g}"
        for check, (found, enough) in zip(case.checks, self.checked, strict=True):
            if not enough:
                yield f"{check.limit}: {found}"


def run_case(case: Case, folder: Path, *, bench: bool = True) -> Seen:
    """Converts, judges on every set, counts, and measures latency.

    Args:
        case: The case.
        folder: For sample sets, which cases share, and for what is made.
        bench: Whether to measure latency.
    """
    seen, out = Seen(case), folder / "out"
    first = dict(case.judged[0].options(folder))
    options = {**first, **_calibration(case, folder), **case.options}
    start = time.perf_counter()
    try:
        made = api.convert(
            case.source,
            to=[case.to],
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
    if case.options.get("check", True):  # else what is read is the judge
        seen.gates = [line for item in (plain, lowered) for line in _not_passed(item)]
    seen.megabytes = (lowered.bytes / 1e6, plain.bytes / 1e6)
    artifact = out / lowered.path
    judged = case.judged
    if lowered.accuracy is not None:
        found = AccuracyResult(lowered.accuracy, tuple(lowered.metrics))
        seen.judged.append(Judged.of(judged[0].title, found))
        judged = judged[1:]
    seen.judged += [_judged(artifact, case, data, folder) for data in judged]
    if case.to == "onnx":
        seen.share = share_of(artifact)
    elif lowered.lowered_share is not None:
        seen.share = Share(lowered.lowered_share, 0, ())
    files = Made(out / plain.path, artifact, lowered, folder)
    seen.checked = [check.measure(files) for check in case.checks]
    if bench and case.to != "coreml":  # which runs on a Mac alone
        seen.faster = _faster(artifact, out / plain.path, case.source, first)
    return seen


def _not_passed(item: ArtifactReport) -> Iterator[str]:
    """Gates that weren't, but for the run on a machine that isn't here."""
    for gate in item.gates:
        if gate.status != "passed" and gate.name != RUNS:
            yield f"{item.title}: gate {gate.name} {gate.status}"


def _calibration(case: Case, folder: Path) -> Mapping[str, Any]:
    return case.calibration.options(folder) if case.calibration else {}


def _judged(artifact: Path, case: Case, data: Data, folder: Path) -> Judged:
    """How an artifact does on another set; limits are so wide that no gate is missed."""
    wide = {"min_cosine": -1.0, "max_drop": 1000.0}
    options = {**data.options(folder), **wide, "precision": [case.precision]}
    return Judged.of(data.title, api.check(str(artifact), case.source, **options).accuracy)


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
    names = {item.name for item in all_fields()} & ours
    return {k: v for k, v in catalogue.resolve(source).items() if k in names}


def lines_of(seen: Seen) -> Iterator[str]:
    """A line for each set and each check, for the terminal."""
    row = seen.case.row
    if seen.error:
        yield f"{row}: {seen.error}"
    for judged in seen.judged:
        share = f"{seen.share.share:.1%}" if seen.share else "-"
        size = "{:.2f} of {:.2f} MB".format(*seen.megabytes) if seen.megabytes else "-"
        faster = words.speedup(seen.faster) if seen.faster else "-"
        cosines = f"{judged.worst:.5f} / {judged.together:.5f} {judged.metric}"
        how = f"{share} of MACs, {size}, {faster}, {seen.seconds:.0f} s"
        yield f"{row}, {judged.title}: {cosines}; {how}"
    for check, (found, _) in zip(seen.case.checks, seen.checked, strict=False):
        yield f"{row}, {check.limit}: {found}"


def _seen(case: Case, folder: Path, *, bench: bool) -> Seen:
    try:
        return run_case(case, folder, bench=bench)
    except Exception as error:  # the other rows' hour isn't lost over this one's
        traceback.print_exc()
        return Seen(case, error=f"{type(error).__name__}: {error}")


def picked(patterns: Sequence[str], cases: Sequence[Case]) -> list[Case]:
    """The rows that are named, each by its name or a pattern; all without a name.

    Raises:
        ValueError: One names none.
    """
    rows = {case.row: case for case in cases}
    for pattern in patterns:
        if not fnmatch.filter(rows, pattern):
            raise ValueError(f"no row is called {pattern}; there are {', '.join(rows)}")
    return [
        case
        for case in cases
        if not patterns or any(fnmatch.fnmatch(case.row, p) for p in patterns)
    ]


def main(argv: Sequence[str], cases: Sequence[Case] = CASES, page: Path = PAGE) -> int:
    """Runs the rows that are named, or all; 1 where something that is asked for was missed.

    Args:
        argv: The command line.
        cases: The rows.
        page: The file that is written.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.precision", description=__doc__)
    parser.add_argument("--only", action="append", metavar="ROW", default=[])
    parser.add_argument("--no-bench", action="store_true", help="no latencies")
    asked = parser.parse_args(argv)
    try:
        chosen = picked(asked.only, cases)
    except ValueError as error:
        parser.error(str(error))
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-precision-") as folder:
        for case in chosen:
            found.append(_seen(case, Path(folder), bench=not asked.no_bench))
            print("\n".join(lines_of(found[-1])), flush=True)
    if not asked.only:
        write_page(page, found, asdict(describe_machine()))
    missed = [f"MISSED: {seen.case.row}: {line}" for seen in found for line in seen.missed()]
    print("\n".join(missed or ["all limits are kept"]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
