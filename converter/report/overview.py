"""What came of several recipes, a line each: on a terminal, and as the rows of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich import box
from rich.console import RenderableType
from rich.table import Table

from converter.report.model import ArtifactReport, Report
from converter.text import words
from converter.text.screen import Text, lines

_STYLES = {"passed": "green", "failed": "red", "error": "red"}


@dataclass(frozen=True)
class Entry:
    """What came of one recipe.

    Attributes:
        recipe: How it is called: its file, and which of its documents.
        report: None where nothing was made to report on.
        folder: The folder of the report.
        error: The first line of what went wrong; empty where nothing did.
    """

    recipe: str
    report: Report | None = None
    folder: Path | None = None
    error: str = ""

    @property
    def name(self) -> str:
        """The model's; the recipe's where there is none."""
        return self.report.title if self.report else self.recipe

    @property
    def verdict(self) -> str:
        """The report's; ``error`` without one."""
        return self.report.verdict if self.report else "error"

    @property
    def doubt(self) -> str:
        """Why the verdict says little of real data; empty where that isn't so."""
        parts = self.report.each_part.values() if self.report else ()
        samples = [part.samples for part in parts if part.samples is not None]
        return "random inputs" if any(item.count and item.random for item in samples) else ""

    @property
    def artifacts(self) -> Sequence[ArtifactReport]:
        """What was made."""
        return self.report.artifacts if self.report else ()


def verdicts(entries: Sequence[Entry]) -> str:
    """How many did how: ``2 passed, 1 failed``."""
    found = [entry.verdict for entry in entries]
    return ", ".join(f"{found.count(verdict)} {verdict}" for verdict in dict.fromkeys(found))


def as_table(entries: Sequence[Entry]) -> RenderableType:
    """A row a recipe; below its name, where its report is, and what went wrong."""
    table = Table(
        title=f"{len(entries)} recipes: {verdicts(entries)}", title_justify="left",
        title_style="bold", box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0),
    )  # fmt: skip
    table.add_column("name\nreport\nerror", overflow="fold", min_width=9)
    table.add_column("verdict", max_width=len("not checked"))
    table.add_column("artifacts", overflow="fold", min_width=9)
    for name in ("cosine:\nbest\nworst", "p50 ms:\nbest", "size:\nall"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        table.add_row(*_row(entry))
    return table


def _row(entry: Entry) -> list[RenderableType]:
    report = str(entry.folder / "report.html") if entry.folder else ""
    return [
        lines("\n".join(filter(None, (entry.name, report, entry.error)))),
        lines(f"{entry.verdict}\n{entry.doubt}".strip(), _STYLES.get(entry.verdict, "yellow")),
        lines(_titles(entry.artifacts)),
        lines(_cosines(entry.artifacts)),
        Text(words.milliseconds(_quickest(entry.artifacts))),
        Text(words.size(sum(item.bytes for item in entry.artifacts if item.path) or None)),
    ]


def _titles(artifacts: Sequence[ArtifactReport]) -> str:
    """``onnx fp32, int8``, a line for each target, of each part."""
    grouped = groupby(artifacts, lambda item: f"{item.part} {item.target}".lstrip())
    found = [f"{target} {', '.join(i.precision for i in items)}" for target, items in grouped]
    return "\n".join(found) or words.NONE


def _cosines(artifacts: Sequence[ArtifactReport]) -> str:
    """The best one, and the worst in a second line where that is another."""
    judged = (item.accuracy.cosine for item in artifacts if item.accuracy)
    found = sorted((value for value in judged if value is not None), reverse=True)
    shown = dict.fromkeys(words.cosine(value) for value in (found[:1] + found[-1:]))
    return "\n".join(shown) or words.NONE


def _quickest(artifacts: Sequence[ArtifactReport]) -> float | None:
    """The least median at batch 1 with one caller."""
    found = [
        point.p50_ms
        for item in artifacts
        for point in [p for p in item.latency if (p.batch, p.concurrency) == (1, 1)][:1]
    ]
    return min(found, default=None)
