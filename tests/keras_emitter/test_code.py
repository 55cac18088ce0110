"""What is written: code that a person would read, and that computes what the source does on each of
Keras' backends."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from converter.runtime.worker import warm_workers
from tests.acceptance.cli import command
from tests.keras_emitter import on_backends
from tests.pytorch_emitter import test_code as others
from tests.pytorch_emitter.models import model, reference

pytest.importorskip("keras", reason="Keras isn't installed")

_NAMES = """net (float[batch,4] call, float[4] training) => (float[batch,4] y, float[batch,4] z) {
  a = MatMul(call, w0)
  y = Add(a, training)
  z = Tanh(a)
}"""
_BACKENDS = [name for name in ("tensorflow", "torch", "jax") if find_spec(name) is not None]

_CHEAPEST = next((name for name in ("torch", "tensorflow") if name in _BACKENDS), "jax")


def _converted(proto: Any, folder: Path, feeds: Mapping[str, np.ndarray], *options: str) -> Path:
    """The folder of the code that a model becomes, with what goes in and comes out of it."""
    folder.mkdir()
    onnx.save(proto, folder / "source.onnx")
    told = ("--to", "keras", "--no-bench", "--out", folder / "out", *options)
    done = command("convert", folder / "source.onnx", *told, env={"KERAS_BACKEND": _CHEAPEST})
    assert done.code == 0, done.err
    out = folder / "out" / "keras" / "fp32"
    np.savez(out / "feeds.npz", **feeds)
    names = [value.name for value in proto.graph.output]
    np.savez(out / "right.npz", **dict(zip(names, reference(proto, feeds), strict=True)))
    return out


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Blocks, names that mean something, and layers that are trained: the folders of their code."""
    folder, rng = tmp_path_factory.mktemp("keras"), np.random.default_rng(1)

    def random(*shape: int) -> np.ndarray:
        return rng.random(shape, dtype=np.float32)

    blocks = model(others._BLOCKS, others._BLOCK_WEIGHTS, others._BLOCK_NAMES)
    named = model(_NAMES, {"w0": (4, 4)}, ("self", "train/Add", "class"))
    layers = model(others._LAYERS, others._LAYER_WEIGHTS)
    with warm_workers():
        return [
            _converted(blocks, folder / "blocks", {"image": random(3, 8, 6, 6)}),
            _converted(named, folder / "names", {"call": random(2, 4), "training": random(4)}),
            _converted(layers, folder / "layers", {"image": random(6, 1, 8, 8)}, "--trainable"),
        ]


def test_blocks_are_one_class_without_transposes(packages: list[Path]) -> None:
    """Blocks that differ in a number are one class; channels are last from the model's input to its
    output; the text is as Ruff would have it."""
    text = (packages[0] / "model.py").read_text()
    assert text.count("(layers.Layer)") == 2 and "Block(narrow_filters=6)" in text
    assert text.count("ops.transpose") == 2 and "for block in self.blocks" in text
    ruff = [sys.executable, "-m", "ruff"]
    told = ["--isolated", "--line-length", "100", *(str(p / "model.py") for p in packages)]
    subprocess.run([*ruff, "format", "--check", *told], check=True)
    subprocess.run([*ruff, "check", "--select", "E,F,I,B", *told], check=True)


def test_trainable_keeps_what_trains(packages: list[Path]) -> None:
    """BatchNormalization and Dropout are layers."""
    text = (packages[2] / "model.py").read_text()
    assert text.count("layers.BatchNormalization(") == 2 and text.count("layers.Dropout(") == 1


@pytest.mark.parametrize("backend", _BACKENDS)
def test_equal_and_trained_on_each_backend(packages: list[Path], backend: str) -> None:
    """Outputs to 1e-5, by their names; ``fit`` lowers the loss and changes every weight."""
    done = subprocess.run(
        [sys.executable, on_backends.__file__, *map(str, packages)],
        env={**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["backend"] == backend
    assert max(told["distances"]) < 1e-5
    assert not told["unchanged"] and told["losses"][-1] < told["losses"][0]


def test_package_tests_itself(packages: list[Path]) -> None:
    """The selftest passes; the archive's tensors are counted in it."""
    told = [sys.executable, "selftest.py", "--backend", _CHEAPEST]
    done = subprocess.run(told, cwd=packages[0], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((packages[0].parents[1] / "report.json").read_text())
    assert "float32" in json.dumps(report["artifacts"][0])


@pytest.mark.skipif("tensorflow" not in _BACKENDS, reason="TensorFlow isn't installed")
def test_padding_beside_a_convolution(tmp_path: Path) -> None:
    """TensorFlow's optimizer takes it for the convolution's own: it crashes where the padding is
    added to the result, and fails where it makes channels."""
    text = """net (float[2,3,8,8] x) => (float[2,6,8,8] y, float[2,6,8,8] z, float[2,6,8,8] u)
      <int64[8] channels = {0, 0, 0, 0, 0, 3, 0, 0}, int64[8] space = {0, 0, 1, 1, 0, 0, 1, 1}> {
      padded = Pad(x, channels)
      a = Conv(x, w0, b)
      y = Add(padded, a)
      z = Conv(padded, w1, b)
      wide = Pad(x, space)
      u = Conv(wide, w2, b)
    }"""
    weights = {"w0": (6, 3, 1, 1), "w1": (6, 6, 1, 1), "w2": (6, 3, 3, 3), "b": (6,)}
    onnx.save(model(text, weights), tmp_path / "padded.onnx")
    told = ("--to", "keras", "--no-bench", "--out", tmp_path / "out")
    done = command("convert", tmp_path / "padded.onnx", *told, env={"KERAS_BACKEND": "tensorflow"})
    assert done.code == 0, done.err
    code = (tmp_path / "out" / "keras" / "fp32" / "model.py").read_text()
    assert code.count("= pad_apart(") == 1, code


def test_what_it_lacks(tmp_path: Path) -> None:
    """int8 is refused with why; all nodes that there is no code for are named at once."""
    text = """net (float[2] x) => (float[2] y, float[2] z) {
      y = RandomNormalLike(x)
      n = RandomUniformLike(x)
      z = Add(n, x)
    }"""
    onnx.save(model(text, {}), tmp_path / "random.onnx")
    told = ("convert", tmp_path / "random.onnx", "--to", "keras", "--out", tmp_path / "o")
    said = command(*told)
    assert said.code == 3
    assert "RandomNormalLike" in said.err and "RandomUniformLike" in said.err
    said = command(*told, "--precision", "int8")
    assert said.code == 2 and "keras has no int8: layers compute in floats" in said.err
