"""Puts the results of a run together: gates, report, manifest, and the output in its place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from converter.plan import Plan
from converter.plugins import Artifact, Packaged
from converter.quantize.lowered import Lowered
from converter.report.files import write_report
from converter.report.model import (
    ArtifactReport,
    PackageReport,
    Report,
    SamplesReport,
    SourceReport,
    StepReport,
    StepTiming,
    interfaces,
)
from converter.run import Run
from converter.samples import Samples
from converter.staging import Staging
from converter.steps import CheckedArtifact, Made
from converter.work import Work

FAILED_KEEPS = ["report.html", "report.json", "manifest.json"]
"""What a run that missed a gate leaves."""


_SHOWN_ELSEWHERE = {"bytes", "sha256", "opset", "nodes"}


@dataclass(frozen=True)
class Outcome:
    """A run whose steps are done."""

    work: Work
    plan: Plan
    run: Run
    versions: Mapping[str, str]

    def artifacts(self) -> Iterator[tuple[str, Artifact]]:
        """``target:precision`` and the artifact, in the plan's order."""
        for step in self.plan.steps:
            if step.kind == "emit":
                yield step.id.split(":", 1)[1], self.run.result(step.id)

    def maybe(self, id: str) -> Any:
        """The result of a step, or None where it wasn't planned."""
        return self.run.result(id) if self.plan.has(id) else None


def write_outcome(outcome: Outcome, staging: Staging) -> Report:
    """Judges the gates, writes report and manifest, and puts the output in its place.

    Raises:
        GateError: A gate was missed: only the report is left, in ``OUT.failed/``.
    """
    report = build_report(outcome)
    if report.verdict != "failed":
        _publish(outcome, report)
    shutil.rmtree(outcome.work.scratch)
    write_report(report, staging.folder)
    sources = [FileRecord.of(path, name) for name, path in outcome.work.identity.files.items()]
    files = [item for item in records(staging.folder) if not item.path.startswith("report.")]
    manifest = build_manifest(outcome.work.request, report, sources, files)
    write_manifest(manifest, staging.folder)
    if report.verdict == "failed":
        failed = staging.commit_failed(FAILED_KEEPS)
        _require(report, failed)
    staging.commit()
    outcome.work.cache.trim()
    return report


def _require(report: Report, failed: Path) -> None:
    for artifact in report.artifacts:
        try:
            require(artifact.gates, artifact.title)
        except GateError as error:
            error.hint = f"The report is in {failed / 'report.html'}; no artifact was left."
            if artifact.precision != "fp32":
                error.hint += " With --min-cosine, as many layers as it takes stay in float32."
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
        passes=simplified.records,
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
    for text in not_faster(report.artifacts, report.machine):
        report.warn(text, loud=True)
    for step in outcome.plan.steps:
        if step.kind == "package":
            packaged: Packaged = run.result(step.id)
            report.packages.append(PackageReport.of(packaged, work.folder))
    return report


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
        gates=_gates(outcome, what, artifact),
        details={k: v for k, v in artifact.details.items() if k not in _SHOWN_ELSEWHERE},
    )
    if isinstance(after, Lowered):
        made.decisions += [*after.decisions, *_lowered(after)]
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


def _lowered(lowered: Lowered) -> Iterator[str]:
    """What computes in the lower precision, and what stayed in float32 and why."""
    yield (
        f"{lowered.share:.1%} of the multiply-adds are {lowered.precision}; "
        f"{len(lowered.lowered)} nodes are, {len(lowered.kept)} that could be stayed float32"
    )
    for item in lowered.kept:
        cost = "" if item.cost is None else f", costs {item.cost:.2g} of cosine alone"
        yield f"{item.node} ({item.op}) stays float32: {item.reason}{cost}"


def _gates(outcome: Outcome, what: str, artifact: Artifact) -> list[GateResult]:
    request = outcome.work.request
    checked: CheckedArtifact | None = outcome.maybe(f"check:{what}")
    latency = outcome.maybe(f"bench:{what}")
    reference = outcome.maybe("reference")
    arithmetic = str(reference.runtime.get("arithmetic", "")) if reference is not None else ""
    return judge(
        Limits.of(request, artifact.precision, arithmetic),
        checked.accuracy if checked else None,
        latency.artifact if latency else (),
        metrics_asked=request.metric,
    )


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
