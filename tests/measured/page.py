"""``python -m tests.measured.page``: writes docs/tests.md from what was measured.

From ``make coverage`` (``build/tests``: durations and coverage's data) and, where it has been run,
``make mutation``. ``build/tests/untraced.jsonl``, a record of a run without coverage.py, gives the
times where it is there.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from converter.check.machine import describe_machine
from tests.measured.traced import FOLDER, ROOT, Test, Traced, recorded

PAGE = ROOT / "docs" / "tests.md"
EQUIVALENT = Path(__file__).with_name("equivalent.json")
"""Mutants that change nothing that anyone could see: the module, the change, and why."""

MOST = 20
"""Lines of the tables of slowest tests, and of modules and functions that are least protected."""

TIERS = {
    "quick": "each part by itself and parts together: parsers, passes, emitters, precisions, "
    "checks, reports; every source and target on small models in their real runtimes",
    "smoke": "the command line from a source to a target or a server, as users meet it",
    "slow": "whole models, all combinations, searches, many seeds, official operator tests",
}
"""What the tests of a tier protect; the first two are ``make test``."""


def page() -> str:
    """The page's text, in Markdown."""
    tests, sessions = recorded(FOLDER / "tests.jsonl")
    untraced = FOLDER / "untraced.jsonl"
    timed = recorded(untraced)[0] if untraced.exists() else tests
    traced, machine = Traced(), describe_machine()
    mine = traced.report({name for name, test in tests.items() if test.tier != "slow"})
    everything = traced.report(set(tests))
    runs = ("make test", mine), ("make test-all", everything)
    coverages = [covered(name, report["totals"]) for name, report in runs]
    parts = [
        "# The tests",
        "Written by `make coverage` and `make mutation`, which measure on "
        f"{machine.cpu}, {machine.usable:g} CPUs, Python {machine.python}. "
        "`make test` runs what is quick and what is smoke; `make test-all` runs everything.",
        *tiers(tests, timed, timed is not tests, sessions),
        "## Slowest",
        table(("test", "tier", "s"), slowest(timed)),
        "## Coverage",
        "Of `converter`, `emitters`, `parsers`, `recipes`, `zoo` and `modelyard`, in every process "
        "that the tests start in this Python. Not measured: children in other Pythons, children "
        "that are killed or given an environment of their own.",
        table(("tests", "lines", "branches"), coverages),
        "## What `make test` leaves unprotected",
        "Lines that only the rest of `make test-all` runs, and lines that nothing runs.",
        *(
            table((part, "lines", "only the rest", "nothing"), weakest(mine, everything, part))
            for part in ("module", "function")
        ),
    ]
    found = FOLDER / "mutants.json"
    if found.exists():
        parts += mutation(json.loads(found.read_text()))
    return "\n\n".join(parts) + "\n"


def tiers(
    tests: dict[str, Test], timed: dict[str, Test], bare: bool, sessions: Sequence[dict[str, Any]]
) -> list[str]:
    """A tier a line, and how they were timed."""
    rows = []
    for tier, what in TIERS.items():
        ours = [test for test in tests.values() if test.tier == tier]
        alone = sum("alone" in test.marks for test in ours)
        minutes = sum(timed[test.name].seconds for test in ours if test.name in timed) / 60
        rows.append((tier, what, len(ours), alone, f"{minutes:.1f}"))
    states = Counter(
        "failed" if test.failed else "skipped" if test.skipped else "passed"
        for test in tests.values()
    )
    walls = " and ".join(f"{one['wall'] / 60:.1f}" for one in sessions)
    return [
        table(("tier", "protects", "tests", "of them alone", "minutes"), rows),
        f"Minutes are the sum of the tests' own, {'without' if bare else 'with'} tracing. The "
        f"traced run took {walls} minutes (on {sessions[0]['workers']} workers); in it "
        f"{states['passed']} passed, {states['skipped']} were skipped, {states['failed']} failed"
        + "".join(f"\n- `{test.name}`" for test in tests.values() if test.failed),
    ]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def slowest(tests: dict[str, Test]) -> list[tuple[str, str, str]]:
    """The tests that took longest, setup and teardown included."""
    found = sorted(tests.values(), key=lambda test: -test.seconds)[:MOST]
    names = [f"`{test.name}`".replace("|", "\\|") for test in found]
    return [(n, t.tier, f"{t.seconds:.1f}") for n, t in zip(names, found, strict=True)]


def share(some: int, whole: int) -> str:
    """``91.2 % of 30412``."""
    return f"{100 * some / max(whole, 1):.1f} % of {whole}"


def covered(name: str, sums: dict[str, int]) -> tuple[str, str, str]:
    """What share of lines and branches some tests run."""
    lines = share(sums["covered_lines"], sums["num_statements"])
    return f"`{name}`", lines, share(sums["covered_branches"], sums["num_branches"])


def weakest(mine: dict[str, Any], everything: dict[str, Any], part: str) -> list[tuple[Any, ...]]:
    """The modules, or the functions in them, with most lines that ``make test`` doesn't run."""
    rows = []
    for (name, found), (_, whole) in zip(_parts(mine, part), _parts(everything, part), strict=True):
        nothing = len(whole["missing_lines"])
        rest = len(found["missing_lines"]) - nothing
        rows.append((name, found["summary"]["num_statements"], rest, nothing))
    return sorted(rows, key=lambda row: (-row[2] - row[3], row[0]))[:MOST]


def _parts(report: dict[str, Any], part: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, found in report["files"].items():
        if part == "module":
            yield f"`{path}`", found
        else:
            named = found["functions"].items()
            yield from ((f"`{path}` {name}", one) for name, one in named if name)


def mutation(found: dict[str, Any]) -> list[str]:
    """The score, and what wasn't noticed."""
    reasons = {
        (known["path"], known["diff"]): known["why"] for known in json.loads(EQUIVALENT.read_text())
    }
    states: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for mutant in found["mutants"]:
        mutant["why"] = reasons.get((mutant["place"].rpartition(":")[0], mutant["diff"]), "")
        alike = mutant["state"] != "caught" and mutant["why"]
        states["equivalent" if alike else mutant["state"]].append(mutant)
    caught, alike = len(states["caught"]), len(states["equivalent"])
    parts = [
        "## Mutations",
        f"{len(found['mutants'])} small changes of our code, a sample (seed {found['seed']}), "
        "each against the fastest of the tests that run its lines, for a minute at most: "
        f"**{share(caught, len(found['mutants']) - alike)} are noticed**, {alike} more change "
        "nothing that could be noticed.",
    ]
    titles = {
        "survived": "Not noticed",
        "unreached": "Lines that no test runs",
        "undecided": "Not decided within the time",
        "equivalent": "Changes without effect",
    }
    for state, title in titles.items():
        if states[state]:
            parts.append(f"### {title}")
        for mutant in states[state]:
            head = f"`{mutant['place']}` ({mutant['kind']}) {mutant['why']}".rstrip()
            parts.append(f"{head}\n\n```diff\n{mutant['diff']}\n```")
    return parts


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE} written")
