"""Puts the results of a run together: gates, report, manifest, and the output in its place."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from converter import plugins
from converter.check.gate_result import located
from converter.check.gates import JUDGED, GateResult, Limits, flagged, judge
from converter.errors import InternalError
from converter.files.digest import file_digest
from converter.files.object_store import local_path
from converter.files.output_guard import NAME, REPORT, STEPS
from converter.ir.edit import count_of
from converter.ir.listing import ModelListing
from converter.ir.model import Model, PassRecord, TensorSpec
from converter.machine import describe_machine
from converter.options.parts import Whole, named
from converter.options.request import Request
from converter.options.resolved import io_dtype_of
from converter.options.unused_options import without_effect
from converter.passes.base import STANDARD_DOMAINS, used_domains
from converter.passes.libraries.tools import depends_on_machine
from converter.pipeline.declaring import declaration_of
from converter.pipeline.left_out import missed, missed_error, skipped, take_out, take_out_part
from converter.pipeline.manifest import (
    FileRecord,
    Scripts,
    build_manifest,
    records,
    write_manifest,
)
from converter.pipeline.outcome import Outcome
from converter.pipeline.plan import Step
from converter.pipeline.precision_shares import add_sizes, count
from converter.pipeline.publish_journal import Journal
from converter.pipeline.refusals import refuse
from converter.pipeline.staging import SCRATCH, Staging
from converter.pipeline.steps import CheckedArtifact, Made
from converter.preparation.declared import Declaration
from converter.preparation.flow import flow_of
from converter.protocols.emitter import Artifact
from converter.protocols.server import Packaged, Server
from converter.report.files import write_report
from converter.report.layerwise_error import AlongReport
from converter.report.model import (
    FLAGS,
    RUNS,
    ArtifactReport,
    NearMiss,
    PackageReport,
    PartReport,
    Report,
    SamplesReport,
    SourceReport,
    StepReport,
    StepTiming,
    interfaces,
    narrowed,
)
from converter.report.readme import write_readme
from converter.samples import Samples
from converter.samples.base import sizes_in
from converter.text import words

if TYPE_CHECKING:
    from converter.pipeline.flow_packages import FlowPackage
    from converter.precision.quantized import Kept, Quantized

FAILED_KEEPS = [NAME, *REPORT, STEPS]
"""What a run that missed a gate leaves."""


_SHOWN_ELSEWHERE = {
    "bytes",
    "sha256",
    "opset",
    "nodes",
    "decisions",
    "assumes",
    "takes",
    "gives",
    "without",
    "interface",
}


def write_outcome(
    outcomes: Sequence[Outcome],
    staging: Staging,
    whole: Whole,
    flows: tuple[Sequence[FlowPackage], Sequence[str]] = ((), ()),
) -> Report:
    """Judges the gates, writes report and manifest, and puts the output in its place.

    Args:
        outcomes: The run of each part; of a request without parts, one.
        staging: Where the output is made.
        whole: What all parts have together.
        flows: The packages that join those of the parts, and why there are none.

    Raises:
        GateError: A gate or a budget was missed: only the report is left, in ``OUT.failed/``.
        PartlyError: The same, but with ``--keep-going`` the others are in the output.
        ModelError: What was made can't be run, or nothing could be made.
    """
    told = [outcome for outcome in outcomes if outcome.is_told]
    if not told:
        _raise_first(outcomes)
    reports = {outcome.part: build_report(outcome) for outcome in told}
    report = _joined(outcomes, reports, whole)
    passed = [item for item in report.artifacts if item.verdict != "failed"]
    failed = report.verdict == "failed"
    if not report.artifacts:
        left = {f"{o.part} {k}".strip(): v for o in outcomes for k, v in o.run.left.items()}
        refuse(left, others=False)
    given = bool(passed) and (not failed or whole.request.keep_going)
    if given:
        for outcome in outcomes:
            if outcome.is_told:
                take_out(outcome, reports[outcome.part])
            else:
                take_out_part(outcome, told)
        if any(outcome.work.request.repository for outcome in told):
            staging.require_free()
        for outcome in told:
            _publish(outcome, reports[outcome.part], staging.journal)
        report = _joined(outcomes, reports, whole)
        for flow in flows[0]:
            if not all(folder.is_dir() for folder in flow.parts):
                shutil.rmtree(flow.packaged.path)  # in the staging folder, written by this run
                report.warn(
                    f"{flow.packaged.path.name} is missing, because a part of it was left out"
                )
                continue
            places = {outcome.work.request.repository for outcome in told}
            if len(places) == 1:
                _publish_one(flow.packaged, places.pop(), staging.journal)
            else:
                report.warn(
                    f"{flow.packaged.path.name} is in no repository, because its parts use several"
                )
            report.packages.append(PackageReport.of(flow.packaged, staging.folder))
        for text in flows[1]:
            report.warn(text)
        if whole.request.deploy:
            from converter.pipeline.deployments import deploy

            deploy(told, flows[0], report, whole.request, staging.folder)
    _write(outcomes, report, staging, whole.request, given)
    place = staging.commit() if given else staging.commit_failed(FAILED_KEEPS)
    if staging.left:
        report.warn(staging.left, loud=True)
    if staging.stayed:
        stayed = ", ".join(staging.stayed)
        report.warn(f"ADDED BY A RUN THAT WAS KILLED, AND CHANGED SINCE: {stayed}", loud=True)
    if failed:
        raise missed_error(outcomes, report, place, given)
    outcomes[0].work.cache.trim()
    return report


def _raise_first(outcomes: Sequence[Outcome]) -> NoReturn:
    """Raises why the first part that failed did."""
    for outcome in outcomes:
        if outcome.run.failed is not None:
            raise named(outcome.run.failed, outcome.part)
    raise InternalError("nothing was read, and nothing says why")


def _joined(outcomes: Sequence[Outcome], reports: Mapping[str, Report], whole: Whole) -> Report:
    """The report of all parts; of a request without parts, its one."""
    if not outcomes[0].part:
        return reports[""]
    from converter.pipeline.parts import joined

    failed = {outcome.part: _failed(outcome) for outcome in outcomes if not outcome.is_told}
    for name, error in whole.unread.items():
        why = error.message.removeprefix(f"{name}: ")
        failed[name] = PartReport(source=SourceReport(name=name, format=""), failed=why)
    steps = flow_of(whole.request.flow, [*reports, *failed]) if whole.request.flow else ()
    return joined(whole.title, reports, failed, steps)


def _failed(outcome: Outcome) -> PartReport:
    """What is said of a part of which nothing could be made."""
    error = outcome.run.failed
    identity = outcome.work.identity
    return PartReport(
        source=SourceReport(name=outcome.work.name, format=identity.format),
        failed=error.message.removeprefix(f"{outcome.part}: ")
        if error
        else "the run ended before it was read",
    )


def _write(
    outcomes: Sequence[Outcome], report: Report, staging: Staging, request: Request, given: bool
) -> None:
    """Writes the report, the manifest and the models between steps into the staging folder."""
    told = [outcome for outcome in outcomes if outcome.is_told]
    for outcome in told:
        if outcome.work.request.keep_steps:
            _keep_steps(outcome, staging.folder / STEPS / outcome.part)
    shutil.rmtree(staging.folder / SCRATCH)
    if given:
        for outcome in told:
            outcome.work.copy_assets(outcome.work.folder)
        write_readme(report, staging.folder)
    write_report(report, staging.folder)
    files = records(staging.folder)
    if not given:  # what is left
        files = [item for item in files if item.path.split("/")[0] in FAILED_KEEPS]
    scripts = _scripts(told) if given else None
    requests = {o.part: o.request if o.is_told else o.work.request for o in outcomes}
    request = requests.pop("", request)
    manifest = build_manifest(request, report, _sources(outcomes), files, scripts, requests)
    write_manifest(manifest, staging.folder)


def _sources(outcomes: Sequence[Outcome]) -> list[FileRecord]:
    """The files that the parts were read from."""
    return [
        FileRecord.of(path, f"{outcome.part}/{name}" if outcome.part else name)
        for outcome in outcomes
        for name, path in outcome.work.identity.files.items()
    ]


def _scripts(outcomes: Sequence[Outcome]) -> Scripts:
    """What scripts in the output do later, by paths in it."""
    found = Scripts()
    for outcome in outcomes:
        made: list[Artifact | Packaged] = [artifact for _, artifact in outcome.artifacts()]
        made += [outcome.run.result(step.id) for step in outcome.done("package")]
        for item in filter(lambda item: item.path.exists(), made):
            for listed, paths in ((found.write, item.later.write), (found.move, item.later.move)):
                listed += [path.relative_to(outcome.work.output).as_posix() for path in paths]
    return found


def _keep_steps(outcome: Outcome, folder: Path) -> None:
    """Writes the model as it was read, simplified, and in each precision."""
    folder.mkdir(parents=True)
    names = {"parse": "read", "simplify": "simplified"}
    for step in outcome.done("emit"):
        made = outcome.run.result(step.id).legalized
        if made is not None and used_domains(made.graph) <= STANDARD_DOMAINS:
            name = f"{step.target}-{step.precision}-legalized.onnx"
            Model(made.graph).copy().save(folder / name)
    for step in outcome.done("parse", "simplify", "quantize"):
        name = names.get(step.id) or step.what.replace(" ", "-")
        outcome.run.result(step.id).model.copy().save(folder / f"{name}.onnx")


def build_report(outcome: Outcome) -> Report:
    """The report of a run."""
    work, run = outcome.work, outcome.run
    parsed: Made = run.result("parse")
    simplified: Made = run.result("simplify")
    legalized = list(_legalized(outcome))
    report = Report(
        tool=f"modelyard {version('modelyard')}",
        title=work.name,
        source=_source(outcome, parsed),
        samples=_samples(outcome),
        along=[made for made in _along(outcome) if not made.unchanged],
        passes=[*simplified.records, *legalized],
        near_misses=[NearMiss(**miss) for miss in simplified.misses],
        declared=_declared(outcome, simplified.model),
        machine=describe_machine(),
        versions=work.versions(outcome.versions),
        timings=[
            StepTiming(step=id, seconds=round(done.seconds, 3), cached=done.cached)
            for id, done in run.done.items()
        ],
    )
    said = (
        *_hurried(outcome),
        *_skipped(outcome),
        *_of_the_cache(outcome),
        *skipped(outcome),
        *_left_out(),
    )
    for text in said:
        report.warn(text, loud=True)
    for record in legalized:
        if record.status == "failed":
            report.warn(f"NOT THE SAME AS THE MODEL: {record.name}, {record.detail}", loud=True)
    for text in dict.fromkeys([*parsed.warnings, *simplified.warnings]):
        report.warn(text, loud=text.split(":")[0].isupper())
    for step, artifact in outcome.artifacts():
        report.artifacts.append(_artifact(outcome, step, artifact))
        told = [*artifact.left_out.values(), *artifact.details.get("assumes", ())]
        checked: CheckedArtifact | None = outcome.beside(step, "check")
        if checked is not None and checked.accuracy.narrow:
            told.append(narrowed(checked.accuracy.narrow))
        if step.what in outcome.recalibrated:
            told.append(outcome.recalibrated[step.what])
        for text in told:
            report.warn(f"{report.artifacts[-1].title}: {text}", loud=True)
    add_sizes(report.artifacts, simplified.model)
    report.artifacts += missed(outcome)
    for text in _not_run(report.artifacts):
        report.warn(text, loud=True)
    for text in _not_faster(outcome, report):
        report.warn(text, loud=True)
    samples: Samples = run.result("samples")
    asked = work.request
    images = samples.of_images or bool(asked.calibration_samples or asked.prepare)
    idle = without_effect(work.request, work.given, images=images, source=work.identity.format)
    if idle:
        report.warn(f"without effect: {', '.join(idle)}", loud=True)
    for step in outcome.done("package"):
        packaged: Packaged = run.result(step.id)
        made = PackageReport.of(packaged, work.output, work.part)
        if work.part and not plugins.load("servers", step.server).several:
            made.decisions.append("a package holds one model: each part has its own")
        report.packages.append(made)
    return report


def _not_faster(outcome: Outcome, report: Report) -> Iterable[str]:
    if not any(item.latency for item in report.artifacts):
        return ()
    from converter.pipeline.slow_int8 import not_faster

    kept = {artifact.what: _kept(outcome, artifact) for artifact in outcome.done("emit")}
    return not_faster(report.artifacts, report.machine, outcome.work.output, kept)


def _kept(outcome: Outcome, step: Step) -> list[Kept]:
    """What of an artifact stayed in float32."""
    model = outcome.run.result(step.model)
    return [] if isinstance(model, Made) else list(model.kept)


def _legalized(outcome: Outcome) -> Iterator[PassRecord]:
    """What rewriting for targets did, for each of their precisions."""
    for step in outcome.done("emit"):
        made = outcome.run.result(step.id).legalized
        if made is not None and made.record is not None:
            yield replace(made.record, name=f"{made.record.name}:{step.precision}")


def _left_out() -> list[str]:
    """What of other distributions would take part in any run, and is broken."""
    found = plugins.broken()
    return [str(item) for item in found if item.kind in ("parsers", "passes", "options")]


def _skipped(outcome: Outcome) -> Iterator[str]:
    """Lines for samples that were left out, and for others that something is to be known of."""
    samples: Samples = outcome.run.result("samples")
    if samples.skipped:
        count = len(samples.skipped)
        named = "; ".join(samples.skipped[:5]) + ("; ..." if count > 5 else "")
        yield f"{count} SAMPLE{'S' * (count != 1)} LEFT OUT (--skip-bad): {named}"
    yield from samples.notes


def _hurried(outcome: Outcome) -> Iterator[str]:
    """A line where the clock has ended something: the same run gives other artifacts elsewhere."""
    ids = [step.id for step in outcome.done("quantize") if outcome.run.result(step.id).hurried]
    names = [step.what for step in outcome.plan.steps if step.kind == "emit" and step.model in ids]
    if names:
        yield (
            f"THIS DEPENDS ON THE MACHINE: {', '.join(names)}. --search-seconds ended a search; "
            "another machine gets further in that time. Leave it out for the same bytes everywhere"
        )
    simplified: Made = outcome.run.result("simplify")
    for record in simplified.records:
        if record.status == "failed" and depends_on_machine(record.detail):
            yield f"THIS DEPENDS ON THE MACHINE: {record.detail}, and was left out"


def _of_the_cache(outcome: Outcome) -> Iterator[str]:
    """What the user has to know of it: that the source may have changed, what was damaged, that
    nothing is kept."""
    if outcome.work.identity.runs_code and outcome.run.done["parse"].cached:
        yield (
            "THE SOURCE WAS NOT READ AGAIN (--reuse-source): the model comes from an "
            "earlier run, though files that the source's code reads may have changed since"
        )
    behind = outcome.work.cache.behind
    if behind is not None and behind.away:
        yield (
            f"THE STORE BEHIND THE CACHE WAS AWAY: {behind.away}. This run made its contents "
            "again, and didn't add its own results to the store"
        )
    if damaged := [*outcome.work.cache.damaged, *(behind.damaged if behind else ())]:
        yield (
            f"THE CACHE WAS DAMAGED: {', '.join(damaged)}. It isn't used, and its steps were done "
            "again; if others follow, look at the disk and the memory of this machine"
        )
    if trouble := outcome.work.cache.trouble:
        yield (
            f"THE CACHE CAN'T BE WRITTEN: {trouble}. The next run does everything again; set "
            "MODELYARD_CACHE to another folder, make room (modelyard cache clear), or pass "
            "--no-cache"
        )


def _not_run(artifacts: Sequence[ArtifactReport]) -> Iterator[str]:
    """A line for the artifacts in whose place something else was checked, each reason once."""
    titles: dict[str, list[str]] = {}
    for item in artifacts:
        if item.runtime.get("stands_for"):
            why = (
                f"{item.runtime['stands_for']} HAS NOT BEEN RUN: {item.runtime['not_run']}. "
                f"Checked instead: {item.runtime.get('runs', '')} in {item.runtime['name']}; "
                "its latency wasn't measured"
            )
            titles.setdefault(why, []).append(item.title)
    for why, alike in titles.items():
        yield f"{', '.join(alike)}: {why}"


def _source(outcome: Outcome, parsed: Made) -> SourceReport:
    source = parsed.model.source
    model = parsed.model
    described: Model = outcome.run.result("simplify").model
    return SourceReport(
        name=outcome.work.name,
        format=source.get("format", outcome.work.identity.format),
        framework=_framework(outcome, source),
        sha256=source.get("sha256", ""),
        parameters=source.get("parameters") or ModelListing(model).parameters(),
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
        return words.runtime(runtime) + where
    return str(source.get("framework", "")) + where


def _declared(outcome: Outcome, model: Model) -> Declaration | None:
    samples: Samples = outcome.run.result("samples")
    return declaration_of(outcome.request, samples, model, outcome.work.identity.assets)


def _along(outcome: Outcome) -> list[AlongReport]:
    return [outcome.run.result(step.id) for step in outcome.done("trace")]


def _samples(outcome: Outcome) -> SamplesReport | None:
    if not outcome.plan.has("reference"):
        return None
    samples: Samples = outcome.run.result("samples")
    return SamplesReport.of(samples, probed=outcome.work.request.probes)


def _own(artifact: Artifact, which: str) -> tuple[TensorSpec, ...]:
    """Its inputs or outputs, where they are other than the model's."""
    return tuple(TensorSpec(**spec) for spec in artifact.details.get(which, ()))


def _artifact(outcome: Outcome, step: Step, artifact: Artifact) -> ArtifactReport:
    work, run = outcome.work, outcome.run
    before: Made = run.result("parse")
    after: Made | Quantized = run.result(step.model)
    outputs = _own(artifact, "gives") or after.model.outputs
    made = ArtifactReport(
        part=work.part,
        target=artifact.target,
        precision=artifact.precision,
        path=artifact.path.relative_to(work.output).as_posix(),
        bytes=sum(file.stat().st_size for file in artifact.files),
        sha256=file_digest(artifact.path),
        files=len(artifact.files),
        opset=after.model.opset,
        nodes_before=before.model.node_count(),
        nodes_after=after.model.node_count(),
        transposes_before=count_of(before.model.graph, "Transpose"),
        transposes_after=count_of(after.model.graph, "Transpose"),
        inputs=interfaces(_own(artifact, "takes") or after.model.inputs),
        outputs=interfaces([s for s in outputs if s.name not in artifact.left_out]),
        gates=gates_of(outcome, step, artifact),
        details={k: v for k, v in artifact.details.items() if k not in _SHOWN_ELSEWHERE},
    )
    made.decisions += artifact.details.get("decisions", [])
    if step.what in outcome.recalibrated:
        made.decisions.append(outcome.recalibrated[step.what])
    made.decisions += _io_dtype(outcome.work.request, artifact.precision, before.model)
    lowered = after if not isinstance(after, Made) else None
    count(made, artifact, lowered, outcome.request, _sizes(outcome, after.model))
    if lowered is not None:
        from converter.precision.summary import summary

        made.decisions += [*lowered.decisions, *summary(lowered)]
    checked: CheckedArtifact | None = outcome.beside(step, "check")
    if checked is not None:
        made.accuracy = checked.accuracy.comparison
        made.metrics = list(checked.accuracy.metrics)
        made.steps = [StepReport.of(error) for error in checked.steps]
        made.runtime = checked.runtime
    latency = outcome.beside(step, "bench")
    if latency is not None:
        made.add_latency(latency)
    made.decisions += outcome.beside(step, "pack") or []
    return made


def _sizes(outcome: Outcome, model: Model) -> dict[str, int]:
    """Of free dimensions, as the first sample has them."""
    samples: Samples | None = outcome.maybe("samples")
    return sizes_in(model, next(iter(samples))) if samples else {}


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


def gates_of(outcome: Outcome, step: Step, artifact: Artifact) -> list[GateResult]:
    """The gates of an artifact, as far as it was checked and measured.

    Args:
        outcome: The run.
        step: What wrote the artifact.
        artifact: What it wrote.
    """
    request = outcome.work.request
    checked: CheckedArtifact | None = outcome.beside(step, "check")
    latency = outcome.beside(step, "bench")
    reference = outcome.maybe("reference")
    arithmetic = str(reference.runtime.get("arithmetic", "")) if reference is not None else ""
    gates = judge(
        Limits.of(request, artifact.precision, arithmetic),
        checked.accuracy if checked else None,
        latency.artifact if latency else (),
        metrics_asked=request.metric,
        memory=latency.memory if latency else None,
    )
    gates = located(gates, checked.where if checked else "")
    for name, accuracy in checked.others.items() if checked else ():
        limits = Limits.of(request, artifact.precision, arithmetic).elsewhere()
        gates += _elsewhere(gates, judge(limits, accuracy), name)
    if checked and checked.runtime.get("stands_for"):
        why = f"{checked.runtime['stands_for']} was not run"
        gates.append(GateResult(RUNS, None, None, "not judged", why))
    if (joined := outcome.joined.get((artifact.target, artifact.precision))) is not None:
        gates.append(joined)
    decided = outcome.run.result("parse").model.source.get("decided")
    if decided and request.strict:
        why = f"the tried inputs decided values that the file now has for every input: {decided}"
        gates.append(flagged(JUDGED, why, strict=True))
    return gates


def _elsewhere(
    here: Sequence[GateResult], there: Sequence[GateResult], kernels: str
) -> list[GateResult]:
    """The gates on other kernels, by their names; what the source is to blame for is said once."""
    said = {(gate.name, gate.why) for gate in here if not gate.passed and gate.value is None}
    return [
        replace(gate, why=f"{kernels}: {gate.why}")
        if gate.name in FLAGS and gate.status == "not judged"
        else replace(gate, name=f"{gate.name} {kernels}")
        for gate in there
        if (gate.name, gate.why) not in said
    ]


def _publish(outcome: Outcome, report: Report, journal: Journal) -> None:
    """Adds what was packaged to the user's own repository, once every gate was passed."""
    for step in outcome.done("package"):
        packaged: Packaged = outcome.run.result(step.id)
        path = packaged.path.relative_to(outcome.work.output).as_posix()
        package = next((item for item in report.packages if item.path == path), None)
        if package is not None and _publish_one(packaged, outcome.work.request.repository, journal):
            package.decisions = packaged.decisions


def _publish_one(packaged: Packaged, repository: str | None, journal: Journal) -> bool:
    """Adds a package to the user's repository, where there is one and its server has such."""
    server: Server = plugins.load("servers", packaged.server)
    if not (repository and server.publishes):
        return False
    added = server.publish(packaged, local_path(repository) or repository, journal.announce)
    packaged.decisions.append(f"added to the repository as {added.name}")
    return True
