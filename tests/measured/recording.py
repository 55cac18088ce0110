"""A pytest plug-in (``-p tests.measured.recording``): which test ran how long, and what it reached.

Each test's durations become lines of JSON in the file that ``MODELYARD_RECORD`` names. Where
coverage.py measures this process, what is traced is attributed to the test that runs; a child of
the test is measured by itself, and takes the test's name from ``PYTEST_CURRENT_TEST``
(pyproject.toml). In the folder that ``MODELYARD_PROBES`` names, ``test-PID`` says which test a
process runs, for children whose environment doesn't.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Recording:
    """Writes what the process that reports all tests sees."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = path.open("a")
        self._begun = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One line for each of setup, call and teardown."""
        marks = [name for name in ("slow", "smoke", "apart", "alone") if name in report.keywords]
        self._write(test=report.nodeid, seconds=report.duration, said=report.outcome, marks=marks)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """How long all of it took, and on how many workers."""
        workers = session.config.getoption("numprocesses", None) or 1
        self._write(wall=time.monotonic() - self._begun, workers=workers)
        self._stream.close()

    def _write(self, **facts: Any) -> None:
        self._stream.write(json.dumps(facts) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Records in the process that reports, which isn't a worker's."""
    path = os.environ.get("MODELYARD_RECORD")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recording(Path(path)))


def _traced(item: pytest.Item, phase: str) -> Iterator[None]:
    """What is traced while a hook runs is the test's, as it is in a child that it starts."""
    running = None
    if "COVERAGE_PROCESS_START" in os.environ:
        from coverage import Coverage

        running = Coverage.current()
    if running:
        running.switch_context(f"{item.nodeid} ({phase})")
    if folder := os.environ.get("MODELYARD_PROBES"):
        Path(folder, f"test-{os.getpid()}").write_text(f"{item.nodeid} ({phase})")
    try:
        yield
    finally:
        if running:
            running.switch_context("")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Fixtures are made."""
    yield from _traced(item, "setup")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The test runs."""
    yield from _traced(item, "call")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fixtures end."""
    yield from _traced(item, "teardown")
