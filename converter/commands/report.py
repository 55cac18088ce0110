"""Compares runs: report()."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from converter.commands.overview import among, from_here, in_the_way, put, put_page
from converter.errors import GateError, UsageError
from converter.files.reading import reading
from converter.files.scrub import scrub
from converter.report import compared_page, compared_text
from converter.report.changes import changes
from converter.report.compared import Compared, Row, distinct, rows_of
from converter.report.compared_text import told
from converter.report.json_ import read_report, scrubbed
from converter.report.wants import decide

REPORT, SWEEP = "report.json", "sweep.json"
_PAGE, _DEFAULT = "report.html", "comparison.html"
_HINT = "It is an output folder of modelyard, a sweep's, or the report.json of one."


@dataclass(frozen=True)
class Files:
    """Where a comparison is written to, besides its page; None for nowhere."""

    junit: str | None = None
    markdown: str | None = None
    csv: str | None = None

    def write(self, compared: Compared) -> None:
        """Writes what was asked for; raises UsageError or MachineError where that can't be."""
        forms = (
            (self.junit, compared_text.as_junit), (self.markdown, compared_text.as_markdown),
            (self.csv, compared_text.as_csv),
        )  # fmt: skip
        for path, text in forms:
            if path:
                put(Path(path), text(compared))


class Tracker(Protocol):
    """Logs comparisons to a tracking server."""

    def open(self, want: str | None) -> None:
        """Finds its place on the server, before anything is made.

        Args:
            want: The need that decides what to ship.

        Raises:
            ModelyardError: It can't log.
        """

    def log(self, compared: Compared, page: Path) -> None:
        """Logs every row of a comparison whose page is written; notes where in
        :attr:`Compared.logged`.

        Raises:
            MachineError: The server gave out.
        """


def report(
    paths: Sequence[str],
    *,
    against: str | None = None,
    want: str | None = None,
    strict: bool = False,
    out: str | None = None,
    files: Files | None = None,
    tracker: Tracker | None = None,
) -> tuple[Compared, Path]:
    """Compares the artifacts of runs, and writes one page of them.

    Args:
        paths: Output folders, sweeps' folders, or their report.json.
        against: An earlier run: what changed since is told.
        want: The need that decides what to ship: ``p95<20ms size<10MB``.
        strict: Whether what got worse is an error.
        out: Where the page is written; None for comparison.html where all outputs lie.
        files: What else is written.
        tracker: Where the rows are logged.

    Returns:
        The comparison, and the page.

    Raises:
        UsageError: A path is no output of ours, the need can't be read, or the page can't be
            written there.
        GateError: With ``strict``, something got worse. Everything is written all the same.
    """
    folders = [Path(path) if Path(path).is_dir() else Path(path).parent for path in paths]
    page = Path(out) if out else among(folders, _DEFAULT)
    if page is None:
        raise UsageError("there is nothing to compare", code="file-not-found", hint=_HINT)
    if why := in_the_way(page):
        raise UsageError(
            f"the page can't be {page}: {why}",
            code="output-in-the-way",
            hint="Choose another --out FILE.",
        )
    if tracker is not None:
        tracker.open(want)
    names = _names(paths)
    rows = [row for path, name in zip(paths, names, strict=True)
            for row in rows_in(path, name if len(paths) > 1 else "", page.parent)]  # fmt: skip
    title = names[0] if len(names) == 1 else f"{len(names)} runs"
    compared = Compared(title=title, rows=distinct(rows))
    finish(compared, page, earlier(against, page.parent), want)
    (files or Files()).write(compared)
    if tracker is not None:
        tracker.log(compared, page)
    if strict:
        require_no_worse(compared)
    return compared, from_here(page.resolve())


def earlier(path: str | None, beside: Path) -> tuple[str, list[Row]]:
    """What an earlier run is called, and its rows; nothing without one.

    Args:
        path: As for :func:`rows_in`.
        beside: The folder of the page that links to it.

    Raises:
        UsageError: It is no output of ours.
    """
    if path is None:
        return "", []
    return _names([path])[0], distinct(rows_in(path, "", beside))


def finish(compared: Compared, page: Path, before: tuple[str, list[Row]], want: str | None) -> None:
    """Notes what changed and what to ship, and writes the page.

    Args:
        compared: All runs; the changes and the decision are put into it.
        page: The file.
        before: What :func:`earlier` gave: the earlier run's name, empty for none, and its rows.
        want: What is needed, as in ``"p95<20ms size<10MB"``; None where nothing is to be decided.
    """
    if before[0]:
        compared.against = before[0]
        compared.changes = changes(compared.rows, before[1])
    if want is not None:
        decide(compared, want)
    put_page(page, compared_page.as_html(scrubbed(compared)), compared_page.SEAL)


def require_no_worse(compared: Compared) -> None:
    """Raises GateError where something got worse than in the earlier run."""
    if worse := compared.regressions:
        raise GateError(
            f"{len(worse)} regression{'s' * (len(worse) > 1)} against {compared.against}",
            code="regression",
            details=[told(change) for change in worse],
        )


def rows_in(path: str, name: str, beside: Path) -> list[Row]:
    """The rows of an output, or of a sweep.

    Args:
        path: Its folder, or the file in it.
        name: What the run is called; empty where there is one run.
        beside: The folder of the page that links to the run's own.

    Raises:
        UsageError: It is none, or damaged.
    """
    given = Path(path)
    file = given
    if given.is_dir():
        file = next((f for f in (given / SWEEP, given / REPORT) if f.is_file()), given / REPORT)
    if not file.is_file():
        raise UsageError(f"{path} holds no report of Modelyard", code="not-an-artifact", hint=_HINT)
    with reading(str(file), UsageError, _HINT):
        if file.name == SWEEP or "rows" in json.loads(file.read_bytes()):
            rows = Compared.model_validate_json(file.read_bytes()).rows
            for row in rows:
                row.run, row.name = f"{name} {row.run}".strip(), f"{name} {row.name}".strip()
                row.report = link(file.parent / row.report, beside) if row.report else ""
            return rows
        return rows_of(read_report(file), name, link(file.parent / _PAGE, beside))


def link(page: Path, beside: Path) -> str:
    """A page as another one in a folder links to it."""
    return quote(os.path.relpath(page.resolve(), beside.resolve()))


def _names(paths: Sequence[str]) -> list[str]:
    """What runs are called: their folders' names, with as much of the path as tells them apart."""
    places = [Path(path).resolve() for path in paths]
    places = [place.parent if place.suffix == ".json" else place for place in places]
    for count in range(1, 4):
        names = ["/".join(place.parts[-count:]) for place in places]
        if len({*names}) == len({*places}):
            break
    return [scrub(name) for name in names]
