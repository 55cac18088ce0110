"""The report on a terminal: a screenful, eighty columns wide."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from converter.check.gates import GateResult, told
from converter.report.model import WEIGHTS, ArtifactReport, PackageReport, Report, Verdict
from converter.text import words
from converter.text.screen import Console, Text, lines

_STYLES: dict[Verdict, str] = {
    "passed": "green",
    "failed": "red",
    "not judged": "yellow",
    "unlowered": "yellow",
    "not checked": "yellow",
}
_SIGNS = {"passed": "ok", "failed": "FAILED"}


def as_terminal(report: Report) -> RenderableType:
    """What to print: what it was checked on, a line an artifact, and every gate that
    wasn't passed and that nothing above tells of.

    Names from a model are printed as text: rich's markup in them does nothing.
    """
    parts: list[RenderableType] = [
        *(Text(text, style="bold yellow") for text in report.flags),
        Text(report.checked_on, style="yellow" if report.weak else ""),
        *(Text(f"! {text}", style="bold yellow") for text in report.loud),
        *(Text(f"  {text}") for text in report.notes),
        _artifacts(report),
        *map(_package, report.packages),
    ]
    if report.from_cache:
        parts.append(Text(f"from the cache: {', '.join(report.from_cache)}", style="dim"))
    if any(artifact.size_against == WEIGHTS for artifact in report.artifacts):
        parts.append(Text(f"of fp32: beside {WEIGHTS}, where no fp32 artifact was made"))
    for artifact in report.artifacts:
        parts += [_gate(artifact, gate) for gate in artifact.gates if not report.says(gate)]
    return Group(*parts)


def _package(package: PackageReport) -> Text:
    """Where it is, and how large a request may be."""
    largest = package.details.get("max_batch")
    rows = f" (requests of at most {largest} rows: --max-batch)" if largest else ""
    return Text(f"  {package.server}: {package.path}{rows}")


def print_report(report: Report, console: Console | None = None) -> None:
    """Prints the report, on standard error unless a console is given."""
    (console or Console(stderr=True)).print(as_terminal(report))


def _artifacts(report: Report) -> Table:
    """A line an artifact; a second one below it says how one of a lower precision stands beside
    float32: its size, and what of it is lowered."""
    lower = any(artifact.precision != "fp32" for artifact in report.artifacts)
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1), collapse_padding=lower)
    table.add_column("artifact", overflow="fold", min_width=9)
    table.add_column("gates", no_wrap=True)
    names = ["size\nof fp32", "lowered:\nMACs\nbytes"] if lower else ["size"]
    for name in (*names, "cosine", "metric", "p50 ms", "to source"):
        wraps = name in ("metric", "to source")
        least = len(name) if wraps else None
        table.add_column(name, justify="right", no_wrap=not wraps, overflow="fold", min_width=least)
    for artifact in report.artifacts:
        table.add_row(*_row(artifact, lower=lower))
    return table


def _row(artifact: ArtifactReport, *, lower: bool) -> list[RenderableType]:
    cosine = artifact.accuracy.cosine if artifact.accuracy else None
    metric = artifact.metrics[0] if artifact.metrics else None
    single = [p for p in artifact.latency if (p.batch, p.concurrency) == (1, 1)]
    ratio = [r for r in artifact.ratios if (r.batch, r.concurrency) == (1, 1)]
    score = f"{metric.name} {words.number(metric.candidate)}{metric.unit}" if metric else words.NONE
    return [
        Text(artifact.title),
        _sign(artifact),
        *_beside_float32(artifact, lower=lower),
        Text(words.cosine(cosine)),
        Text(words.middle(score, 20)),
        Text(words.milliseconds(single[0].p50_ms) if single else words.NONE),
        Text(words.speedup(ratio[0]) if ratio else words.NONE),
    ]


def _beside_float32(artifact: ArtifactReport, *, lower: bool) -> list[RenderableType]:
    """The cells of its size, and of what is lowered where there is such a column."""
    size = words.size(artifact.bytes)
    if artifact.precision == "fp32" or artifact.size_ratio is None:
        return [Text(size), *([Text(words.NONE)] if lower else [])]
    shares = (artifact.lowered_share, artifact.stored_share)
    return [
        lines(f"{size}\n{words.size_ratio(artifact.size_ratio)}"),
        lines("\n".join(words.percent(share) for share in shares)),
    ]


def _sign(artifact: ArtifactReport) -> Text:
    """The verdict; yellow where it is that of a stand-in."""
    if artifact.stood_in_for and artifact.verdict == "passed":
        return Text("NOT RUN", style="yellow")
    return Text(_SIGNS.get(artifact.verdict, artifact.verdict), style=_STYLES[artifact.verdict])


def _gate(artifact: ArtifactReport, gate: GateResult) -> Text:
    failed = gate.status == "failed"
    line = f"{gate.status}: {artifact.title}, {gate.name}: {told(gate)}"
    return Text(line, style="red" if failed else "yellow")
