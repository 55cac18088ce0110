"""``python -m tests.measured.mutation``: do tests notice small changes of our code?

A seeded sample of the changes of :mod:`tests.measured.mutants`, each against the tests that came by
it, the fastest first, until one fails or the time is up. The code is a copy of the checkout in a
temporary folder, first on the path of every process, with a cache of its own. Which test comes by
which change, one run of all tests finds out, on a copy with probes in these places, which cost
nearly nothing; it is kept in ``build/tests`` with the tests' durations. What fails with a change
has to pass on an unchanged copy, or it doesn't count. The results go to ``mutants.json`` there,
from which :mod:`tests.measured.page` writes. With ``--again`` those that weren't noticed are judged
once more, by the tests in files that have changed since.
"""

import argparse
import difflib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from converter.files.cache_root import cache_root
from tests.measured.mutants import Mutant, mutants, probed
from tests.measured.traced import FOLDER, ROOT, TIMES, Test, recorded

PACKAGES = ("converter", "emitters", "parsers")
SECONDS = 60.0
"""At most, for the tests of a mutant."""

PLANNED = 30.0
"""As many tests are chosen as took this long together; starting pytest takes its time too."""

MOST = 200
"""Tests for a mutant."""

AGAIN = FOLDER / "again.jsonl"
"""Durations of the tests that ``--again`` ran."""

REACHED = Path(__file__).with_name("reached.py")
"""What a module with probes begins with."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - .*)?$", re.MULTILINE)


class Copy:
    """The checkout, copied to a folder where it may be changed."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        listed = ["git", "ls-files", "-co", "--exclude-standard"]
        for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
            if Path(ROOT, name).is_file():
                target = self.root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)
        (self.root / ".venv").symlink_to(ROOT / ".venv")
        self._cache = folder / "cache"
        self._cache.mkdir()
        for name in ("packages", "downloads", "zoo", "conformance"):  # held to their sha256
            if (cache_root() / name).is_dir():
                (self._cache / name).symlink_to(cache_root() / name)

    def tests(self, names: Sequence[str], changed: Mutant | None = None) -> tuple[str, str]:
        """Runs tests until one fails: ``passed``, ``failed`` or ``late``, and which one failed.

        Of what ended pytest itself (a module that can't be imported), the name is empty.
        """
        shutil.rmtree(self._cache / "steps", ignore_errors=True)
        if changed:
            self._put(changed.path, changed.code())
        try:
            return self._run(names)
        finally:
            if changed:
                self._put(changed.path, changed.path.read_bytes())

    def traced(
        self, chosen: Sequence[Mutant], reached: Path, files: Sequence[str] = ()
    ) -> dict[str, set[int]]:
        """Runs all tests, or those of ``files``, with probes where ``chosen`` would change: what
        each came by, by name.

        ``FILE::`` stands for all tests of a file: a fixture, or a child that one started, did.

        Args:
            chosen: The changes, which the numbers are of.
            reached: A folder that doesn't exist yet, where probes write.
            files: Of tests.
        """
        reached.mkdir(parents=True)
        prelude = self.root.parent / "prelude.py"
        prelude.write_text(f"_PROBES = {str(reached)!r}\n{REACHED.read_text()}")
        changed = defaultdict(dict)
        for number, mutant in enumerate(chosen):
            changed[mutant.path][number] = mutant
        for path, here in changed.items():
            self._put(path, probed(path, here, f"exec(open({str(prelude)!r}).read())"))
        env = {**os.environ, "MODELYARD_PROBES": str(reached),
               "MODELYARD_RECORD": str(AGAIN if files else TIMES),
               "MODELYARD_CACHE": str(self._cache), "PYTHONPATH": str(self.root)}  # fmt: skip
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "tests.measured.recording"]
        two = ("-n", "2", "--dist", "loadfile", "-m")
        for more in ((*two, "not apart and not alone"), (*two, "apart"), ("-m", "alone")):
            subprocess.run([*argv, *more, *files], cwd=self.root, env=env, check=False)
        for path in changed:
            self._put(path, path.read_bytes())
        found = defaultdict(set)
        for file in reached.glob("[0-9]*"):
            for line in file.read_text().splitlines():
                number, _, context = line.partition("\t")
                name, _, phase = context.rpartition(" ")
                names = {name, f"{name.partition('::')[0]}::"} if phase == "(setup)" else {name}
                for one in names - {""}:
                    found[one].add(int(number))
        return found

    def _put(self, path: Path, code: bytes) -> None:
        target = self.root / path.relative_to(ROOT)
        target.write_bytes(code)
        Path(cache_from_source(str(target))).unlink(missing_ok=True)  # it knows times in seconds

    def _run(self, names: Sequence[str]) -> tuple[str, str]:
        listed = self.root.parent / "names"
        listed.write_text("\n".join(names))
        argv = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "--durations=0"]
        argv += ["-p", "no:cacheprovider", "-p", "no:xdist", f"@{listed}"]
        env = {**os.environ, "PYTHONPATH": str(self.root), "MODELYARD_CACHE": str(self._cache)}
        process = subprocess.Popen(
            argv, cwd=self.root, env=env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "late", ""
        found = _FAILED.search(said)
        return ("failed" if process.returncode else "passed"), found[1] if found else ""


class Judge:
    """Says of mutants whether they were noticed, on several copies at once."""

    def __init__(
        self, folder: Path, jobs: int, chosen: Sequence[Mutant], known: Mapping[str, set[int]]
    ) -> None:
        self._reached = known
        self._tests = recorded(TIMES)[0] | (recorded(AGAIN)[0] if AGAIN.exists() else {})
        self._whole = Copy(folder / "whole")
        self._copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            self._copies.put(Copy(folder / str(number)))
        self._lock = threading.Lock()
        self._sound: dict[str, bool] = {}

    def chosen(self, number: int) -> list[str]:
        """The tests for a mutant, the fastest first, those of a file together."""
        names = {name for name, numbers in self._reached.items() if number in numbers}
        sound = [test for test in self._tests.values() if not (test.failed or test.skipped)]
        usable = [t for t in sound if names & {t.name, f"{t.name.partition('::')[0]}::"}]
        usable = [test for test in usable if self._sound.get(test.name, True)]
        return within([test for test in usable if not {"apart", "alone"} & {*test.marks}] or usable)

    def judge(self, number: int, mutant: Mutant) -> dict[str, Any]:
        """What became of a mutant."""
        copy = self._copies.get()
        try:
            state, by = self._judged(copy, number, mutant)
        finally:
            self._copies.put(copy)
        place = mutant.path.relative_to(ROOT).as_posix()
        facts = {"place": f"{place}:{mutant.first}", "kind": mutant.kind, "diff": diff(mutant)}
        print(f"{state:9} {facts['place']} {mutant.kind} {by}", flush=True)
        return {**facts, "state": state, "by": by}

    def _judged(self, copy: Copy, number: int, mutant: Mutant) -> tuple[str, str]:
        names = self.chosen(number)
        while names:
            said, by = copy.tests(names, mutant)
            if said == "passed":
                return "survived", ""
            if self._passes([by] if by else names):
                return "caught", by or said
            if not by:
                return "undecided", f"the tests are {said} without the change too"
            names = [name for name in names if name != by]
        return "unreached", ""

    def _passes(self, names: list[str]) -> bool:
        """Whether the tests pass without any change."""
        with self._lock:
            if not all(self._sound.get(name, False) for name in names):
                passed = self._whole.tests(names)[0] == "passed"
                if passed or len(names) == 1:
                    self._sound.update(dict.fromkeys(names, passed))
                return passed
            return True


def reached(folder: Path, chosen: Sequence[Mutant]) -> dict[str, set[int]]:
    """Which of the mutants each test comes by: of the run before, where the code is the same."""
    state = repr([(str(one.path), one.span, one.path.read_bytes()) for one in chosen])
    digest = hashlib.sha256(state.encode()).hexdigest()
    kept = FOLDER / "reached.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if known.get("of") != digest:
        TIMES.unlink(missing_ok=True)
        found = Copy(folder / "probed").traced(chosen, folder / "reached")
        known = {"of": digest, "tests": {name: sorted(found[name]) for name in sorted(found)}}
        FOLDER.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(known))
    return {name: set(numbers) for name, numbers in known["tests"].items()}


def within(tests: list[Test]) -> list[str]:
    """The fastest tests that fit into the time, a file's together."""
    chosen, seconds = [], 0.0
    for test in sorted(tests, key=lambda test: (test.seconds, test.name)):
        seconds += test.seconds
        if chosen and (seconds > PLANNED or len(chosen) == MOST):
            break
        chosen.append(test.name)
    files = list(dict.fromkeys(name.partition("::")[0] for name in chosen))
    return sorted(chosen, key=lambda name: files.index(name.partition("::")[0]))


def diff(mutant: Mutant) -> str:
    """The lines that change, and what they become."""
    before, after = mutant.path.read_text().splitlines(), mutant.code().decode().splitlines()
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@"))


def sample(count: int, seed: int, under: Sequence[str] = ("",)) -> list[Mutant]:
    """A sample of all changes of our packages, or of the modules whose paths begin so."""
    paths = (path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")))
    chosen = [path for path in paths if path.relative_to(ROOT).as_posix().startswith(tuple(under))]
    return random.Random(seed).sample([one for path in chosen for one in mutants(path)], count)


def open_still(told: dict[str, Any]) -> tuple[list[int], list[Mutant], list[str]]:
    """What wasn't noticed and is in the code as it is now, by its place in the list, and the files
    of tests that have changed since."""
    git = ["git", "-C", str(ROOT), "diff", "--name-only", told["commit"], "--", "tests"]
    names = subprocess.check_output(git, text=True).splitlines()
    files = [n for n in names if Path(n).name.startswith("test_") and Path(ROOT, n).is_file()]
    places, chosen = [], []
    for place, facts in enumerate(told["mutants"]):
        name, _, line = facts["place"].rpartition(":")
        path = ROOT / name
        if facts["state"] == "caught" or not path.is_file():
            continue
        if same := [one for one in mutants(path) if diff(one) == facts["diff"]]:
            places.append(place)
            chosen.append(min(same, key=lambda one: abs(one.first - int(line))))
    return places, chosen, files


def main() -> None:
    """Judges a sample, or what of it is open still, and stores what came of it."""
    parser = argparse.ArgumentParser(description="Whether the tests notice small changes.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--under", nargs="+", default=[""], help="how paths begin")
    parser.add_argument("--again", nargs="*", metavar="FILE", help="those that weren't noticed, "
                        "by the tests that have changed since, and these")  # fmt: skip
    given = parser.parse_args()
    stored = FOLDER / "mutants.json"
    head = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.check_output(head, text=True).strip()
    with tempfile.TemporaryDirectory(prefix="mutation-") as made:
        folder = Path(made)
        if given.again is not None:
            told = json.loads(stored.read_text())
            places, chosen, files = open_still(told)
            known = Copy(folder / "probed").traced(chosen, folder / "reached", files + given.again)
            before = json.loads((FOLDER / "reached.json").read_text())["tests"]
            for name, numbers in before.items():
                known[name] |= {places.index(n) for n in numbers if n in places}
        else:
            chosen = sample(given.count, given.seed, given.under)
            places, known = list(range(len(chosen))), reached(folder, chosen)
            told = {"seed": given.seed, "under": given.under, "commit": commit}
            told["mutants"] = [{} for _ in chosen]
        judge = Judge(folder, given.jobs, chosen, known)
        with ThreadPoolExecutor(given.jobs) as pool:
            found = list(pool.map(judge.judge, range(len(chosen)), chosen))
    for place, facts in zip(places, found, strict=True):
        if given.again is None:
            told["mutants"][place] = facts
        elif facts["state"] == "caught":
            told["mutants"][place] |= {**facts, "since": commit}
    stored.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
