"""``python -m tests.measured.mutation [--count 100] [--seed 1]``: do tests notice small changes?

A seeded sample of the changes of :mod:`tests.measured.mutants`, each against the tests that ran its
lines (``make coverage`` found out), the fastest first, until one fails or the time is up. The
changed code is a copy of the checkout in a temporary folder, first on the path of every process,
with a cache of its own. What fails there has to pass on an unchanged copy, or it doesn't count. The
results go to ``build/tests/mutants.json``, from which :mod:`tests.measured.page` writes.
"""

import argparse
import difflib
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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from converter.cache import cache_root
from tests.measured.mutants import Mutant, mutants
from tests.measured.traced import FOLDER, ROOT, Test, Traced, recorded

PACKAGES = ("converter", "emitters", "parsers")
SECONDS = 60.0
"""At most, for the tests of a mutant."""

PLANNED = 30.0
"""As many tests are chosen as took this long together; starting pytest takes its time too."""

MOST = 200
"""Tests for a mutant."""

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
        for name in ("packages", "zoo"):  # what was downloaded, which is held to its sha256
            if (cache_root() / name).is_dir():
                shutil.copytree(cache_root() / name, self._cache / name, copy_function=os.link)

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

    def __init__(self, folder: Path, jobs: int) -> None:
        self._traced = Traced()
        self._tests = recorded(FOLDER / "tests.jsonl")[0]
        self._whole = Copy(folder / "whole")
        self._copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            self._copies.put(Copy(folder / str(number)))
        self._lock = threading.Lock()
        self._sound: dict[str, bool] = {}

    def chosen(self, mutant: Mutant) -> list[str]:
        """The tests for a mutant, the fastest first, those of a file together."""
        with self._lock:
            names = self._traced.tests_of(mutant.path, mutant.first, mutant.last)
        sound = [test for test in self._tests.values() if not (test.failed or test.skipped)]
        usable = [t for t in sound if names & {t.name, f"{t.name.partition('::')[0]}::"}]
        usable = [test for test in usable if self._sound.get(test.name, True)]
        return within([test for test in usable if "alone" not in test.marks] or usable)

    def judge(self, mutant: Mutant) -> dict[str, Any]:
        """What became of a mutant."""
        copy = self._copies.get()
        try:
            state, by = self._judged(copy, mutant)
        finally:
            self._copies.put(copy)
        place = mutant.path.relative_to(ROOT).as_posix()
        facts = {"place": f"{place}:{mutant.first}", "kind": mutant.kind, "diff": diff(mutant)}
        print(f"{state:9} {facts['place']} {mutant.kind} {by}", flush=True)
        return {**facts, "state": state, "by": by}

    def _judged(self, copy: Copy, mutant: Mutant) -> tuple[str, str]:
        names = self.chosen(mutant)
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


def main() -> None:
    """Judges a sample and stores what came of it."""
    parser = argparse.ArgumentParser(description="Whether the tests notice small changes.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--under", nargs="+", default=[""], help="how paths begin")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        judge = Judge(Path(folder), given.jobs)
        with ThreadPoolExecutor(given.jobs) as pool:
            found = list(pool.map(judge.judge, sample(given.count, given.seed, given.under)))
    told = {"seed": given.seed, "under": given.under, "mutants": found}
    (FOLDER / "mutants.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
