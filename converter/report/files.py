"""Writes a report's files into a folder."""

from __future__ import annotations

from pathlib import Path

from converter.report.html import as_html
from converter.report.json_ import as_json, scrubbed, write_text
from converter.report.model import Report


def write_report(report: Report, folder: Path) -> list[Path]:
    """Writes ``report.json`` and ``report.html``, without paths of this machine.

    Raises:
        MachineError: The disk is full.
    """
    clean = scrubbed(report)
    return [
        write_text(folder / "report.json", as_json(clean)),
        write_text(folder / "report.html", as_html(clean)),
    ]
