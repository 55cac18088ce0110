"""A run killed at any moment leaves no half-written output and no process, and can be repeated."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path

import numpy as np
import psutil
import pytest

from converter.digest import file_digest
from converter.ort import OrtSession
from tests.acceptance.cli import COMMAND, modelyard, small_cnn

MARK = "MODELYARD_TEST_MARK"
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.conv(x).relu().mean((2, 3)))
"""


def start(args: list[str], cwd: Path, mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(COMMAND), "convert", *args],
        cwd=cwd,
        env={**os.environ, MARK: mark, "MODELYARD_CACHE": str(cwd / "cache")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def marked(mark: str) -> list[psutil.Process]:
    """Every living process that was started, however indirectly, with this mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found


def require_whole_or_absent(out: Path) -> bool:
    """Whether the output is there; if it is, every file has to be what the manifest says."""
    if not out.exists():
        return False
    manifest = json.loads((out / "manifest.json").read_text())
    for artifact in manifest["artifacts"]:
        assert file_digest(out / artifact["path"]) == artifact["sha256"]
    assert (out / "report.html").read_text().rstrip().endswith("</html>")
    assert list((out / "serving" / "triton").glob("*/config.pbtxt"))
    assert not (out / ".scratch").exists()
    return True


def kill_at_random_times(args: list[str], folder: Path, kills: int, seed: int) -> int:
    """Kills ``kills`` runs of the same command; gives how many had put their output in place."""
    out = folder / "out"
    args = [*args, "--out", "out", "--serve", "triton", "--no-bench", "--samples", "random:2"]
    begun = time.monotonic()
    assert start(args, folder, "first").wait() == 0
    whole = time.monotonic() - begun
    rng = random.Random(seed)
    finished = 0
    for number in range(kills):
        mark = uuid.uuid4().hex
        process = start([*args, "--overwrite"], folder, mark)
        time.sleep(rng.uniform(0, whole * 1.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 10
        while marked(mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not marked(mark), f"kill {number}: a process was left"
        finished += require_whole_or_absent(out)
        if number % 10 == 9:
            done = modelyard(
                "convert", *args, "--overwrite", cwd=folder,
                env={"MODELYARD_CACHE": str(folder / "cache")},
            )  # fmt: skip
            assert done.code == 0, done.err
            assert require_whole_or_absent(out)
            left = {path.name for path in folder.iterdir()} - {"cache", "net.py", "model.onnx"}
            assert left == {"out"}
    return finished


@pytest.mark.slow
def test_kills_of_an_onnx_conversion(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    finished = kill_at_random_times(["model.onnx", "--no-cache"], tmp_path, 70, seed=1)
    assert finished > 0


@pytest.mark.slow
def test_kills_of_a_pytorch_conversion(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    args = ["net.py:Net", "--input", "x:batchx3x16x16", "--no-cache"]
    kill_at_random_times(args, tmp_path, 30, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_end_cleans_up(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "net.py").write_text(NET)
    args = ["net.py:Net", "--input", "x:batchx3x16x16", "--no-cache", "--out", "deep/out"]
    for wait in (0.3, 1.5, 2.5, 3.5):
        mark = uuid.uuid4().hex
        process = start(args, tmp_path, mark)
        time.sleep(wait)
        process.send_signal(number)
        code = process.wait(timeout=60)
        if code == 0:  # it had finished by then
            shutil.rmtree(tmp_path / "deep")
            continue
        assert code in (128 + number, 130, -number), wait
        assert not marked(mark)
        assert {path.name for path in tmp_path.iterdir()} <= {"net.py", "cache"}


SLOW = """
import numpy as np, time

def samples():
    while True:
        open("began", "w").close()
        time.sleep(0.2)
        yield {"image": np.zeros((3, 16, 16), np.float32)}
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_waits_for_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Children have sessions of their own: Ctrl-C has to be passed on to them. A second one cuts
    nothing short."""
    small_cnn(tmp_path / "model.onnx")
    (tmp_path / "slow.py").write_text(SLOW)
    mark = uuid.uuid4().hex
    process = start(["model.onnx", "--samples", "slow.py:samples", "--out", "out"], tmp_path, mark)
    deadline = time.monotonic() + 60
    while not (tmp_path / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    if number == signal.SIGTERM:  # systemd and timeout(1) may send two
        process.send_signal(number)
    begun = time.monotonic()
    assert process.wait(timeout=60) in (128 + number, 130)
    assert time.monotonic() - begun < 20
    assert not marked(mark)
    assert not list(tmp_path.glob("*out*")) and not list(tmp_path.glob(".*out*"))


@pytest.mark.slow
def test_a_run_goes_on_from_the_last_finished_step(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    args = ["net.py:Net", "--input", "x:batchx3x16x16", "--samples", "random:2", "--no-bench"]
    env = {"MODELYARD_CACHE": str(tmp_path / "cache")}
    first = modelyard("convert", *args, "--out", "first", "--json", cwd=tmp_path, env=env)
    again = modelyard("convert", *args, "--out", "again", "--json", cwd=tmp_path, env=env)
    assert (first.code, again.code) == (0, 0), first.err + again.err
    cached = {item["step"] for item in again.json["report"]["timings"] if item["cached"]}
    assert cached == {"simplify"}  # the code itself runs every time
    same = [(tmp_path / name / "onnx/fp32/model.onnx").read_bytes() for name in ("first", "again")]
    assert same[0] == same[1]
    (tmp_path / "net.py").write_text(NET.replace("Conv2d(3, 8, 3)", "Conv2d(3, 8, 5)"))
    changed = modelyard("convert", *args, "--out", "changed", "--json", cwd=tmp_path, env=env)
    assert changed.code == 0, changed.err
    assert not any(item["cached"] for item in changed.json["report"]["timings"])


@pytest.mark.slow
def test_equal_files_with_other_neighbours_are_another_source(tmp_path: Path) -> None:
    env = {"MODELYARD_CACHE": str(tmp_path / "cache")}
    for factor in (2, 3):
        folder = tmp_path / str(factor)
        folder.mkdir()
        (folder / "parts.py").write_text(f"FACTOR = {factor}\n")
        (folder / "net.py").write_text(
            "import torch\nfrom parts import FACTOR\n"
            "class Net(torch.nn.Module):\n    def forward(self, x):\n        return x * FACTOR\n"
        )
        for source in ("net.py:Net", "net:Net"):
            args = [source, "--input", "x:batchx3", "--no-bench", "--overwrite", "--json"]
            said = modelyard("convert", *args, cwd=folder, env=env)
            assert said.code == 0, said.err
            session = OrtSession(folder / "build/net/onnx/fp32/model.onnx")
            (out,) = session.run({"x": np.ones((1, 3), np.float32)}).values()
            assert out.tolist() == [[factor] * 3], source


@pytest.mark.slow
def test_a_damaged_entry_of_the_cache_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    env = {"MODELYARD_CACHE": str(tmp_path / "cache")}
    args = ["net.py:Net", "--input", "x:batchx3x16x16", "--no-bench", "--overwrite"]
    args += ["--reuse-source"]
    assert modelyard("convert", *args, cwd=tmp_path, env=env).code == 0
    kept = list((tmp_path / "cache" / "steps").rglob("model.onnx"))
    assert kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:100])
    for cached in (False, True):
        again = modelyard("convert", *args, "--json", cwd=tmp_path, env=env)
        assert again.code == 0, again.err
        steps = {item["step"]: item["cached"] for item in again.json["report"]["timings"]}
        assert steps["parse"] is steps["simplify"] is cached
