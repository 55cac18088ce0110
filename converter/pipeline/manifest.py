"""manifest.json, the record beside every output: what made it, and what came of it.

All of it but ``measured`` is the same for the same inputs: no time, no path, no name of a
machine or a user. What differs from run to run (durations, latencies and the machine they
were taken on) stands in ``measured`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from converter.check.gates import GateResult
from converter.check.latency import LatencyPoint, LatencyRatio
from converter.files.digest import file_digest
from converter.files.output_guard import NAME, REPORT, seal_of
from converter.files.scrub import assert_no_paths, base_name, scrub
from converter.ir.model import PassRecord
from converter.machine import Machine
from converter.options.request import Request, all_fields
from converter.preparation.declared import Declaration
from converter.preparation.flow import FlowStep
from converter.report.json_ import as_json, scrubbed, write_text
from converter.report.model import (
    ArtifactReport,
    Interface,
    PartReport,
    Report,
    SamplesReport,
    SourceReport,
    StepTiming,
    Verdict,
)

_PATHS = (
    "source", "weights", "search_paths", "samples", "labels", "label_names", "metric",
)  # fmt: skip
_LEFT_OUT = ("out", "repository", "overwrite", "dry_run", "offline", "cache", "layers")
"""Options that say where and how a run went, and change nothing of what it makes; and what the
declaration's notes tell."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class FileRecord(_Part):
    """A file: its name (for an output, its path under the output folder), size and hash."""

    path: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> FileRecord:
        """Of a file, or of a folder as a whole; ``name`` instead of the path's last part."""
        return cls(path=name or path.name, bytes=size_of(path), sha256=file_digest(path))


class PassEntry(_Part):
    """A pass over the model."""

    name: str
    status: str
    nodes_before: int
    nodes_after: int
    detail: str = ""


class ArtifactEntry(_Part):
    """An artifact: its files, what was decided on the way, and the gates on its outputs."""

    part: str = Field(default="", description="The part that it is of; empty without parts.")
    target: str
    precision: str
    path: str
    bytes: int
    sha256: str
    opset: int | None = None
    nodes: int | None = None
    inputs: list[Interface] = []
    outputs: list[Interface] = []
    details: dict[str, Any] = {}
    decisions: list[str] = []
    gates: list[GateResult] = []


class PackageEntry(_Part):
    """A server's folder."""

    part: str = Field(default="", description="The part that it is of; empty without parts.")
    server: str
    path: str
    details: dict[str, Any] = {}
    decisions: list[str] = []


class PartEntry(_Part):
    """One of several models: what was asked for and read, and what passes did."""

    request: dict[str, Any] = Field(description="Options that differ from their defaults.")
    source: dict[str, Any] = Field(description="Format, framework, digest.")
    samples: SamplesReport | None = None
    passes: list[PassEntry] = []
    failed: str = Field(default="", description="Why nothing of it could be made.")
    declared: Declaration | None = Field(
        default=None, description="How users' files become inputs, and outputs answers."
    )


class LatencyEntry(_Part):
    """What was measured of one artifact."""

    artifact: str
    points: list[LatencyPoint] = []
    ratios: list[LatencyRatio] = []
    gates: list[GateResult] = []


class Measured(_Part):
    """What differs from run to run."""

    machine: Machine | None = None
    timings: list[StepTiming] = []
    latency: list[LatencyEntry] = []
    files: list[FileRecord] = Field(default=[], description="The report's files.")
    seal: str = Field(
        default="", description="The sha256 of this file with an empty seal: nobody edited it."
    )


class Scripts(_Part):
    """Paths, with * in their last part, that scripts among the files write when they are run:
    --overwrite takes what lies there for ours."""

    write: list[str] = Field(default=[], description="Files that they make.")
    move: list[str] = Field(
        default=[], description="Where they put files of the folder, or copies of them."
    )


class Results(_Part):
    """What came of it."""

    verdict: Verdict
    checked_on: str
    alerts: list[str] = []


class Manifest(_Part):
    """The record of one run."""

    schema_version: Literal[1] = 1
    tool: str = Field(description="Name and version of what wrote this.")
    name: str = Field(description="The model's name.")
    request: dict[str, Any] = Field(description="Options that differ from their defaults.")
    source: dict[str, Any] = Field(description="Format, framework, digest.")
    source_files: list[FileRecord] = []
    samples: SamplesReport | None = None
    versions: dict[str, str] = {}
    passes: list[PassEntry] = []
    artifacts: list[ArtifactEntry] = []
    packages: list[PackageEntry] = []
    files: list[FileRecord] = Field(
        default=[], description="Every other file of the output folder, but for the report's."
    )
    scripts: Scripts = Scripts()
    results: Results
    parts: dict[str, PartEntry] = Field(
        default={},
        description="By name, where several models were converted; artifacts and packages name "
        "theirs, files lie in a folder of that name.",
    )
    flow: list[FlowStep] = Field(
        default=[], description="How the parts are joined, from a user's file to the answer."
    )
    declared: Declaration | None = Field(
        default=None, description="How users' files become inputs, and outputs answers."
    )
    measured: Measured = Measured()


def build_manifest(
    request: Request,
    report: Report,
    source_files: Iterable[FileRecord] = (),
    files: Sequence[FileRecord] = (),
    scripts: Scripts | None = None,
    requests: Mapping[str, Request] | None = None,
) -> Manifest:
    """The manifest of a run, of what its report says.

    Args:
        request: What the user asked for.
        report: What came of it; its artifacts' and packages' paths are relative.
        source_files: The source's files, weights and modules, by name without a path.
        files: What lies in the output folder, as of :func:`records`.
        scripts: What scripts among them write.
        requests: What was asked for of each part, where there are parts.
    """
    manifest = Manifest(
        tool=report.tool,
        name=report.title,
        request=describe_request(request),
        source=_described(report.source),
        source_files=sorted(source_files, key=lambda record: record.path),
        samples=report.samples,
        versions=dict(sorted(report.versions.items())),
        passes=_passes(report.passes),
        artifacts=[_artifact(item) for item in report.artifacts],
        packages=[
            PackageEntry(**package.model_dump(exclude={"deployments"}))
            for package in report.packages
        ],
        files=[item for item in files if item.path not in REPORT],
        scripts=scripts or Scripts(),
        results=Results(
            verdict=report.verdict,
            checked_on=report.checked_on,
            alerts=[alert.text for alert in report.alerts],
        ),
        declared=report.declared,
        parts={
            name: _part(part, (requests or {}).get(name)) for name, part in report.parts.items()
        },
        flow=report.flow,
        measured=_measured(report, [item for item in files if item.path in REPORT]),
    )
    return scrubbed(manifest)


def _part(part: PartReport, request: Request | None) -> PartEntry:
    return PartEntry(
        request=describe_request(request) if request else {},
        source=_described(part.source),
        samples=part.samples,
        passes=_passes(part.passes),
        failed=part.failed,
        declared=part.declared,
    )


def _described(source: SourceReport) -> dict[str, Any]:
    names = ("name", "format", "framework", "sha256")
    return {name: getattr(source, name) for name in names}


def _passes(records: Sequence[PassRecord]) -> list[PassEntry]:
    names = ("name", "status", "nodes_before", "nodes_after", "detail")
    return [PassEntry(**{name: getattr(item, name) for name in names}) for item in records]


def write_manifest(manifest: Manifest, folder: Path) -> Path:
    """Writes manifest.json into ``folder``.

    Raises:
        InternalError: It holds a path of this machine.
        MachineError: The disk is full.
    """
    assert_no_paths(manifest.model_dump(mode="json"), NAME)
    seal = seal_of(as_json(manifest))
    measured = manifest.measured.model_copy(update={"seal": seal})
    return write_text(folder / NAME, as_json(manifest.model_copy(update={"measured": measured})))


def describe_request(request: Request) -> dict[str, Any]:
    """The options that differ from their defaults, in order; paths reduced to base names."""
    plain = Request(request.source)
    described = {}
    for item in all_fields():
        value = request.value(item.name)
        if item.name in _LEFT_OUT or (item.name != "source" and value == plain.value(item.name)):
            continue
        if item.name in _PATHS:
            value = [base_name(v) for v in value] if isinstance(value, list) else base_name(value)
        described[item.name] = scrub(value)
    return described


def records(root: Path) -> list[FileRecord]:
    """Every file under ``root``, by its path there, in order; not the manifest itself."""
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return [FileRecord.of(root / path, path) for path in paths if path != NAME]


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _artifact(item: ArtifactReport) -> ArtifactEntry:
    return ArtifactEntry(
        part=item.part,
        target=item.target,
        precision=item.precision,
        path=item.path,
        bytes=item.bytes,
        sha256=item.sha256,
        opset=item.opset,
        nodes=item.nodes_after,
        inputs=item.inputs,
        outputs=item.outputs,
        details=item.details,
        decisions=item.decisions,
        gates=[gate for gate in item.gates if not gate.measured],
    )


def _measured(report: Report, files: list[FileRecord]) -> Measured:
    latency = [
        LatencyEntry(
            artifact=item.title,
            points=item.latency,
            ratios=item.ratios,
            gates=[gate for gate in item.gates if gate.measured],
        )
        for item in report.artifacts
        if item.latency or any(gate.measured for gate in item.gates)
    ]
    return Measured(machine=report.machine, timings=report.timings, latency=latency, files=files)
