"""What coverage.py stored of a run with :mod:`tests.measured.recording`: by tier, and by test."""

import ast
import json
import re
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from coverage import Coverage, CoverageData

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "tests"
"""Where ``make coverage`` and ``make mutation`` keep what they found."""

TIMES = FOLDER / "untraced.jsonl"
"""The tests' durations in a run without coverage.py: ``make mutation`` makes one."""

CONFIG = str(ROOT / "pyproject.toml")
PACKAGES = ("converter", "emitters", "parsers", "recipes", "zoo", "modelyard")

_PHASE = re.compile(r" \((setup|call|teardown)\)$")


@dataclass
class Test:
    """What was recorded of a test.

    Attributes:
        name: Its node id.
        seconds: Of its setup, its call and its teardown.
        marks: Which of ``slow``, ``smoke``, ``apart`` and ``alone`` it has.
        failed: Whether any of these failed.
        skipped: Whether it was skipped.
        session: The last of the record's sessions that ran it, from 0; the rest is of that.
        mended: Whether it failed in an earlier one.
    """

    name: str
    seconds: float = 0.0
    marks: list[str] = field(default_factory=list)
    failed: bool = False
    skipped: bool = False
    session: int = 0
    mended: bool = False

    @property
    def tier(self) -> str:
        """``quick`` and ``smoke``, which ``make test`` runs, or ``slow``."""
        return next((mark for mark in ("smoke", "slow") if mark in self.marks), "quick")


def recorded(path: Path) -> tuple[dict[str, Test], list[dict[str, Any]]]:
    """The tests of a record by name, and its sessions: seconds of ``wall``, number of workers."""
    tests: dict[str, Test] = {}
    sessions = []
    for line in path.read_text().splitlines():
        facts = json.loads(line)
        if "wall" in facts:
            sessions.append(facts)
            continue
        name, session = facts["test"], len(sessions)
        test = tests.setdefault(name, Test(name, marks=facts["marks"], session=session))
        if test.session < session:  # it ran again
            mended = test.mended or test.failed
            test = tests[name] = Test(name, marks=test.marks, session=session, mended=mended)
        test.seconds += facts["seconds"]
        test.failed |= facts["said"] == "failed"
        test.skipped |= facts["said"] == "skipped"
    return tests, sessions


def sources() -> list[Path]:
    """The modules of our packages."""
    return sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))


@cache
def import_lines(path: Path) -> frozenset[int]:
    """The lines that run when a module is imported, by whichever test that was first."""
    inside: set[int] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            body = node.body if isinstance(node.body, list) else [node.body]
            inside.update(range(body[0].lineno, (body[-1].end_lineno or 0) + 1))
    return frozenset(range(-1, len(path.read_text().splitlines()) + 2)) - inside


class Traced:
    """The combined data of a run, in ``FOLDER/data``."""

    def __init__(self, path: Path = FOLDER / "data") -> None:
        self._database = sqlite3.connect(path, check_same_thread=False)
        self._contexts = dict(self._database.execute("SELECT id, context FROM context").fetchall())

    def report(self, tests: Collection[str]) -> dict[str, Any]:
        """coverage.py's report, as JSON, on what these tests reach and what collecting them does.

        A module's import counts for them where they run any function of it.
        """
        named = {number: _PHASE.sub("", name) for number, name in self._contexts.items()}
        chosen = [number for number, name in named.items() if not name or name in tests]
        with tempfile.TemporaryDirectory() as folder:
            data = CoverageData(str(Path(folder, "data")))
            data.add_arcs({str(path): arcs for path, arcs in self._arcs(chosen)})
            data.touch_files(map(str, sources()))
            data.write()
            data.close()
            measured = Coverage(data_file=data.base_filename(), config_file=CONFIG)
            measured.load()
            measured.json_report(outfile=str(Path(folder, "report.json")))
            found: dict[str, Any] = json.loads(Path(folder, "report.json").read_text())
        return found

    def _arcs(self, contexts: Collection[int]) -> Iterator[tuple[Path, list[tuple[int, int]]]]:
        numbers = ",".join(map(str, contexts))
        for path in sources():
            own = "FROM arc JOIN file ON file.id = file_id WHERE path = ?"
            found = self._database.execute(
                f"SELECT DISTINCT fromno, tono {own} AND context_id IN ({numbers})", (str(path),)
            ).fetchall()
            if found:
                at_import = import_lines(path)
                arcs = self._database.execute(f"SELECT DISTINCT fromno, tono {own}", (str(path),))
                found += [arc for arc in arcs if at_import.issuperset(map(abs, arc))]
                yield path, found
