"""``python -m bench.records RECORD``: runs a record's cases, and writes its page in docs/records.

    python -m bench.records opinfo --only '^add'     # PyTorch's OpInfo to each target
    python -m bench.records winml --limit 20         # winml-cli's model-task pairs
    python -m bench.records onnx2tf                  # onnx2tf's models
    python -m bench.records scoreboard RESULTS       # of the ONNX scoreboard's own tests

Results are kept in build/records: a case that was run isn't run again, unless
its process ended or --again asks for it.
The second and the third need `pip install -e '.[records]'`. The scoreboard's tests are started
with the command on docs/records/scoreboard.md; RESULTS is the folder that they write.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.records import pages
from bench.records.forks import run_each
from bench.records.kept import Kept

SECONDS = {"opinfo": 120.0, "winml": 600.0, "onnx2tf": 1800.0}
"""Longest time for a case."""

IN_FORK = {"opinfo": 40, "winml": 1, "onnx2tf": 1}
"""Cases in one process, one after another."""


def main() -> None:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.records",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("record", choices=[*SECONDS, "scoreboard"])
    add("results", nargs="?", help="of the scoreboard's tests")
    add("--only", default="", metavar="PATTERN", help="cases whose name has it (re.search)")
    add("--limit", type=int, default=None, metavar="N", help="the first cases")
    add("--again", action="store_true", help="cases that were run, too")
    add("--targets", default="", help="of opinfo, by comma; all, if it is left out")
    add("--page", action="store_true", help="only write the page")
    asked = parser.parse_args()
    if asked.record == "scoreboard":
        pages.scoreboard(asked.results or parser.error("RESULTS is missing"))
        return
    kept = Kept(asked.record)
    if not asked.page:
        targets = tuple(filter(None, asked.targets.split(",")))
        names, work = _cases(asked.record, targets)
        done = {} if asked.again else kept.read()
        rest = [n for n in names if not _is_done(done.get(n), targets)]
        rest = [name for name in rest if re.search(asked.only, name)]
        _run(asked.record, kept, rest[: asked.limit], work)
    pages.write(asked.record, kept.read())


def _cases(
    record: str, targets: tuple[str, ...]
) -> tuple[Sequence[str], Callable[[str], dict[str, Any]]]:
    if record == "opinfo":
        from bench.records import opinfo, opinfo_calls

        opinfo.prepare()
        return opinfo_calls.names(), partial(opinfo.attempt, targets=targets or opinfo.TARGETS)
    from bench.records import lists, models

    models.prepare()
    makers, lines = lists.makers(record), Counter(item.name for item in lists.listed(record))
    # what counts for most lines comes first
    return sorted(makers, key=lambda name: -lines[name]), lambda n: models.attempt(makers[n])


def _is_done(found: dict[str, Any] | None, targets: tuple[str, ...]) -> bool:
    if found is None or "crashed" in found:
        return False
    return all({*targets} <= {*sample} for sample in found.get("samples", ()))


def _run(
    record: str, kept: Kept, names: Sequence[str], work: Callable[[str], dict[str, Any]]
) -> None:
    found = run_each(names, work, seconds=SECONDS[record], in_fork=IN_FORK[record], log=kept.log)
    for number, item in enumerate(found, 1):
        kept.add(item)
        print(f"{number}/{len(names)} {pages.line(item)}", flush=True)


if __name__ == "__main__":
    main()
