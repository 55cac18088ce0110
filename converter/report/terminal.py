"""The report on a terminal: a screenful, eighty columns wide."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from converter.check.gates import GateResult
from converter.check.latency import LatencyRatio
from converter.report import words
from converter.report.model import ArtifactReport, Report, Verdict

_STYLES: dict[Verdict, str] = {"passed": "green", "failed": "red", "not checked": "yellow"}
_SIGNS = {"passed": "ok", "failed": "FAILED", "not checked": "not checked"}


def as_terminal(report: Report) -> RenderableType:
    """What to print: what it was checked on, a line an artifact, and every missed gate.

    Names from a model are printed as text: rich's markup in them does nothing.
    """
    parts: list[RenderableType] = [
        _text(report.checked_on, style="yellow" if report.weak else ""),
        *(_text(f"! {text}", style="bold yellow") for text in report.loud),
        _artifacts(report),
        *(_text(f"  {package.server}: {package.path}") for package in report.packages),
    ]
    for artifact in report.artifacts:
        parts += [_gate(artifact, gate) for gate in artifact.gates if not gate.passed]
    return Group(*parts)


def print_report(report: Report, console: Console | None = None) -> None:
    """Prints the report, on standard error unless a console is given."""
    (console or Console(stderr=True)).print(as_terminal(report))


def _artifacts(report: Report) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1))
    table.add_column("artifact", overflow="fold", min_width=9)
    table.add_column("gates", no_wrap=True)
    for name in ("size", "cosine", "metric", "p50 ms", "to source"):
        table.add_column(name, justify="right", no_wrap=name != "metric", overflow="fold")
    for artifact in report.artifacts:
        table.add_row(*_row(artifact))
    return table


def _row(artifact: ArtifactReport) -> list[Text]:
    cosine = artifact.accuracy.cosine if artifact.accuracy else None
    metric = artifact.metrics[0] if artifact.metrics else None
    single = [p for p in artifact.latency if (p.batch, p.concurrency) == (1, 1)]
    ratio = [r for r in artifact.ratios if (r.batch, r.concurrency) == (1, 1)]
    score = f"{metric.name} {words.number(metric.candidate)}{metric.unit}" if metric else words.NONE
    return [
        _text(artifact.title),
        _sign(artifact),
        Text(words.size(artifact.bytes)),
        Text(words.cosine(cosine)),
        _text(words.middle(score, 20)),
        Text(words.milliseconds(single[0].p50_ms) if single else words.NONE),
        Text(_to_source(ratio[0]) if ratio else words.NONE),
    ]


def _sign(artifact: ArtifactReport) -> Text:
    """The verdict; yellow where it is that of a stand-in."""
    if artifact.stood_in_for and artifact.verdict == "passed":
        return Text("NOT RUN", style="yellow")
    return Text(_SIGNS[artifact.verdict], style=_STYLES[artifact.verdict])


def _to_source(ratio: LatencyRatio) -> str:
    return f"{ratio.speedup:.2f}\N{MULTIPLICATION SIGN}" if ratio.steady else "unsteady"


def _gate(artifact: ArtifactReport, gate: GateResult) -> Text:
    found = words.cosine(gate.value) if gate.name.startswith("cosine") else words.number(gate.value)
    numbers = f"{found}, limit {gate.limit:g}; " if gate.limit is not None else ""
    failed = gate.status == "failed"
    line = f"{gate.status}: {artifact.title}, {gate.name}: {numbers}{gate.why}"
    return _text(line, style="red" if failed else "yellow")


def _text(text: str, style: str = "") -> Text:
    return Text(words.printable(text), style=style)
