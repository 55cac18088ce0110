"""Puts the results of a run together: gates, report, manifest, and the output in its place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from converter import plugins
from converter.check.gates import GateResult, Limits, judge, require
from converter.check.machine import describe_machine
from converter.check.speed import not_faster
from converter.digest import file_digest
from converter.errors import GateError
from converter.graph.edit import count_of
from converter.ir import Model
from converter.manifest import FileRecord, build_manifest, records, write_manifest
from converter.plan import STORED, Plan, Step, io_dtype_of
from converter.plugins import Artifact, Packaged
from converter.quantize.budget import BudgetError
from converter.quantize.lowered import Lowered
from converter.quantize.told import told
from converter.report.along import AlongReport
from converter.report.files import write_report
from converter.report.model import (
    ArtifactReport,
    NearMiss,
    PackageReport,
    Report,
    SamplesReport,
    SourceReport,
    StepReport,
    StepTiming,
    interfaces,
)
from converter.request import Request
from converter.run import Run
from converter.samples import Samples
from converter.staging import Staging
from converter.steps import CheckedArtifact, Made
from converter.work import Work

STEPS = "steps"
"""The folder of the models between steps, where they were asked for."""

FAILED_KEEPS = ["report.html", "report.json", "manifest.json", STEPS]
"""What a run that missed a gate leaves."""


_SHOWN_ELSEWHERE = {"bytes", "sha256", "opset", "nodes", "decisions", "stock"}


@dataclass(frozen=True)
class Outcome:
    """A run whose steps are done; where a budget was missed, not all of them."""

    work: Work
    plan: Plan
    run: Run
    versions: Mapping[str, str]

    def artifacts(self) -> Iterator[tuple[str, Artifact]]:
        """``target:precision`` and the artifact, in the plan's order, of those that are done with:
        checked and measured, where that was planned."""
        for step in self.plan.steps:
            if step.kind == "emit":
                what = step.id.split(":", 1)[1]
                ids = [step.id, *filter(self.plan.has, (f"check:{what}", f"bench:{what}"))]
                if all(id in self.run.done for id in ids):
                    yield what, self.run.result(step.id)

    def done(self, *kinds: str) -> Iterator[Step]:
        """The steps of these kinds that are done, in the plan's order."""
        return (step for step in self.plan.steps if step.kind in kinds and step.id in self.run.done)

    def maybe(self, id: str) -> Any:
        """The result of a step, or None where it wasn't planned, or not reached."""
        return self.run.result(id) if id in self.run.done else None


def write_outcome(outcome: Outcome, staging: Staging) -> Report:
    """Judges the gates, writes report and manifest, and puts the output in its place.

    Raises:
        GateError: A gate was missed: only the report is left, in ``OUT.failed/``.
    """
    report = build_report(outcome)
    if report.verdict != "failed":
        _publish(outcome, report)
    _write(outcome, report, staging)
    if report.verdict == "failed":
        failed = staging.commit_failed(FAILED_KEEPS)
        _require(report, failed)
    staging.commit()
    outcome.work.cache.trim()
    return report


def write_missed(outcome: Outcome, staging: Staging, error: BudgetError) -> None:
    """Writes the report of a run that ended where a budget couldn't be met, in ``OUT.failed/``,
    and has the error say where it is."""
    report = build_report(outcome)
    report.artifacts += _missed(outcome, error)
    _write(outcome, report, staging)
    failed = staging.commit_failed(FAILED_KEEPS)
    error.hint += f" The report is in {failed / 'report.html'}; no artifact was left."


def _missed(outcome: Outcome, error: BudgetError) -> Iterator[ArtifactReport]:
    """What would have been made of the model that the budget was for."""
    read: Model = outcome.run.result("parse").model
    simplified: Model = outcome.run.result("simplify").model
    why = "; ".join([error.message, *error.details[:1]])
    for step in outcome.plan.steps:
        if step.kind == "emit" and step.model == error.step:
            _, target, precision = step.id.split(":")[:3]
            yield ArtifactReport(
                target=target,
                precision=precision,
                path="",
                bytes=0,
                sha256="",
                files=0,
                nodes_before=read.node_count(),
                nodes_after=simplified.node_count(),
                inputs=interfaces(simplified.inputs),
                outputs=interfaces(simplified.outputs),
                gates=[GateResult("budget", None, None, "failed", why)],
                decisions=["not made: its budget was judged on these samples, against the "
                           "simplified model in float32", *error.details],
            )  # fmt: skip


def _write(outcome: Outcome, report: Report, staging: Staging) -> None:
    """Writes the report, the manifest and the models between steps into the staging folder."""
    if outcome.work.request.keep_steps:
        _keep_steps(outcome, staging.folder / STEPS)
    shutil.rmtree(outcome.work.scratch)
    write_report(report, staging.folder)
    sources = [FileRecord.of(path, name) for name, path in outcome.work.identity.files.items()]
    files = [item for item in records(staging.folder) if not item.path.startswith("report.")]
    if report.verdict == "failed":  # what is left
        files = [item for item in files if item.path.split("/")[0] in FAILED_KEEPS]
    manifest = build_manifest(outcome.work.request, report, sources, files)
    write_manifest(manifest, staging.folder)


def _keep_steps(outcome: Outcome, folder: Path) -> None:
    """Writes the model as it was read, simplified, and in each precision."""
    folder.mkdir()
    names = {"parse": "read", "simplify": "simplified"}
    for step in outcome.done("parse", "simplify", "lower"):
        name = names.get(step.id) or step.id.removeprefix("lower:").replace(":", "-")
        outcome.run.result(step.id).model.copy().save(folder / f"{name}.onnx")


def _require(report: Report, failed: Path) -> None:
    for artifact in report.artifacts:
        try:
            require(artifact.gates, artifact.title)
        except GateError as error:
            error.hint = f"The report is in {failed / 'report.html'}; no artifact was left."
            if artifact.precision != "fp32":
                more = "get more bits" if artifact.precision in STORED else "stay in float32"
                error.hint += f" With --min-cosine, as many layers as it takes {more}."
            raise


def build_report(outcome: Outcome) -> Report:
    """The report of a run."""
    work, run = outcome.work, outcome.run
    parsed: Made = run.result("parse")
    simplified: Made = run.result("simplify")
    report = Report(
        tool=f"modelyard {version('modelyard')}",
        title=work.name,
        source=_source(outcome, parsed),
        samples=_samples(outcome),
        along=[made for made in _along(outcome) if not made.unchanged],
        passes=simplified.records,
        near_misses=[NearMiss(**miss) for miss in simplified.misses],
        machine=describe_machine(),
        versions=work.versions(outcome.versions),
        timings=[
            StepTiming(step=id, seconds=round(done.seconds, 3), cached=done.cached)
            for id, done in run.done.items()
        ],
    )
    for text in dict.fromkeys([*parsed.warnings, *simplified.warnings]):
        report.warn(text, loud=text.split(":")[0].isupper())
    for what, artifact in outcome.artifacts():
        report.artifacts.append(_artifact(outcome, what, artifact))
    for text in _not_run(report.artifacts):
        report.warn(text, loud=True)
    for text in not_faster(report.artifacts, report.machine, work.folder):
        report.warn(text, loud=True)
    for step in outcome.done("package"):
        packaged: Packaged = run.result(step.id)
        report.packages.append(PackageReport.of(packaged, work.folder))
    return report


def _not_run(artifacts: Sequence[ArtifactReport]) -> Iterator[str]:
    """A line for each artifact in whose place something else was checked."""
    for item in artifacts:
        if item.runtime.get("stands_for"):
            yield (
                f"{item.title}: {item.runtime['stands_for']} HAS NOT BEEN RUN: "
                f"{item.runtime['not_run']}. What was checked is {item.runtime.get('runs', '')} "
                f"in {item.runtime['name']}; its latency wasn't measured"
            )


def _source(outcome: Outcome, parsed: Made) -> SourceReport:
    source = parsed.model.source
    model = parsed.model
    described: Model = outcome.run.result("simplify").model
    return SourceReport(
        name=outcome.work.name,
        format=source.get("format", outcome.work.identity.format),
        framework=_framework(outcome, source),
        sha256=source.get("sha256", ""),
        parameters=source.get("parameters") or model.parameter_count(),
        weight_bytes=model.weight_bytes(),
        inputs=interfaces(described.inputs),
        outputs=interfaces(described.outputs),
    )


def _framework(outcome: Outcome, source: Mapping[str, Any]) -> str:
    reference = outcome.maybe("reference")
    runtime = reference.runtime if reference is not None else {}
    python = outcome.work.identity.python
    where = f" (Python {python})" if python else ""
    if runtime:
        return f"{runtime.get('name', '')} {runtime.get('version', '')}".strip() + where
    return str(source.get("framework", "")) + where


def _along(outcome: Outcome) -> list[AlongReport]:
    return [outcome.run.result(step.id) for step in outcome.done("trace")]


def _samples(outcome: Outcome) -> SamplesReport | None:
    if not outcome.plan.has("reference"):
        return None
    samples: Samples = outcome.run.result("samples")
    return SamplesReport(
        origin=samples.origin,
        count=len(samples),
        digest=samples.digest,
        random=samples.random,
        labelled=samples.labelled,
    )


def _artifact(outcome: Outcome, what: str, artifact: Artifact) -> ArtifactReport:
    work, run = outcome.work, outcome.run
    before: Made = run.result("parse")
    after: Made | Lowered = run.result(outcome.plan.step(f"emit:{what}").model)
    made = ArtifactReport(
        target=artifact.target,
        precision=artifact.precision,
        path=artifact.path.relative_to(work.folder).as_posix(),
        bytes=sum(file.stat().st_size for file in artifact.files),
        sha256=file_digest(artifact.path),
        files=len(artifact.files),
        opset=after.model.opset,
        nodes_before=before.model.node_count(),
        nodes_after=after.model.node_count(),
        transposes_before=count_of(before.model.graph, "Transpose"),
        transposes_after=count_of(after.model.graph, "Transpose"),
        inputs=interfaces(after.model.inputs),
        outputs=interfaces(after.model.outputs),
        gates=_gates(outcome, what, artifact),
        details={k: v for k, v in artifact.details.items() if k not in _SHOWN_ELSEWHERE},
    )
    made.decisions += artifact.details.get("decisions", [])
    made.decisions += _io_dtype(outcome.work.request, artifact.precision, before.model)
    if isinstance(after, Lowered):
        made.lowered_share = after.share
        made.decisions += [*after.decisions, *told(after)]
    checked: CheckedArtifact | None = outcome.maybe(f"check:{what}")
    if checked is not None:
        made.accuracy = checked.accuracy.comparison
        made.metrics = list(checked.accuracy.metrics)
        made.steps = [StepReport.of(step) for step in checked.steps]
        made.runtime = checked.runtime
    latency = outcome.maybe(f"bench:{what}")
    if latency is not None:
        made.add_latency(latency)
    return made


def _io_dtype(request: Request, precision: str, read: Model) -> Iterator[str]:
    """What ``--io-dtype`` did, where it was given."""
    names = [spec.name for spec in (*read.inputs, *read.outputs) if spec.dtype == "float32"]
    if request.io_dtype == "float32" or not names:
        return
    dtype, listed = io_dtype_of(request, precision), ", ".join(names)
    if dtype == request.io_dtype:
        yield f"{dtype} instead of float32, as asked for: {listed}"
    else:
        yield f"inputs and outputs stay float32: {precision} has no {request.io_dtype}"


def _gates(outcome: Outcome, what: str, artifact: Artifact) -> list[GateResult]:
    request = outcome.work.request
    checked: CheckedArtifact | None = outcome.maybe(f"check:{what}")
    latency = outcome.maybe(f"bench:{what}")
    reference = outcome.maybe("reference")
    arithmetic = str(reference.runtime.get("arithmetic", "")) if reference is not None else ""
    gates = judge(
        Limits.of(request, artifact.precision, arithmetic),
        checked.accuracy if checked else None,
        latency.artifact if latency else (),
        metrics_asked=request.metric,
    )
    for name, accuracy in checked.others.items() if checked else ():
        limits = Limits.of(request, artifact.precision, arithmetic).elsewhere()
        gates += [replace(gate, name=f"{gate.name} {name}") for gate in judge(limits, accuracy)]
    if checked and checked.runtime.get("stands_for"):
        why = f"{checked.runtime['stands_for']} was not run: {checked.runtime['not_run']}"
        gates.append(GateResult("runs", None, None, "not judged", why))
    return gates


def _publish(outcome: Outcome, report: Report) -> None:
    """Adds what was packaged to the user's own repository, once every gate was passed."""
    repository = outcome.work.request.repository
    steps = [step for step in outcome.plan.steps if step.kind == "package"]
    if not repository:
        return
    for step, package in zip(steps, report.packages, strict=True):
        server: plugins.Server = plugins.load("servers", step.id.split(":")[1])
        packaged: Packaged = outcome.run.result(step.id)
        added = server.publish(packaged, Path(repository))
        package.decisions = [*packaged.decisions, f"added to the repository as {added.name}"]
