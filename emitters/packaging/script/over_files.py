"""What the ``selftest.py`` of a flow does: it sends files, and compares what is said of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from converter.check.agreements import agreements
from emitters.packaging.script.over_http import HEADER, Runner, sent
from emitters.packaging.script.stored import FACTS, shown

GOOD, MISSED, UNKNOWN = 0, 1, 2


def main(runner: Runner, arguments: list[str]) -> int:
    """Sends the files and compares the answers.

    Args:
        runner: What starts the server, or knows where one runs.
        arguments: Of the command line.

    Returns:
        0 where as many answers as the limit says are the sources', 1 where fewer are, 2 where
        nothing could be compared.
    """
    folder = Path(__file__).resolve().parent
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    options = runner.options(facts, arguments)
    alike: list[bool] = []
    try:
        with runner.served(folder, facts, options) as address:
            for one in facts["files"]:
                body, raw = (folder / one["file"]).read_bytes(), facts["wire"]["kind"] != "json"
                headers = {HEADER: "0"} if raw else {"Content-Type": one["type"]}
                data, length = sent(address, body, headers, options.timeout)
                if raw:  # the only output, a text behind its length, behind JSON
                    data = data[int(length or 0) + 4 :]
                found = json.loads(data)
                if one["expected"]:
                    right = json.loads((folder / one["expected"]).read_text(encoding="utf-8"))
                    alike += agreements(found, right)
    except Exception as error:  # whatever a server raises
        print(shown(f"{type(error).__name__}: {error}"), file=sys.stderr)
        return UNKNOWN
    if not alike:
        print(shown(f"{facts['model']}: NOTHING WAS COMPARED, for {facts['uncompared']}"))
        return UNKNOWN
    count, limit = f"{sum(alike)} of {len(alike)} answers", facts["gates"]["flow"]
    print(shown(f"{facts['model']}: {count} are those of {facts['reference']}, limit {limit:g}"))
    missed = sum(alike) < limit * len(alike)
    print(shown("NOT ok" if missed else "ok"))
    return MISSED if missed else GOOD
