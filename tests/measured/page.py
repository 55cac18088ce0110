"""``python -m tests.measured.page``: writes the parts of docs/tests.md that were measured.

From what ``make coverage`` (durations and coverage's data) and ``make mutation`` (durations without
tracing, and mutants) left in ``build/tests``.
"""

import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from converter.machine import describe_machine
from tests.measured.traced import FOLDER, ROOT, TIMES, Test, Traced, recorded
from tests.sweep import SHARE

PAGE = ROOT / "docs" / "tests.md"
HEAD = """# The tests

`make coverage` and `make mutation` write this page, each the parts that it measures. `make test`
runs the quick and the smoke tests. `make test-all` runs everything."""

UNPROTECTED = "What `make test` leaves unprotected"

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
    """The page's text, in Markdown: what wasn't measured now stays as it is there."""
    parts = {"": HEAD, **_kept(PAGE.read_text())}
    times = TIMES if TIMES.exists() else FOLDER / "tests.jsonl"
    if times.exists():
        tests, sessions = recorded(times)
        parts["Tiers"] = "\n\n".join([*tiers(tests, sessions), measured_on()])
        parts["Slowest"] = table(("test", "tier", "s"), slowest(tests))
    if (FOLDER / "data").exists():
        parts |= coverage(recorded(FOLDER / "tests.jsonl")[0])
    found = FOLDER / "mutants.json"
    if found.exists():
        parts["Mutations"] = mutation(json.loads(found.read_text()))
    order = ("", "Tiers", "Slowest", "Coverage", UNPROTECTED, "Mutations")
    titled = (f"## {name}\n\n{parts[name]}" if name else HEAD for name in order if name in parts)
    return "\n\n".join(titled) + "\n"


def _kept(text: str) -> dict[str, str]:
    """The parts of a page by their titles."""
    parts = (part.partition("\n") for part in re.split("^## ", text, flags=re.MULTILINE)[1:])
    return {title: rest.strip() for title, _, rest in parts}


def measured_on() -> str:
    """The machine and the commit that a part of the page is of."""
    machine, commit = describe_machine(), ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    at = subprocess.check_output(commit, text=True).strip()
    cpu = f"{machine.cpu}, {machine.usable:g} CPUs, Python {machine.python}"
    return f"Measured on {cpu}, at commit {at}."


def coverage(tests: dict[str, Test]) -> dict[str, str]:
    """What coverage.py saw, and what it didn't."""
    traced = Traced()
    mine = traced.report({name for name, test in tests.items() if test.tier != "slow"})
    everything = traced.report(set(tests))
    runs = ("make test", mine), ("make test-all", everything)
    covers = [covered(name, report["totals"]) for name, report in runs]
    weak = (
        table((part, "lines", "only the rest", "nothing"), weakest(mine, everything, part))
        for part in ("module", "function")
    )
    return {
        "Coverage": "This covers `converter`, `emitters`, `parsers`, `recipes`, `zoo` and "
        "`modelyard`, in every process that the tests start in this Python. It leaves out children "
        "in other Pythons, killed children, and children with an environment of their own.\n\n"
        + table(("tests", "lines", "branches"), covers)
        + f"\n\n{measured_on()}",
        UNPROTECTED: "*only the rest* counts the lines that only the rest of `make test-all` runs. "
        "*nothing* counts the lines that no test runs.\n\n" + "\n\n".join(weak),
    }


def tiers(tests: dict[str, Test], sessions: Sequence[dict[str, Any]]) -> list[str]:
    """A tier a line, and how they were timed."""
    rows = []
    for tier, what in TIERS.items():
        ours = [test for test in tests.values() if test.tier == tier]
        alone = sum("alone" in test.marks for test in ours)
        rows.append((tier, what, len(ours), alone, f"{sum(t.seconds for t in ours) / 60:.1f}"))
    states = Counter(
        "failed" if test.failed else "skipped" if test.skipped else "passed"
        for test in tests.values()
    )
    walls = " and ".join(f"{one['wall'] / 60:.1f}" for one in sessions)
    mended = [test for test in tests.values() if test.mended and not test.failed]
    return [
        table(("tier", "protects", "tests", "of them alone", "minutes"), rows),
        f"Minutes are the sum of the tests' own. The run took {walls} minutes, on "
        f"{sessions[0]['workers']} workers and then one by one. {states['passed']} tests passed, "
        f"{states['skipped']} were skipped, {states['failed']} failed."
        + (f" Sweeps and tests with many cases ran one case in {SHARE}." if SHARE > 1 else "")
        + (f" {len(mended)} failed at first, and passed after a mend." if mended else "")
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


def mutation(found: dict[str, Any]) -> str:
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
    since = [mutant for mutant in states["caught"] if "since" in mutant]
    parts = [
        f"A sample of {len(found['mutants'])} small changes of Modelyard's code (seed "
        f"{found['seed']}, commit {found['commit']}). The fastest tests that run the changed line "
        "judge a change, for a minute at most. "
        f"**The tests notice {share(caught, len(found['mutants']) - alike)}**, {len(since)} of "
        f"them with tests that were added since. {alike} more have no effect that a test could "
        "notice.",
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
    return "\n\n".join([*parts, measured_on()])


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE} written")
