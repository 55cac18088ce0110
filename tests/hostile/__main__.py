"""``python -m tests.hostile``: damaged files of every kind, read by the tool.

    python -m tests.hostile --cases 0:1900                     # every kind, in forks
    python -m tests.hostile --cases 0:500 --kind onnx,recipe   # those of them that are such files
    python -m tests.hostile --cases 0:100 --command            # as processes, like a user's
    python -m tests.hostile --case 1234                        # one; its files stay
    python -m tests.hostile --case 1234 --shrink               # the smallest input that does it too

A case is as its number says, always. It has to end with an exit code of its kind (tests/hostile/
kinds.py), without a traceback, in bounded time and memory, and leave nothing. What doesn't stays
in build/hostile/found; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.forking import Several
from tests.hostile.kinds import BUILD, KINDS, ROOT, made, seeds
from tests.hostile.mutate import Files, changes, damaged, smaller
from tests.hostile.running import Outcome, adopt_orphans, run, warm_up

SHARDS = 2
"""Drivers of what needs no framework."""
SHRINKING = 300
"""Runs in which a case is made smaller."""
TOGETHER = ("onnx", "coreml", "recipe", "samples")
"""Kinds that are read without children: several commands run in a fork. What is found there counts
if it is found in a fork of its own, too."""
_FRAMEWORKS_GO_ON = 0.1
"""Share of the cases whose model is exported, of those that a framework could load: that takes
seconds, and is the framework's own work on a good model most often."""

Told = tuple[int, str, str, str, float]
"""A case's number, kind and variant, what is wrong with it, and its seconds."""


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        number: Its number.
        kind, variant: Of which good files it is made.
    """

    number: int
    kind: str
    variant: str

    @property
    def seed(self) -> str:
        """What says how it is damaged."""
        return f"{self.kind}/{self.variant}/{self.number}"

    @property
    def good(self) -> Files:
        """Its files before the damage."""
        return seeds(self.kind)[self.variant]

    @property
    def open_to(self) -> list[str]:
        """The files that are damaged."""
        return [path for path in self.good if path.startswith("m")]

    @property
    def line(self) -> list[str]:
        """What the tool is asked."""
        return KINDS[self.kind].line(self.variant, self.open_to[0].partition("/")[0])

    def files(self, keep: Sequence[int] | None = None) -> Files:
        """Its files."""
        return damaged(self.good, self.seed, self.open_to, keep)

    def run(self, files: Files, command: bool = False, several: Several | None = None) -> Outcome:
        """What comes of it."""
        group = KINDS[self.kind].group
        short = group != "plain" and random.Random(self.number).random() > _FRAMEWORKS_GO_ON
        until = "export" if short else ""
        return run(files, self.line, command=command, until=until, several=several)

    def finding(self, files: Files, command: bool = False, several: Several | None = None) -> str:
        """What is wrong with that; empty where nothing is."""
        kind = KINDS[self.kind]
        if several and not command and self.kind in TOGETHER:
            if not self.run(files, several=several).finding(kind):
                return ""
            several.end()
        outcome = self.run(files, command)
        if outcome.code is not None and outcome.code < 0:  # a command has a parent that answers
            outcome = self.run(files, command=True)
        return outcome.finding(kind)


def _drawn(number: int) -> tuple[str, random.Random]:
    """The kind of a number, and what the rest of it is drawn from."""
    rng = random.Random(number)
    return rng.choices(list(KINDS), [kind.share for kind in KINDS.values()])[0], rng


def kind_of(number: int) -> str:
    """The kind of a number, without a look at its files."""
    return _drawn(number)[0]


def case(number: int) -> Case:
    """The case of a number."""
    kind, rng = _drawn(number)
    return Case(number, kind, rng.choice(sorted(seeds(kind))))


def smallest(found: Case, finding: str) -> Files:
    """The smallest files that do the same: fewer changes, then less of everything."""
    keep, left = list(range(changes(found.seed))), SHRINKING
    for number in list(keep):
        fewer = [other for other in keep if other != number]
        if fewer and found.finding(found.files(fewer)) == finding:
            keep = fewer
    files, waiting = found.files(keep), iter(smaller(found.files(keep), found.open_to))
    while left > 0 and (tried := next(waiting, None)) is not None:
        left -= 1
        if found.finding(tried) == finding:
            files, waiting = tried, iter(smaller(tried, found.open_to))
    return files


def keep(found: Case, files: Files, finding: str) -> Path:
    """Writes a case down."""
    place = BUILD / "found" / re.sub(r"\W+", "-", f"{found.kind} {finding}")[:80].strip("-")
    shutil.rmtree(place, ignore_errors=True)
    for path, data in files.items():
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    line = " ".join(found.line)
    told = [f"{finding}\n\nmodelyard {line}\n", f"case {found.number}, {found.variant}\n"]
    for path in found.open_to:
        if files.get(path) not in (None, found.good[path]):
            told.append(f"{path}: {files[path][:300]!r}\n")
    (place / "case.txt").write_text("\n".join(told))
    return place


# -- a group's cases -----------------------------------------------------------------------


def drive(numbers: Sequence[int], group: str, *, command: bool, shrink: bool) -> Iterator[Told]:
    """A group's cases, one after another: what is wrong with each, and the seconds that it took.

    Of what is found the first case is written down.
    """
    adopt_orphans()
    if not command:
        kinds = [name for name, kind in KINDS.items() if kind.group == group]
        firsts = [Case(0, name, variant) for name in kinds for variant in sorted(seeds(name))]
        warm_up(group, [(item.good, item.line) for item in firsts])
    known: set[str] = set()
    several = Several()
    for number in numbers:
        tried, began = case(number), time.monotonic()
        files = tried.files()
        finding = tried.finding(files, command, several)
        if finding and f"{tried.kind} {finding}" not in known:
            known.add(f"{tried.kind} {finding}")
            keep(tried, smallest(tried, finding) if shrink else files, finding)
        yield number, tried.kind, tried.variant, finding, time.monotonic() - began
    several.end()


def _group(options: argparse.Namespace) -> int:
    """The part that a driver has: its group's cases, or every so many of them."""
    group, _, shard = options.group.partition("/")
    kinds = [name for name in options.kind if KINDS[name].group == group]
    numbers = [number for number in options.cases if kind_of(number) in kinds]
    if shard:
        numbers = numbers[int(shard) :: SHARDS]
    for told in drive(numbers, group, command=options.command, shrink=options.shrink):
        print(json.dumps(told), flush=True)
    return 0


def _drivers(options: argparse.Namespace) -> list[str]:
    """Groups of the kinds asked for, the longest first; what needs no framework in parts."""
    groups = {KINDS[name].group for name in options.kind}
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(made, sorted(groups)))
    plain = [f"plain/{shard}" for shard in range(SHARDS)] if "plain" in groups else []
    return sorted(groups - {"plain"}, reverse=True) + plain


def _all(options: argparse.Namespace) -> int:
    """Drivers side by side; shows what they find."""
    given = ["--cases", f"{options.cases.start}:{options.cases.stop}"]
    given += ["--kind", ",".join(options.kind)]
    given += ["--command"] * options.command + ["--shrink"] * options.shrink
    findings: Counter[str] = Counter()
    seconds: dict[str, list[float]] = {}

    def drive_one(name: str) -> int:
        line = [sys.executable, "-m", "tests.hostile", *given, "--group", name]
        with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as driver:
            for text in driver.stdout or ():
                number, kind, variant, finding, took = json.loads(text)
                seconds.setdefault(kind, []).append(took)
                if finding:
                    print(f"case {number} ({kind}, {variant}): {finding}", flush=True)
                    findings[f"{kind}: {finding}"] += 1
        return driver.returncode

    with ThreadPoolExecutor(options.jobs) as pool:
        codes = list(pool.map(drive_one, _drivers(options)))
    for kind, took in sorted(seconds.items()):
        print(f"{len(took):6} {kind}: {sum(took):.0f} s, at most {max(took):.1f}")
    print(f"{sum(map(len, seconds.values()))} cases, {findings.total()} findings")
    for finding, count in findings.most_common():
        print(f"{count:6} {finding}")
    assert not any(codes), f"drivers ended with {codes}"
    return int(bool(findings))


def _one(number: int, options: argparse.Namespace) -> int:
    found = case(number)
    adopt_orphans()
    files = found.files()
    outcome = found.run(files, options.command)
    finding = outcome.finding(KINDS[found.kind])
    if options.shrink and finding:
        files = smallest(found, finding)
    print(f"{found.seed}: modelyard {' '.join(found.line)}: {finding or 'nothing wrong'}")
    print(outcome.trace + outcome.said, f"exit code {outcome.code}, {outcome.cpu:.1f} s,",
          f"{outcome.memory >> 20} MiB, left: {list(outcome.left)}")  # fmt: skip
    print(f"files: {keep(found, files, finding or f'case {number}')}")
    return int(bool(finding))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line says; gives the exit code."""
    options = _parser().parse_args(argv)
    if options.case is not None:
        return _one(options.case, options)
    return _group(options) if options.group else _all(options)


def _range(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last or int(first) + 1))


def _kinds(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in KINDS]:
        raise argparse.ArgumentTypeError(f"there are {', '.join(KINDS)}, no {unknown[0]}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    cases = {"default": range(1900), "metavar": "A:B", "help": "from A up to B, without it"}
    add("--cases", type=_range, **cases)
    add("--case", type=int, metavar="N", help="one, shown")
    add("--kind", type=_kinds, default=list(KINDS), help="by comma; all by default")
    add("--command", action="store_true", help="as processes")
    add("--shrink", action="store_true", help="make what is found smaller")
    add("--jobs", type=int, default=2, help="groups at a time")
    add("--group", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
