"""Pages of records: docs/records/*.md, each from the results that are kept."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.records.kept import PAGES

PACKAGES = ("torch", "onnx", "onnxruntime-gpu", "onnxscript", "onnx-ir", "ai-edge-litert")
Found = Mapping[str, Mapping[str, Any]]


def line(found: Mapping[str, Any]) -> str:
    """A case in one line, for the terminal."""
    states: Counter[str] = Counter()
    for sample in found.get("samples", [found.get("targets", {})]):
        states.update(f"{target} {told[0]}" for target, told in sample.items())
    said = found.get("crashed") or found.get("unfit") or found.get("unbuilt") or ""
    counts = ", ".join(f"{name} {n}" for name, n in states.items())
    return f"{found['name']} ({found['seconds']:.1f} s): {said}{counts}"


def write(record: str, found: Found) -> None:
    """Writes a record's page."""
    if record == "opinfo":
        from bench.records.opinfo_page import page

        text = page(found)
    else:
        from bench.records.models_page import page as models_page

        text = models_page(record, found)
    save(record, text)


def save(name: str, lines: Iterable[str]) -> None:
    """Writes docs/records/NAME.md."""
    PAGES.mkdir(exist_ok=True)
    (PAGES / f"{name}.md").write_text("\n".join(lines).strip() + "\n")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """A table in Markdown; the text of cells is escaped."""
    cells = [*head]
    yield f"| {' | '.join(cells)} |"
    yield f"|{'---|' * len(cells)}"
    for row in rows:
        yield f"| {' | '.join(plain(str(cell)) for cell in row)} |"


def block(names: Iterable[str]) -> Iterator[str]:
    """Names, as many in a line as it holds."""
    yield from ("```", *textwrap.wrap(" ".join(names), 118, break_on_hyphens=False), "```")


def plain(text: str) -> str:
    """Text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def general(reason: str) -> str:
    """A reason without what only one case or machine has: names of nodes and values, numbers,
    folders."""
    reason = re.sub(r"(\w+) \([^()]*\): ", r"\1: ", reason)
    reason = re.sub(r" ?\(/[^()]*\)|/\S+:\d+: ", "", reason)
    reason = re.sub(r"(?<!\S)/\S*/", "", reason)
    parts = dict.fromkeys(part.strip() for part in reason.split(";") if part.strip())
    texts = [part for part in parts if not part.endswith("holds what the target can't take")]
    return re.sub(r"\d+", "N", "; ".join(texts or parts))[:200]


def scoreboard(results: str) -> None:
    """Writes the page of the ONNX scoreboard from the folder that its tests wrote."""
    from bench.records.scoreboard.page import page

    report = json.loads((Path(results) / "report.json").read_text())
    ops = json.loads((Path(results) / "ops.json").read_text())
    save("scoreboard", page(report, ops))
