"""How results show themselves in Python: a short text, and a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from converter.text.words import printable

if TYPE_CHECKING:
    from converter.report.model import ArtifactReport, Report


@dataclass(frozen=True)
class Written:
    """An artifact in the output folder.

    Attributes:
        path: The file, or the folder that is one.
        target, precision: What it is.
        bytes: Its size.
        verdict: How it did: ``passed``, ``failed``, ``not checked``...
        part: The part that it is of; empty where there are no parts.
    """

    path: Path
    target: str
    precision: str
    bytes: int
    verdict: str
    part: str = ""


def written(report: Report, out: Path) -> dict[str, Written]:
    """What is there of the artifacts of a report, by ``TARGET:PRECISION``, of a part
    ``PART/TARGET:PRECISION``."""
    found = [(item, out / item.path) for item in report.artifacts]
    return {
        f"{item.part}/{item.target}:{item.precision}".lstrip("/"): Written(
            path, item.target, item.precision, item.bytes, item.verdict, item.part
        )
        for item, path in found
        if path.exists()
    }


def artifacts_table(report: Report, out: Path) -> str:
    """HTML: what it was checked on, a line for each artifact, and where the report is."""
    rows = [_cells(item) for item in report.artifacts]
    names = ("artifact", "verdict", "size", "cosine", "path")
    loud = "".join(f"<p><b>{escape(text)}</b></p>" for text in report.loud)
    where = f"<p>report: <code>{escape(str(out / 'report.html'))}</code></p>"
    return f"<p>{escape(report.checked_on)}</p>{loud}{table(names, rows)}{where}"


def _cells(item: ArtifactReport) -> tuple[str, ...]:
    from converter.text import words

    cosine = item.accuracy.cosine if item.accuracy else None
    return (item.title, item.verdict, words.size(item.bytes), words.cosine(cosine), item.path)


def escape(text: str) -> str:
    """HTML: a text from a file."""
    return html.escape(printable(text))


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """HTML: a table of texts."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
