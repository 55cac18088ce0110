"""What ``selftest.py`` does, and what it says."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from emitters.packaging.script.gates import Comparison
from emitters.packaging.script.stored import FACTS, arrays, shown

GOOD, MISSED, UNKNOWN = 0, 1, 2


class Running(Protocol):
    """What runs the samples: an artifact's runtime, or requests to its server."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""

    def opened(
        self, folder: Path, facts: Mapping[str, Any], options: Any
    ) -> AbstractContextManager[Any]:
        """Gives what runs a sample: a function from arrays to arrays, by name.

        Args:
            folder: The package's.
            facts: What ``modelyard.json`` says.
            options: What :meth:`options` gave.
        """


def main(runner: Running, arguments: list[str]) -> int:
    """Runs the samples and compares what comes out.

    Args:
        runner: What runs them; has ``finished`` too where it writes what came of it.
        arguments: Of the command line.

    Returns:
        0 where every gate is kept to, 1 where one is missed, 2 where nothing could be compared.
    """
    folder = Path(__file__).resolve().parent
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    options = runner.options(facts, arguments)
    try:
        with runner.opened(folder, facts, options) as run:
            comparison, taken = _compared(folder, facts, run)
    except ImportError as error:
        needs = " ".join(facts["requires"])
        print(shown(f"{error}; install what it needs: pip install {needs}"), file=sys.stderr)
        return UNKNOWN
    except Exception as error:  # whatever a runtime or a server raises
        print(shown(f"{type(error).__name__}: {error}"), file=sys.stderr)
        return UNKNOWN
    misses = comparison.misses()
    said = {"reference": facts["reference"], "lines": comparison.lines(), "misses": misses}
    said["samples"] = comparison.samples
    said["median_ms"] = round(statistics.median(taken) * 1000, 3) if taken else None
    code = _said(facts, said)
    if hasattr(runner, "finished"):
        runner.finished(folder, facts, {"ok": code == GOOD, **said})
    return code


def _compared(folder: Path, facts: Mapping[str, Any], run: Any) -> tuple[Comparison, list[float]]:
    """Warms up with the first sample, then runs all of them."""
    comparison, taken = Comparison(facts), []
    for number, sample in enumerate(facts["samples"]):
        feeds = arrays(folder, sample["feeds"])
        step = [sample["sequence"]] if "sequence" in sample else []
        if number == 0:
            run(feeds, *step)  # a sequence's first step: the second one starts it anew
        start = time.perf_counter()
        found = run(feeds, *step)
        taken.append(time.perf_counter() - start)
        if sample["expected"]:
            comparison.add(sample["name"], arrays(folder, sample["expected"]), found)
    return comparison, taken


def _said(facts: Mapping[str, Any], said: Mapping[str, Any]) -> int:
    """Prints what came of it; gives the exit code."""
    if not said["samples"]:
        why = facts["uncompared"] or "there are no samples in the package"
        print(shown(f"{facts['model']}: it runs; NOTHING WAS COMPARED, for {why}"))
        return UNKNOWN
    count = f"{said['samples']} sample{'s' * (said['samples'] != 1)}"
    against = f"{count}, against {facts['reference']}; {said['median_ms']} ms each"
    print(shown(f"{facts['model']}: {against}"))
    for line in said["lines"]:
        print(shown(f"  {line}"))
    for line in said["misses"]:
        print(shown(f"MISSED {line}"), file=sys.stderr)
    print(shown("NOT ok" if said["misses"] else "ok"))
    return MISSED if said["misses"] else GOOD
