"""``python -m tests.soak``: what takes too long for the tests, and hangs on chance.

A hundred runs killed at random times, the leaks of 200 conversions, and random graphs and damaged
files of seeds that no test has (their first may be given, else it is the day's). The first thing
wrong ends it.
"""

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from converter.files import output_guard
from tests import test_leaks
from tests.acceptance.cli import small_cnn, tree
from tests.faults import NET, require_ended, start
from tests.fuzz.__main__ import main as fuzz
from tests.hostile.__main__ import main as hostile

KILLS = {"model.onnx": (70, []), "net.py:Net": (30, ["--input", "x:batchx3x16x16"])}
"""How many runs of a source are killed, and its options."""

LEAKS, SEEDS, DAMAGED = 100, 300, 100_000


def kill_at_random(folder: Path, source: str, seed: int) -> int:
    """Kills runs of one command at random times, every tenth of which is followed by one that goes
    on to its end; gives how many had put their output in place."""
    kills, options = KILLS[source]
    args = ["convert", source, *options, "--serve", "triton", "--samples", "random:2"]
    args += ["--no-bench", "--no-cache", "--out", "out", "--overwrite"]
    for _ in range(2):  # the second is as quick as those to be killed
        begun = time.monotonic()
        assert start(args, folder).wait() == 0
    whole, chance, finished = time.monotonic() - begun, random.Random(seed), 0
    names = sorted(item.name for item in folder.iterdir())
    for number in range(kills):
        before = tree(folder / "out")
        process = start(args, folder)
        time.sleep(chance.uniform(0, whole * 1.05))
        process.kill()
        process.wait()
        require_ended(folder)
        if (folder / "out").exists():
            assert output_guard.is_ours(folder / "out") and not output_guard.strange(
                folder / "out"
            ), number
            finished += tree(folder / "out") != before
        else:
            assert tree(folder / ".out.modelyard-staging/old") == before, number
        if number % 10 == 9:
            assert start(args, folder).wait() == 0
            assert sorted(item.name for item in folder.iterdir()) == names
    return finished


def main(first: int) -> int:
    """All of it; gives the exit code."""
    for seed, source in enumerate(KILLS):
        folder = Path(tempfile.mkdtemp(prefix="soak-")) / "place"
        folder.mkdir()
        (folder / "net.py").write_text(NET)
        small_cnn(folder / "model.onnx")
        finished = kill_at_random(folder, source, first + seed)
        print(f"{source}: {KILLS[source][0]} killed, {finished} after their output was there")
        shutil.rmtree(folder.parent)
    test_leaks.REPEATED = {k: (LEAKS, options) for k, (_, options) in test_leaks.REPEATED.items()}
    leaks = pytest.main(["-q", "-k", "repeated", str(test_leaks.__file__), "--timeout", "7200"])
    if leaks or fuzz(["--seeds", f"{first}:{first + SEEDS}", "--list-refused"]):
        return 1
    of_files = 100 * first  # the next day's begin where these end
    return hostile(["--cases", f"{of_files}:{of_files + DAMAGED}", "--shrink"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000 * int(time.time() // 86400)))
