"""Converting over and over in one process leaves nothing behind in it; ``python -m tests.soak``
does so 200 times."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from converter import api
from converter.errors import MachineError, ModelError
from converter.passes.libraries.tools import start_tools
from tests.acceptance.cli import small_cnn
from tests.faults import NET

pytestmark = pytest.mark.slow

FAILING = """
import os

class Raises(Net):
    def forward(self, x):
        raise RuntimeError("no")

class Crashes(Net):
    def forward(self, x):
        os.kill(os.getpid(), 11)
"""
KERAS = """
import keras, tensorflow
image = keras.Input((8, 8, 3), name="image")
x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(image))
model = keras.Model(image, keras.layers.Dense(5, name="scores")(x))
model.save("net.keras")
converter = tensorflow.lite.TFLiteConverter.from_keras_model(model)
open("net.tflite", "wb").write(converter.convert())
"""
WARM_UP = 5
"""Conversions after which libraries have filled their own caches."""

GROWTH = 128 * 1024
"""Bytes that a conversion may add. Measured without a leak: 0-30 kB, the allocator's wandering;
one kept array of samples or report is above it."""


@dataclass(frozen=True)
class Held:
    """What a process holds on to."""

    files: frozenset[tuple[str, int]]
    threads: int
    children: frozenset[int]
    temporary: frozenset[str]
    memory: int


def held(temporary: Path) -> Held:
    """What this process holds now."""
    gc.collect()
    process = psutil.Process()
    links = []
    for item in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            links.append(str(item.readlink()))
    return Held(
        frozenset((link, links.count(link)) for link in links if not link.endswith("/fd")),
        threading.active_count(),
        frozenset(child.pid for child in process.children(recursive=True)),
        frozenset(str(path.relative_to(temporary)) for path in temporary.rglob("*")),
        process.memory_info().rss,
    )


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, and a cache, of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    start_tools()  # the one child that is kept, whatever ran before
    yield folder


def repeat(convert: Callable[[], object], times: int, temporary: Path) -> list[Held]:
    """What is held after each of ``times`` conversions, once threads that are about to end have."""
    states, threads = [], threading.active_count()
    for _ in range(times):
        convert()
        deadline = time.monotonic() + 2
        while threading.active_count() > threads and time.monotonic() < deadline:
            time.sleep(0.02)
        states.append(held(temporary))
    return states


def convert(source: str | Path, folder: Path, **options: Any) -> None:
    settings = {"samples": "random:2", "bench": False, "cache": False, "overwrite": True}
    api.convert(str(source), out=str(folder / "out"), **{**settings, **options})


def assert_nothing_stays(states: list[Held]) -> None:
    first, last = (replace(state, memory=0, threads=0) for state in (states[0], states[-1]))
    assert last == first
    assert states[-1].threads <= states[0].threads


def slope(values: list[int]) -> float:
    """Theil and Sen's: the median slope between any two values, which outliers don't move."""
    pairs = [(i, j) for i in range(len(values)) for j in range(i)]
    return float(np.median([(values[i] - values[j]) / (i - j) for i, j in pairs]))


def test_slope_sees_a_leak_and_not_a_jump() -> None:
    assert slope([10 * i + i % 3 for i in range(15)]) == pytest.approx(10, abs=0.5)
    assert slope([0, 0, 0, 900, 0, 0, 0, 0, 800, 0]) == 0


WITH_LATENCY = {"serve": ["triton"], "bench_seconds": 0.05, "bench_concurrency": [1, 2]}
REPEATED: dict[str, tuple[int, dict[str, Any]]] = {
    "net.py:Net": (20, {"inputs": ["x:batchx3x8x8"]}),
    "cnn.onnx": (35, {**WITH_LATENCY, "bench": True}),
}
"""How often each is converted, and how. Of a file of ONNX everything runs in this process:
sessions, samples, the latency's threads; what the allocator gives back comes in waves of eight."""


@pytest.mark.parametrize("source", REPEATED)
def test_repeated(source: str, tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    small_cnn(tmp_path / "cnn.onnx")
    times, options = REPEATED[source]
    states = repeat(lambda: convert(tmp_path / source, tmp_path, **options), times, temporary)
    assert_nothing_stays(states)
    assert slope([state.memory for state in states[WARM_UP:]]) < GROWTH


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model as .keras and as .tflite."""
    folder = tmp_path_factory.mktemp("files")
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-c", KERAS]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize(("name", "times"), [("net.tflite", 6), ("net.keras", 3)])
def test_others(name: str, times: int, files: Path, tmp_path: Path, temporary: Path) -> None:
    assert_nothing_stays(repeat(lambda: convert(files / name, tmp_path), times, temporary))


@pytest.mark.parametrize(("name", "error"), [("Raises", ModelError), ("Crashes", MachineError)])
def test_failures(name: str, error: type[Exception], tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "net.py").write_text(NET + FAILING)

    def fail() -> None:
        with pytest.raises(error):
            convert(f"{tmp_path / 'net.py'}:{name}", tmp_path, inputs=["x:batchx3x8x8"], batch="1")

    assert_nothing_stays(repeat(fail, 3, temporary))
