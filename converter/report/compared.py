"""Artifacts of several runs side by side: a row an artifact, read from their reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from converter.check.gates import told
from converter.check.latency import LatencyPoint
from converter.report.model import ArtifactReport, Report


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", json_schema_serialization_defaults_required=True)


class Row(_Part):
    """An artifact, or a run that gave none."""

    name: str = Field(description="Of one artifact alone among the rows.")
    run: str = Field(default="", description="The run, or the cell of a sweep, that it is of.")
    model: str = ""
    part: str = ""
    target: str = ""
    precision: str = ""
    options: dict[str, str] = Field(default={}, description="What a sweep's cell was made with.")
    verdict: str = Field(description="The artifact's; `error` for a run that gave none.")
    doubt: str = Field(default="", description="Why the verdict says little of real use.")
    why: str = Field(default="", description="The first gate that was missed, or the error.")
    cosine: float | None = Field(default=None, description="To the source, on the worst sample.")
    max_abs: float | None = Field(default=None, description="The largest absolute error.")
    metric: str = Field(default="", description="The first task metric.")
    unit: str = Field(default="", description="The metric's: %, or nothing.")
    higher_is_better: bool = True
    value: float | None = Field(default=None, description="The metric, of the artifact.")
    drop: float | None = Field(default=None, description="How much worse than the source's it is.")
    p50_ms: float | None = Field(default=None, description="At batch 1 with one caller.")
    p95_ms: float | None = None
    spread: float | None = Field(
        default=None,
        description="Between rounds: largest less smallest median, over the median.",
    )
    throughput: float | None = Field(
        default=None, description="Samples a second, at the best batch and number of callers."
    )
    bytes: int | None = None
    memory: int | None = Field(default=None, description="Bytes that it adds to a process at most.")
    nodes: int | None = None
    machine: str = Field(default="", description="The CPU that latency was measured on.")
    report: str = Field(default="", description="The run's own report, from this file's folder.")

    @property
    def title(self) -> str:
        """``onnx int8``; of a part ``detect onnx int8``."""
        return " ".join(filter(None, (self.part, self.target, self.precision)))

    @property
    def usable(self) -> bool:
        """Whether it was judged, and missed nothing."""
        return self.verdict in ("passed", "unlowered")


class Change(_Part):
    """What is otherwise than in an earlier run."""

    name: str = Field(description="The row's.")
    what: Literal["verdict", "accuracy", "latency", "size", "nodes", "rows"]
    before: str
    now: str
    regressed: bool = Field(description="Whether it is worse, by more than noise.")


class Logged(_Part):
    """Where a tracking server has the rows."""

    where: str = Field(description="The experiment's address.")
    runs: dict[str, str] = Field(description="The ID of each row's run, by the row's name.")
    model: str = Field(default="", description="The registered model that was asked for.")
    version: str = Field(default="", description="Its version that is what to ship.")
    alias: str = Field(default="", description="The alias of that version.")

    @property
    def registered(self) -> str:
        """``net, version 3 (champion)``; empty where nothing was registered."""
        alias = f" ({self.alias})" if self.alias else ""
        return f"{self.model}, version {self.version}{alias}" if self.version else ""


class Compared(_Part):
    """The comparison of several runs."""

    schema_version: Literal[1] = 1
    tool: str = Field(default_factory=lambda: f"modelyard {version('modelyard')}")
    title: str
    rows: list[Row]
    want: str = Field(default="", description="The need that was stated.")
    ship: str = Field(default="", description="The row that meets it best.")
    reasons: list[str] = Field(default=[], description="Why that one, or why none.")
    against: str = Field(default="", description="The earlier run.")
    changes: list[Change] = []
    logged: Logged | None = Field(default=None, description="What --mlflow logged.")

    @property
    def regressions(self) -> list[Change]:
        """What is worse than in the earlier run."""
        return [change for change in self.changes if change.regressed]

    @property
    def verdicts(self) -> str:
        """How many did how: ``9 passed, 2 failed``."""
        found = [row.verdict for row in self.rows]
        return ", ".join(f"{found.count(verdict)} {verdict}" for verdict in dict.fromkeys(found))


ROUNDING = 1e-7
"""A distance to the source (1 - cosine) that float32's rounding explains."""


@dataclass(frozen=True)
class Accuracy:
    """What rows are compared by: a task metric that all have, or the distance to the source.

    Attributes:
        metric: Its name; empty for the distance.
        unit: The metric's.
        higher_is_better: Whether more of it is better.
    """

    metric: str = ""
    unit: str = ""
    higher_is_better: bool = True

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Accuracy:
        """What all rows with a figure have."""
        judged = [row for row in rows if row.cosine is not None or row.value is not None]
        kinds = {(row.metric, row.unit, row.higher_is_better) for row in judged}
        return cls(*kinds.pop()) if len(kinds) == 1 and judged[0].metric else cls()

    def value(self, row: Row) -> float | None:
        """A row's figure: the metric, or 1 - cosine."""
        if self.metric:
            return row.value
        return None if row.cosine is None else max(0.0, 1 - row.cosine)

    def loss(self, row: Row) -> float | None:
        """The same, less is better; what float32 rounds is no loss."""
        value = self.value(row)
        if value is None:
            return None
        if not self.metric:
            return max(value, ROUNDING)
        return -value if self.higher_is_better else value


def front(rows: Sequence[Row]) -> set[str]:
    """The names of the rows that no other beats in accuracy, latency and size (Pareto front).

    Rows that missed a gate aren't on it. A figure that no row has isn't counted; a row without a
    figure that others have isn't on it.
    """
    usable = [row for row in rows if row.usable]
    loss = Accuracy.of(usable).loss
    figures = [(loss(row), row.p50_ms, row.bytes) for row in usable]
    counted = [at for at in range(3) if any(item[at] is not None for item in figures)]
    points: dict[str, tuple[float, ...]] = {}
    for row, item in zip(usable, figures, strict=True):
        known = [value for at in counted if (value := item[at]) is not None]
        if counted and len(known) == len(counted):
            points[row.name] = tuple(known)
    return {name for name, own in points.items()
            if not any(_beats(other, own) for other in points.values())}  # fmt: skip


def _beats(other: tuple[float, ...], own: tuple[float, ...]) -> bool:
    return other != own and all(a <= b for a, b in zip(other, own, strict=True))


def rows_of(
    report: Report, run: str = "", link: str = "", options: Mapping[str, str] | None = None
) -> list[Row]:
    """The rows of a report.

    Args:
        report: A run's.
        run: What the run is called; empty where there is one run.
        link: Its page.
        options: What a sweep's cell was made with.
    """
    shared: dict[str, Any] = {
        "run": run,
        "model": report.title,
        "report": link,
        "options": dict(options or {}),
    }
    made = [_row(report, item, shared) for item in report.artifacts]
    failed = [
        Row(name=name, part=name, verdict="error", why=part.failed, **shared)
        for name, part in report.parts.items()
        if part.failed
    ]
    for row in (*made, *failed):
        alone = run and len(made) + len(failed) == 1
        row.name = run if alone else " ".join(filter(None, (run, row.title)))
    return [*made, *failed]


def _row(report: Report, item: ArtifactReport, shared: Mapping[str, Any]) -> Row:
    points = [point for point in item.latency if point.role == "artifact"]
    single = next((p for p in points if (p.batch, p.concurrency) == (1, 1)), None)
    metric = item.metrics[0] if item.metrics else None
    missed = next((gate for gate in item.gates if gate.status == "failed"), None)
    return Row(
        name="", part=item.part, target=item.target, precision=item.precision,
        verdict=item.verdict,
        doubt="; ".join(_doubts(report, item, single)),
        why=f"{missed.name}: {told(missed)}" if missed else "",
        cosine=item.accuracy.cosine if item.accuracy else None,
        max_abs=item.accuracy.max_abs if item.accuracy else None,
        metric=metric.name if metric else "",
        unit=metric.unit if metric else "",
        higher_is_better=metric.higher_is_better if metric else True,
        value=metric.candidate if metric else None,
        drop=metric.drop if metric else None,
        p50_ms=single.p50_ms if single else None,
        p95_ms=single.p95_ms if single else None,
        spread=single.run_to_run if single else None,
        throughput=max((point.throughput for point in points), default=None),
        bytes=item.bytes if item.path else None,
        memory=item.memory.peak if item.memory else None,
        nodes=item.nodes_after,
        machine=report.machine.cpu if report.machine else "",
        **shared,
    )  # fmt: skip


def _doubts(report: Report, item: ArtifactReport, single: LatencyPoint | None) -> Iterator[str]:
    samples = report.each_part[item.part].samples
    if samples is not None and samples.count and samples.random:
        yield "random inputs"
    if item.stood_in_for:
        yield "not run here"
    if single is not None and not single.settled:
        yield "unsteady latency"


def distinct(rows: Sequence[Row]) -> list[Row]:
    """The rows, those of one name told apart by a number."""
    seen: dict[str, int] = {}
    for row in rows:
        seen[row.name] = count = seen.get(row.name, 0) + 1
        if count > 1:
            row.name = f"{row.name} ({count})"
    return list(rows)
