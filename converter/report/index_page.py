"""A page of several outputs: a row a recipe, with links to their reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from converter.files.scrub import scrub
from converter.report.html import page_environment, style
from converter.report.json_ import scrubbed
from converter.report.overview import Entry, verdicts
from converter.text.markup import Markup

SEAL = '<meta name="generator" content="modelyard index {}">'
"""What says that a page is ours; with the seal of the page in which it is empty."""


def as_html(entries: Sequence[Entry], folder: Path) -> str:
    """The page, its seal left empty; names from files are escaped.

    Args:
        entries: What came of each recipe.
        folder: Where the page will lie: links are relative to it.
    """
    environment = page_environment()
    return environment.get_template("index.html.j2").render(
        rows=[(_clean(entry), _link(entry, folder)) for entry in entries],
        verdicts=verdicts(entries),
        overall=_overall(entries),
        count=sum(len(entry.artifacts) for entry in entries),
        seal=Markup(SEAL.format("")),  # our own words
        style=style(environment),
        tool=f"modelyard {version('modelyard')}",
    )


def _clean(entry: Entry) -> Entry:
    """Without paths of this machine."""
    report = scrubbed(entry.report) if entry.report else None
    return Entry(scrub(entry.recipe), report, entry.folder, scrub(entry.error))


def _link(entry: Entry, folder: Path) -> str:
    if entry.folder is None:
        return ""
    page = entry.folder.resolve() / "report.html"
    return quote(os.path.relpath(page, folder.resolve()))


def _overall(entries: Sequence[Entry]) -> str:
    """The class of the page's head."""
    found = {entry.verdict for entry in entries}
    if found & {"failed", "error"}:
        return "failed"
    return "passed" if found == {"passed"} else "unlowered"
