"""``python -m zoo.page [NAME ...]``: converts every model, prints, and writes docs/zoo.md.

Each model in a process of its own, one after another, nothing from the cache but the files. With
names, only those are converted and nothing is written.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from converter.errors import ModelyardError
from converter.machine import describe_machine
from converter.report.model import ArtifactReport, Report
from converter.text import words
from zoo import catalogue
from zoo.entry import Entry
from zoo.kernels import told

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300.0
"""Seconds that one model may take."""

BENCH_SECONDS = 1.0
"""Seconds of measuring, for the source and for the artifact each."""

SAME = 1.05
"""A ratio of two latencies from which one counts as slower."""

PACKAGES = (
    *("modelyard", "torch", "transformers", "tensorflow", "keras", "tf2onnx", "ai-edge-litert"),
    *("onnx", "onnxruntime-gpu", "onnxscript", "onnxsim", "onnxslim", "onnx-ir"),
)

HEAD = (
    *("model", "framework", "convert s", "size", "nodes", "accuracy"),
    *("source ms", "ONNX ms", "state"),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a model.

    Attributes:
        name, entry: Which one.
        seconds: Wall time of the whole command.
        report: Its report; None where there is none.
        error: What the command said instead.
        kernels: Where it is slower than its source, the kernels that its time goes to.
    """

    name: str
    entry: Entry
    seconds: float
    report: Report | None = None
    error: str = ""
    kernels: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Its line in the table."""
        name, entry = self.name, self.entry
        if self.report is None:
            return (name, entry.framework, *["-"] * 6, f"**fails**: {_plain(self.state)}")
        (artifact,) = self.report.artifacts
        nodes = f"{artifact.nodes_before} → {artifact.nodes_after}"
        return (
            name,
            entry.framework,
            f"{self.converting:.1f}",
            words.size(artifact.bytes),
            nodes,
            _accuracy(self.report, artifact),
            _latency(artifact, "source"),
            _latency(artifact, "artifact"),
            _plain(self.state),
        )

    @property
    def ratio(self) -> float | None:
        """Median latency at batch 1 / the source's; None where it wasn't measured."""
        points = self.report.artifacts[0].latency if self.report else ()
        one = {
            point.role: point.p50_ms for point in points if point.batch == point.concurrency == 1
        }
        return one["artifact"] / one["source"] if len(one) == 2 else None

    @property
    def converting(self) -> float:
        """Seconds without those that went into measuring latency, which a user may leave out."""
        assert self.report is not None
        timings = self.report.timings
        return self.seconds - sum(t.seconds for t in timings if t.step.startswith("bench"))

    @property
    def state(self) -> str:
        """In a few words: how it is, or why it isn't."""
        if self.report is None:
            return f"{self.entry.broken} ({self.error})" if self.entry.broken else self.error
        notes = ["random weights"] if self.entry.weights == "random" else []
        if self.entry.broken:
            notes.append("works, although the catalogue says it doesn't")
        notes += _surprises(self.report.artifacts[0], self.entry)
        return "; ".join([self.report.verdict, *self.report.flags, *notes, *self.report.loud])


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _accuracy(report: Report, artifact: ArtifactReport) -> str:
    said = []
    if artifact.accuracy:
        said.append(f"cosine {words.cosine(artifact.accuracy.cosine)}")
    for metric in artifact.metrics:
        source, found = (words.number(value) for value in (metric.source, metric.candidate))
        said.append(f"{metric.name} {found}{metric.unit} (source {source}{metric.unit})")
    if report.samples and report.samples.random:
        said.append("random inputs")
    return ", ".join(said) or "-"


def _surprises(artifact: ArtifactReport, entry: Entry) -> list[str]:
    """Metrics that the source doesn't reach as the catalogue says."""
    seen = {metric.name: metric.source / 100 for metric in artifact.metrics if metric.unit == "%"}
    return [
        f"the source's {name} is {seen[name]:.1%}, and {value:.1%} was expected"
        for name, value in entry.expected.items()
        if name in seen and abs(seen[name] - value) > 1e-9
    ]


def _latency(artifact: ArtifactReport, role: str) -> str:
    for point in artifact.latency:
        if (point.role, point.batch, point.concurrency) == (role, 1, 1):
            return words.number(point.p50_ms)
    return "-"


def convert(name: str, entry: Entry, folder: Path) -> Outcome:
    """Converts one model in a process of its own; what goes wrong is in what comes back.

    Args:
        name: The entry's.
        entry: The entry.
        folder: Where the output goes, and the process runs.
    """
    try:
        catalogue.fetch(name)  # not part of the time
    except ModelyardError as error:
        return Outcome(name, entry, 0.0, error=error.message)
    argv = [
        sys.executable, "-m", "converter.cli", "convert", f"zoo:{name}", "--no-cache", "--json",
        "--bench-seconds", str(BENCH_SECONDS), "--out", str(folder / name),
    ]  # fmt: skip
    start = time.perf_counter()
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(name, entry, LIMIT, error=f"took longer than {LIMIT:g} s")
    seconds = time.perf_counter() - start
    try:
        said = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines()
        said = {"message": lines[-1] if lines else f"ended with {done.returncode}"}
    if done.returncode:
        return Outcome(name, entry, seconds, error=_error(said))
    made = Outcome(name, entry, seconds, Report.model_validate(said["report"]))
    assert made.report is not None
    slower = made.ratio is not None and made.ratio > SAME
    path = folder / name / made.report.artifacts[0].path
    return replace(made, kernels=told(path)) if slower else made


def _error(said: Mapping[str, Any]) -> str:
    """The message, and the first of its details."""
    details = list(said.get("details", ()))
    more = f" (and {len(details) - 3} more)" if len(details) > 3 else ""
    return ": ".join([str(said["message"]), *(["; ".join(details[:3]) + more] if details else [])])


PAGE = """# The zoo

`make zoo` (`python -m zoo.page`) makes this page. It converts every model of `zoo/catalogue.yaml`
to ONNX fp32 and checks it. Each runs in a process of its own, as
`modelyard convert zoo:NAME --no-cache --bench-seconds {bench:g}`, after its files were fetched.

- *convert s* is the wall time of the command with its start and every check, without the latency
  runs. The machine is shared, so these are orders of magnitude.
- *nodes* are those before and after simplifying.
- *accuracy* compares the artifact, opened from disk in ONNX Runtime, with the source framework. It
  is the cosine over all samples, and a metric where the samples have labels. It says how close the
  artifact is to its source, and not how good the model is.
- *source ms* and *ONNX ms* are median latencies at batch 1 in the source framework and in ONNX
  Runtime, measured in turns on the CPU.
- Architectures marked *random weights* are there for speed. Their accuracy means nothing.
- A TorchScript file can run code of its own. The catalogue trusts such a file by its sha256
  (`trust_source`).

{table}

{works} of {count} models convert.

## Several models

{several}

## Slower than their source

These models take more than {same:g} times their source's time in ONNX Runtime. The list names the
kernels that take the time, with the number of their nodes. It comes from ONNX Runtime's profiler,
in one thread. *A call alone* returns such inputs and computes nothing: ONNX Runtime takes that time
in Python before any kernel. Where a faster form is known, Modelyard already writes it
(`emitters/onnx/kernels.py`).

{slower}

Machine: {machine}.
Versions: {versions}.
"""


def page(outcomes: list[Outcome]) -> str:
    """docs/zoo.md."""
    rows = [f"| {' | '.join(outcome.cells)} |" for outcome in outcomes]
    rule = f"|{'---|' * len(HEAD)}"
    facts = asdict(describe_machine())
    return PAGE.format(
        bench=BENCH_SECONDS,
        table="\n".join([f"| {' | '.join(HEAD)} |", rule, *rows]),
        works=sum(outcome.report is not None for outcome in outcomes),
        count=len(outcomes),
        same=SAME,
        several="\n".join(
            f"- `modelyard convert zoo:{name}`: {entry.title}; {entry.told()}. The recipe "
            f"`{entry.recipe}` joins them."
            for name, entry in catalogue.joined().items()
        ),
        slower="\n".join(_slower(outcome) for outcome in outcomes if outcome.kernels) or "None.",
        machine=", ".join(f"{key} {value}" for key, value in facts.items() if value),
        versions=", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    )


def _slower(outcome: Outcome) -> str:
    return f"- {outcome.name}, x{outcome.ratio:.2f}: {outcome.kernels}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def main(names: list[str]) -> None:
    """Converts what is named, or everything."""
    chosen = dict(catalogue.find(name) for name in names) if names else catalogue.entries()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        for name, entry in chosen.items():
            outcomes.append(convert(name, entry, Path(folder)))
            print(" | ".join(outcomes[-1].cells), flush=True)
    if not names:
        (ROOT / "docs" / "zoo.md").write_text(page(outcomes), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
