"""The report's contents, which every rendering shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

from converter.check.accuracy import StepError
from converter.check.comparison import Comparison
from converter.check.gates import JUDGED, LOWERED, GateResult
from converter.check.latency import LatencyPoint, LatencyRatio, LatencyResult
from converter.check.metric import MetricResult
from converter.ir.model import PassRecord, TensorSpec
from converter.machine import Machine
from converter.preparation.declared import Declaration
from converter.preparation.flow import FlowStep
from converter.protocols.server import Packaged
from converter.report.layerwise_error import AlongReport
from converter.runtime.session import Footprint, Profile
from converter.samples import Samples

Verdict = Literal["passed", "failed", "not judged", "unlowered", "not checked"]

FLAGS: dict[str, Verdict] = {JUDGED: "not judged", LOWERED: "unlowered"}
"""Verdicts of gates that only ``--strict`` misses, the graver one first."""


RUNS = "runs"
"""The gate that is not judged where something else ran in an artifact's place."""
WEIGHTS = "the weights in float32"
"""What sizes are beside where no float32 artifact was made."""


class _Part(BaseModel):
    """Fields computed from others are written too, and left aside when it is read back."""

    model_config = ConfigDict(extra="ignore", json_schema_serialization_defaults_required=True)


class Interface(_Part):
    """An input or output: its name, dtype and shape in words, and what it means."""

    name: str
    type: str
    layout: str = ""
    meaning: str = ""

    @classmethod
    def of(cls, spec: TensorSpec) -> Interface:
        """Of an input or output of a model."""
        return cls(
            name=spec.name,
            type=spec.describe(),
            layout=spec.layout or "",
            meaning=spec.meaning or "",
        )


class SourceReport(_Part):
    """What was converted."""

    name: str
    format: str
    framework: str = Field(default="", description="Name and version of what ran the source.")
    sha256: str = ""
    parameters: int | None = None
    weight_bytes: int | None = None
    inputs: list[Interface] = []
    outputs: list[Interface] = []


class SamplesReport(_Part):
    """What accuracy was checked on."""

    origin: str = Field(description="Where the samples came from; never a path.")
    count: int
    digest: str = ""
    random: bool = False
    labelled: bool = False
    probed: bool = Field(True, description="Whether other inputs than these were tried, too.")

    @classmethod
    def of(cls, samples: Samples, *, probed: bool = True) -> SamplesReport:
        """Of the samples of a run."""
        return cls(
            origin=samples.origin,
            count=len(samples),
            digest=samples.digest,
            random=samples.random,
            labelled=samples.labelled,
            probed=probed,
        )


class StepReport(_Part):
    """How far the model after a step is from the source, and from the step before it.

    Values are the worst over float outputs; an SQNR is None where nothing differs.
    """

    step: str
    samples: int = Field(0, description="The first ones: a large model runs on few.")
    source_cosine: float | None
    source_max_abs: float | None
    source_sqnr_db: float | None
    previous_cosine: float | None
    previous_max_abs: float | None
    previous_sqnr_db: float | None

    @classmethod
    def of(cls, error: StepError) -> StepReport:
        """Of what :func:`converter.check.accuracy.compare_steps` found."""
        source, previous = error.source, error.previous
        return cls(
            step=error.step,
            samples=source.samples,
            source_cosine=source.cosine,
            source_max_abs=source.max_abs,
            source_sqnr_db=source.sqnr_db,
            previous_cosine=previous.cosine,
            previous_max_abs=previous.max_abs,
            previous_sqnr_db=previous.sqnr_db,
        )


class ArtifactReport(_Part):
    """One file (or folder) that was made, and how it did."""

    part: str = Field(default="", description="The part that it is of; empty without parts.")
    target: str
    precision: str
    path: str = Field(description="Relative to the output folder, with forward slashes.")
    bytes: int
    sha256: str
    files: int = 1
    opset: int | None = None
    nodes_before: int | None = None
    nodes_after: int | None = None
    transposes_before: int | None = Field(
        default=None, description="Transposes in the model as it was read."
    )
    transposes_after: int | None = Field(
        default=None, description="Transposes in the model that the artifact was made from."
    )
    inputs: list[Interface] = []
    outputs: list[Interface] = []
    lowered_share: float | None = Field(
        default=None,
        description="Share of the multiply-adds in the lower precision, counted in the file at the "
        "samples' sizes.",
    )
    stored_share: float | None = Field(
        default=None,
        description="Share of the weights' bytes that are of the lower precision, in the file.",
    )
    computes: dict[str, float] = Field(
        default={}, description="Shares of the multiply-adds by the type they are computed in."
    )
    stored: dict[str, int] = Field(
        default={}, description="Bytes of the file's constants by the type of their elements."
    )
    size_ratio: float | None = Field(
        default=None, description="Its bytes over those of size_against."
    )
    size_against: str = Field(
        default="",
        description="The same target's float32 artifact, or the weights in float32 without one.",
    )
    runtime: dict[str, Any] = {}
    gates: list[GateResult] = []
    accuracy: Comparison | None = None
    metrics: list[MetricResult] = []
    steps: list[StepReport] = []
    latency: list[LatencyPoint] = []
    ratios: list[LatencyRatio] = []
    memory: Footprint | None = Field(
        default=None,
        description="Bytes, measured in a process that ran nothing else; None: not measured.",
    )
    profile: Profile | None = Field(
        default=None, description="Time by operator (--profile), of the runtime's own profiler."
    )
    details: dict[str, Any] = {}
    decisions: list[str] = []

    @property
    def title(self) -> str:
        """``onnx fp32``; of a part ``detect onnx fp32``."""
        return " ".join(filter(None, (self.part, self.target, self.precision)))

    @property
    def verdict(self) -> Verdict:
        """Failed where a gate was missed; passed where at least one was judged."""
        return verdict_of(self.gates)

    @property
    def stood_in_for(self) -> bool:
        """Whether something else was checked in its stead: it can't run here."""
        return any(gate.name == RUNS and gate.status == "not judged" for gate in self.gates)

    def add_latency(self, result: LatencyResult) -> None:
        """Takes over what was measured."""
        self.latency += result.points
        self.ratios += result.ratios
        self.memory, self.profile = result.memory, result.profile


class DeploymentReport(_Part):
    """A folder that puts a server's package where it runs."""

    name: str
    path: str
    checks: dict[str, str] = Field(
        description="What happened of schema, build, run and answer, and why the others didn't."
    )
    decisions: list[str] = []


class PackageReport(_Part):
    """A server's folder."""

    part: str = Field(default="", description="The part that it is of; empty without parts.")
    server: str
    path: str
    details: dict[str, Any] = {}
    decisions: list[str] = []
    deployments: list[DeploymentReport] = []

    @classmethod
    def of(cls, packaged: Packaged, root: Path, part: str = "") -> PackageReport:
        """The report's entry for a package.

        Args:
            packaged: What a server's plug-in wrote.
            root: The output folder, which the path in the report is relative to.
            part: The part of the request that it is of; empty where there are no parts.
        """
        return cls(
            part=part,
            server=packaged.server,
            path=packaged.path.relative_to(root).as_posix()
            if packaged.path.is_absolute()
            else packaged.path.as_posix(),
            details=packaged.details,
            decisions=packaged.decisions,
        )


class NearMiss(_Part):
    """What looked like something that a pass rewrites, and wasn't."""

    name: str = Field(description="The pass.")
    rule: str
    node: str
    reason: str


class StepTiming(_Part):
    """How long a step of the pipeline took."""

    step: str
    seconds: float
    cached: bool = False


class Alert(_Part):
    """Something to know. ``loud`` ones stand at the top."""

    text: str
    loud: bool = False


class PartReport(_Part):
    """What was converted, what it was checked on, and what happened to its model on the way."""

    source: SourceReport
    samples: SamplesReport | None = Field(default=None, description="None: nothing checked.")
    along: list[AlongReport] = Field(
        default=[], description="The error along the graph, for each step that changed the model."
    )
    passes: list[PassRecord] = []
    near_misses: list[NearMiss] = Field(
        default=[], description="What the fusing passes found and left alone, and why."
    )
    failed: str = Field(default="", description="Why nothing of it could be made.")
    declared: Declaration | None = Field(
        default=None, description="How users' files become inputs, and outputs answers."
    )


class TuningPoint(_Part):
    """A load, and how the server did."""

    callers: int
    throughput: float = Field(description="Samples a second.")
    p95_ms: float | None = Field(description="Of too few requests for that, the longest.")
    memory_mb: float | None = None
    wrong: int = Field(default=0, description="Requests answered wrong, or by an error.")


class TuningTrial(_Part):
    """A package at some settings."""

    package: str
    values: dict[str, int | str]
    points: list[TuningPoint] = []
    best: int | None = Field(default=None, description="The point that counts, by its number.")
    failed: str = Field(default="", description="Why it can't win.")

    @property
    def shown(self) -> TuningPoint | None:
        """The point that counts; of one that doesn't keep to the limit, the first."""
        return self.points[self.best or 0] if self.points else None


class TuningReport(_Part):
    """What ``modelyard tune`` measured of a server's packages."""

    server: str
    package: str = Field(description="The path of the package whose settings these are.")
    goal: str
    unit: str
    limit_ms: float | None = Field(description="What p95 had to stay below.")
    trials: list[TuningTrial] = Field(description="The package as it is first.")
    before: list[float | None] = Field(description="The figure of each round, as it is.")
    after: list[float | None] = Field(description="The figure of each round, of the best trial.")
    values: dict[str, int | str] = Field(description="The settings now.")
    changed: bool
    why: str


class Report(_Part):
    """One run: what was converted, what was made, what it was checked on, how it did."""

    schema_version: Literal[1] = 1
    tool: str
    title: str
    source: SourceReport
    samples: SamplesReport | None = Field(default=None, description="None: nothing checked.")
    alerts: list[Alert] = []
    artifacts: list[ArtifactReport] = []
    along: list[AlongReport] = Field(
        default=[], description="The error along the graph, for each step that changed the model."
    )
    passes: list[PassRecord] = []
    near_misses: list[NearMiss] = Field(
        default=[], description="What the fusing passes found and left alone, and why."
    )
    packages: list[PackageReport] = []
    tuning: list[TuningReport] = []
    machine: Machine | None = None
    versions: dict[str, str] = {}
    timings: list[StepTiming] = []
    parts: dict[str, PartReport] = Field(
        default={},
        description="By name, where several models were converted; what is of one of them isn't "
        "said above.",
    )
    declared: Declaration | None = Field(
        default=None, description="How users' files become inputs, and outputs answers."
    )
    flow: list[FlowStep] = Field(
        default=[], description="How the parts are joined, from a user's file to the answer."
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """Failed where any gate was missed; not checked without samples, or where an
        artifact's gates were not judged."""
        if any(part.failed for part in self.parts.values()):
            return "failed"
        verdicts = {artifact.verdict for artifact in self.artifacts}
        worst: list[Verdict] = ["failed", *FLAGS.values()]
        for verdict in worst:
            if verdict in verdicts:
                return verdict
        sampled = (part.samples for part in self.each_part.values())
        checked = all(samples is not None and samples.count > 0 for samples in sampled)
        return "passed" if checked and verdicts == {"passed"} else "not checked"

    @property
    def each_part(self) -> dict[str, PartReport]:
        """Every part by its name; without a name, where there are no parts."""
        names = ("source", "samples", "along", "passes", "near_misses", "declared")
        one = {name: getattr(self, name) for name in names}
        return self.parts or {"": PartReport.model_construct(**one)}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def checked_on(self) -> str:
        """The first line: what accuracy was checked on, and that it was nothing where so."""
        told: dict[str, list[str]] = {}
        for name, part in self.each_part.items():
            if not part.failed:
                text = checked_on(part.samples, part.source.framework)
                told.setdefault(text, []).append(name)
        if len(told) == 1:
            return next(iter(told))
        return " ".join(f"{', '.join(names)}: {text}" for text, names in told.items())

    @property
    def flags(self) -> list[str]:
        """What comes before everything else: ``Not judged: y (zero on all 8 samples)...``."""
        found: dict[tuple[str, str], list[str]] = {}
        for artifact in self.artifacts:
            for gate in artifact.gates:
                if gate.name in FLAGS and gate.status == "not judged":
                    found.setdefault((gate.name, gate.why), []).append(artifact.title)
        every = len(self.artifacts)
        return [
            flag(name, why, "" if len(titles) == every else f" in {', '.join(titles)}")
            for (name, why), titles in found.items()
        ]

    def says(self, gate: GateResult) -> bool:
        """Whether nothing more is to be said of a gate: it was passed, or what is said before
        the artifacts says it."""
        return gate.passed or (
            gate.status == "not judged" and (gate.name in FLAGS or gate.name == RUNS)
        )

    @property
    def weak(self) -> bool:
        """Whether what it was checked on says little of how it does on real data."""
        sampled = [part.samples for part in self.each_part.values() if not part.failed]
        return any(item is None or item.random or not item.count for item in sampled)

    @property
    def loud(self) -> list[str]:
        """The alerts that stand at the top."""
        return [alert.text for alert in self.alerts if alert.loud]

    @property
    def notes(self) -> list[str]:
        """The other alerts."""
        return [alert.text for alert in self.alerts if not alert.loud]

    @property
    def from_cache(self) -> list[str]:
        """The steps whose results an earlier run made."""
        return [timing.step for timing in self.timings if timing.cached]

    def warn(self, text: str, *, loud: bool = False) -> None:
        """Adds an alert, once."""
        if text not in (alert.text for alert in self.alerts):
            self.alerts.append(Alert(text=text, loud=loud))


def checked_on(samples: SamplesReport | None, framework: str) -> str:
    """What an accuracy check ran on, in one sentence."""
    if samples is None or not samples.count:
        return "Not checked: no sample was run through the source and the artifacts."
    against = f" against the outputs of {framework}" if framework else ""
    against += "" if samples.probed else ", and on nothing else (--no-probes)"
    count = f"{samples.count} sample{'s' * (samples.count != 1)}"
    if samples.random:
        return (
            f"Checked on random inputs only ({samples.origin}){against}. Accuracy on real "
            "data wasn't measured: give --samples."
        )
    labelled = "labelled" if samples.labelled else "unlabelled"
    return f"Checked on {count} ({samples.origin}, {labelled}){against}."


def narrowed(inputs: Sequence[str]) -> str:
    """What is told of inputs whose integers have 32 bits in an artifact, and more in the source."""
    low, high = -(2**31), 2**31 - 1
    listed = ", ".join(inputs)
    return f"INTEGERS OF 32 BITS: {listed} takes {low:,} to {high:,}; the source takes larger ones"


def flag(name: str, why: str, where: str = "") -> str:
    """A gate of :data:`FLAGS` as a line.

    Args:
        name: The gate's name.
        why: What decided, in words.
        where: Which artifact it is, with a space before it; empty where that is clear.
    """
    return f"{FLAGS[name].capitalize()}{where}: {why}."


def verdict_of(gates: Iterable[GateResult]) -> Verdict:
    """Failed where any gate was missed; passed where the outputs were judged.

    A latency gate alone doesn't make a verdict: it says nothing of what comes out.
    """
    listed = list(gates)
    if any(gate.status == "failed" for gate in listed):
        return "failed"
    for name, verdict in FLAGS.items():
        if any(gate.name == name and gate.status == "not judged" for gate in listed):
            return verdict
    judged = any(gate.passed and not gate.measured for gate in listed)
    return "passed" if judged else "not checked"


def interfaces(specs: Sequence[TensorSpec]) -> list[Interface]:
    """Inputs or outputs, as a report lists them."""
    return [Interface.of(spec) for spec in specs]
