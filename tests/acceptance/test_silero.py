"""silero-vad: TorchScript that keeps state, and an ONNX file with an If for each rate.

Samples are frames of a chirp in noise, 16 kHz, and a state that isn't zero.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.errors import UnsupportedError
from converter.ir.model import Model
from converter.report.model import ArtifactReport
from tests.passes.real import MODELS
from zoo.packages import fetch_package_file

JIT = (
    "silero_vad/data/silero_vad.jit",
    "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720",
)


def converted(source: Path, folder: Path, name: str, length: int, **options: Any
              ) -> list[ArtifactReport]:  # fmt: skip
    """The artifacts, every one within 1e-5 of the source and through its gates."""
    rng, time = np.random.default_rng(5), np.arange(6 * 576) / 16000
    tone = 0.4 * np.sin(2 * np.pi * (200 * time + 900 * time**2)) * (time < 0.1)
    sound = (tone + 0.02 * rng.standard_normal(time.size)).astype(np.float32).reshape(6, 576)
    (folder / "samples").mkdir()
    for index, frame in enumerate(sound):
        state = rng.normal(size=(2, 1, 128)).astype(np.float32)
        feeds = {name: frame[None, :length], "state": state}
        np.savez(folder / "samples" / f"{index}.npz", **feeds)
    places = {"out": str(folder / "out"), "samples": str(folder / "samples"), "bench": False}
    made = api.convert(str(source), **places, **options)
    assert made.report is not None
    for artifact in made.report.artifacts:
        assert {gate.status for gate in artifact.gates} == {"passed"}, artifact.title
        assert artifact.accuracy is not None and (artifact.accuracy.max_abs or 0) < 1e-5
    return made.report.artifacts


def test_torchscript_that_keeps_state_is_refused(tmp_path: Path) -> None:
    """A trace would forget what it heard before; each attribute is named, and a way out."""
    path = fetch_package_file("silero-vad", "6.2.3", *JIT)
    inputs = ["x:batchx512", "sr:int64:"]
    with pytest.raises(UnsupportedError) as caught:
        api.convert(str(path), out=str(tmp_path / "out"), inputs=inputs, trust_source=True)
    text = str(caught.value)
    for name in ("_state", "_context", "_last_sr", "--submodule _model or _model_8k"):
        assert name in text
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("part", "length"), [("_model", 576), ("_model_8k", 288)])
def test_a_part_of_torchscript(part: str, length: int, tmp_path: Path) -> None:
    path = fetch_package_file("silero-vad", "6.2.3", *JIT)
    inputs = [f"x:batchx{length}", "state:2xbatchx128"]
    options = {"submodule": part, "inputs": inputs, "outputs": ["output", "stateN"]}
    (artifact,) = converted(path, tmp_path, "x", length, trust_source=True, **options)
    assert artifact.accuracy is not None
    assert [output.name for output in artifact.accuracy.outputs] == ["output", "stateN"]


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["batch", "1"])
def test_one_rate_for_good(batch: str, tmp_path: Path) -> None:
    """With ``sr`` fixed, its If is gone, and targets that take no such Ifs take the model. At a
    fixed batch ONNX Runtime's own optimizer dies of the Ifs left: of its child process alone."""
    real = MODELS["silero"]
    path = fetch_package_file(real.package, real.version, real.member, real.sha256)
    inputs = [f"input:{batch}x576", f"state:2x{batch}x128", "sr:int64:"]
    options = {"inputs": inputs, "fix": ["sr=16000"], "to": ["onnx", "tflite"]}
    assert len(converted(path, tmp_path, "input", 576, **options)) == 2
    plain = Model.load(tmp_path / "out" / "onnx" / "fp32" / "model.onnx")
    assert [spec.name for spec in plain.inputs] == ["input", "state"]
    assert not any(node.op_type == "If" for node in plain.nodes())
