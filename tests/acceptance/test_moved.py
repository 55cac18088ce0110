"""What was kept is found wherever the source lies, for as long as what is read is the same."""

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.commands.opened import resolve
from converter.pipeline.readings import Surroundings
from converter.pipeline.work import find_parser
from tests.acceptance.cli import images, modelyard, small_cnn

CODE = {
    "net.py": """
import torch
from blocks.line import Line
from scale import SCALE

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = Line(3, 2)

    def forward(self, x):
        return self.line(x) * SCALE
""",
    "scale.py": "SCALE = 2.0\n",
    "blocks/__init__.py": "",
    "blocks/line.py": "import torch\n\nclass Line(torch.nn.Linear):\n    pass\n",
    "notes.txt": "of no matter to anybody",
}


def code(folder: Path) -> list[str]:
    for name, text in CODE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    np.savez(folder / "samples.npz", x=np.random.default_rng(0).normal(size=(12, 3)).astype("f4"))
    return ["net.py:Net", "--input", "x:batchx3", "--reuse-source"]


def onnx(folder: Path) -> list[str]:
    small_cnn(folder / "model.onnx")
    images(folder / "samples.npz")
    return ["model.onnx", "--precision", "fp32,int8"]


def keras(folder: Path) -> list[str]:
    keras = pytest.importorskip("keras")
    layers = [keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(2)]
    keras.Sequential(layers).save(folder / "model.keras")
    name = keras.models.load_model(folder / "model.keras").inputs[0].name
    values = np.random.default_rng(0).normal(size=(12, 3)).astype("f4")
    np.savez(folder / "samples.npz", **{name: values})
    return ["model.keras"]


def converted(source: Sequence[str], folder: Path, cwd: Path, cache: Path) -> tuple[set[str], Any]:
    """The steps that came from the cache; and the artifacts' bytes."""
    out = cwd / "out"
    modelyard(
        "convert", folder / source[0], *source[1:], "--samples", folder / "samples.npz",
        "--to", "onnx", "--no-bench", "--out", out, "--overwrite",
        cwd=cwd, env={"MODELYARD_CACHE": str(cache)}, code=0,
    )  # fmt: skip
    timings = json.loads((out / "report.json").read_text())["timings"]
    files = sorted(out.glob("onnx/*/*.onnx"))
    return {item["step"] for item in timings if item["cached"]}, [f.read_bytes() for f in files]


INT8 = "quantize:int8:onnxruntime-u8s8"
KEPT = {
    onnx: {"reference", "simplify", "calibrate", INT8, "trace:simplify", f"trace:{INT8}"},
    code: {"parse", "reference", "simplify"},
    keras: {"parse", "reference", "simplify"},
}


@pytest.mark.parametrize("made", [onnx, pytest.param(code, marks=pytest.mark.slow),
                                  pytest.param(keras, marks=pytest.mark.slow)])  # fmt: skip
def test_a_source_in_another_folder_is_known(
    tmp_path: Path, made: Callable[[Path], list[str]]
) -> None:
    here, there, elsewhere = (tmp_path / name for name in ("here", "moved/there", "elsewhere"))
    here.mkdir()
    elsewhere.mkdir()
    source = made(here)
    cached, first = converted(source, here, here, tmp_path / "cache")
    assert not cached
    shutil.rmtree(here / "out")
    shutil.copytree(here, there)
    shutil.rmtree(here)
    cached, again = converted(source, there, elsewhere, tmp_path / "cache")
    assert cached == KEPT[made]
    assert first == again
    if made is onnx:
        images(there / "samples.npz", count=11)
        assert not converted(source, there, elsewhere, tmp_path / "cache")[0]


def found(cache: Path, folder: Path, cwd: Path, **options: Any) -> bool:
    """Whether a reading of code in a folder, as one that was noted, would be taken."""
    os.chdir(cwd)
    request = resolve({"source": f"{folder}/net.py:Net", "reuse_source": True, **options})
    identity = find_parser(request)[1]
    around = Surroundings(identity, request)
    modules = [folder / name for name in CODE if name.endswith(".py")]
    note = cache / "note.json"
    if not note.exists():
        note.write_text(json.dumps([around.offered(code=True), around.note(modules, code=True)]))
    offered, noted = json.loads(note.read_text())
    try:
        return offered == around.offered(code=True) and around.same(noted)
    except (KeyError, OSError):
        return False


CHANGES: list[Callable[[Path], object]] = [
    lambda folder: (folder / "scale.py").write_text("SCALE = 3.0\n"),
    lambda folder: (folder / "scale.py").unlink(),
    lambda folder: (folder / "blocks/line.py").write_text("Line = None\n"),
    lambda folder: (folder / "scale").mkdir() or (folder / "scale/__init__.py").write_text(""),
    lambda folder: (folder / "torch.py").write_text(""),
    lambda folder: (
        (folder / "blocks/line").mkdir() or (folder / "blocks/line/__init__.py").write_text("")
    ),
    lambda folder: (folder / "notes.txt").write_text("which the code may read"),
]
"""To code that was copied: modules, what shadows them, and what lies beside them."""


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_code_that_reads_something_else_in_another_folder_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    here, there = tmp_path / "here", tmp_path / "there"
    code(here)
    assert found(tmp_path, here, here)
    shutil.copytree(here, there)
    assert found(tmp_path, there, tmp_path) and found(tmp_path, there, there)
    CHANGES[number](there)
    assert not found(tmp_path, there, tmp_path)
    assert found(tmp_path, here, tmp_path)
    CHANGES[number](here)
    assert found(tmp_path, here, here) == (number == len(CHANGES) - 1)  # of which the user knows


def test_what_another_current_folder_or_search_path_offers_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here, other, search = (tmp_path / name for name in ("here", "other", "search"))
    code(here)
    other.mkdir()
    search.mkdir()
    assert found(tmp_path, here, other) and found(tmp_path, here, here)
    assert found(tmp_path, here, other, search_paths=[str(search)])  # which is empty
    (search / "scale.py").write_text("SCALE = 4.0")
    assert not found(tmp_path, here, other, search_paths=[str(search)])
    (other / "scale.py").write_text("SCALE = 4.0")
    assert not found(tmp_path, here, other)
    monkeypatch.setenv("PYTHONPATH", str(other))
    assert not found(tmp_path, here, here)


def test_of_many_files_and_large_ones_beside_code_not_all_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here, there = tmp_path / "here", tmp_path / "there"
    code(here)
    with (here / "weights.bin").open("wb") as file:
        file.truncate(10**10)
    start = time.monotonic()
    assert found(tmp_path, here, here)
    assert time.monotonic() - start < 5
    (here / "data").mkdir()
    for number in range(2000):
        (here / "data" / str(number)).touch()
    (tmp_path / "note.json").unlink()
    (here / "weights.bin").unlink()
    os.mkfifo(here / "pipe")
    assert found(tmp_path, here, tmp_path)
    shutil.move(here, there)
    assert not found(tmp_path, there, tmp_path)
