"""silero-vad: TorchScript that keeps state, and ONNX files with Ifs in Ifs and an LSTM.

Samples are frames of a chirp in noise, 16 kHz, and a state that isn't zero.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.errors import UnsupportedError
from converter.ir import Model
from tests.passes.real import MODELS
from zoo.packages import fetch_package_file

JIT = (
    "silero_vad/data/silero_vad.jit",
    "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720",
)
BATCH = ["input:batchx576", "state:2xbatchx128"]
VARIANTS: dict[str, dict[str, Any]] = {
    # 576 samples at 16 kHz, 288 at 8 kHz: fixing one makes the other branch invalid
    "silero": {
        "inputs": ["input:batchxsamples", "state:2xbatchx128", "sr:int64:"],
        "dims": {"samples": 576},
    },
    "silero-op15": {"inputs": [*BATCH, "sr:int64:"]},
    "silero-half": {"inputs": BATCH},
    "silero-ifless": {"inputs": [*BATCH, "sr:int64:"]},
    "silero-sequence": {"dims": {"sequence_length": 7}},
}


def _sound(frames: int) -> np.ndarray[Any, Any]:
    """[frames, 576]: half a second of a rising tone, then noise."""
    rng = np.random.default_rng(5)
    time = np.arange(frames * 576) / 16000
    tone = 0.4 * np.sin(2 * np.pi * (200 * time + 900 * time**2)) * (time < 0.5)
    return (tone + 0.02 * rng.standard_normal(time.size)).astype(np.float32).reshape(frames, 576)


def _samples(folder: Path, *, sequence: bool, rate: bool) -> Path:
    rng = np.random.default_rng(6)
    folder.mkdir()
    sound = _sound(28).reshape(4, 7, 576)
    for index, frames in enumerate(sound):
        if sequence:
            feeds = {"input": frames}
            feeds |= {key: rng.normal(size=(1, 1, 128)).astype(np.float32) for key in "hc"}
        else:
            state = rng.normal(size=(2, 1, 128)).astype(np.float32)
            feeds = {"input": frames[:1], "state": state}
        if rate:
            feeds["sr"] = np.array(16000, np.int64)
        np.savez(folder / f"{index}.npz", **feeds)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_onnx_with_ifs(name: str, tmp_path: Path) -> None:
    real = MODELS[name]
    path = fetch_package_file(real.package, real.version, real.member, real.sha256)
    samples = _samples(tmp_path / "samples", sequence="h" in real.shapes, rate="sr" in real.shapes)
    out = tmp_path / "out"
    made = api.convert(str(path), out=str(out), samples=str(samples), bench=False, **VARIANTS[name])
    assert made.report is not None
    (artifact,) = made.report.artifacts
    assert {gate.status for gate in artifact.gates} == {"passed"}
    assert artifact.accuracy is not None
    assert (artifact.accuracy.max_abs or 0) < 1e-5
    assert artifact.nodes_after <= artifact.nodes_before


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
    (tmp_path / "samples").mkdir()
    rng = np.random.default_rng(7)
    for index, frame in enumerate(_sound(6)):
        state = rng.normal(size=(2, 1, 128)).astype(np.float32)
        feeds = {"x": frame[None, :length], "state": state}
        np.savez(tmp_path / "samples" / f"{index}.npz", **feeds)
    made = api.convert(
        str(path),
        out=str(tmp_path / "out"),
        trust_source=True,
        submodule=part,
        inputs=[f"x:batchx{length}", "state:2xbatchx128"],
        outputs=["output", "stateN"],
        samples=str(tmp_path / "samples"),
        bench=False,
    )
    assert made.report is not None
    (artifact,) = made.report.artifacts
    assert artifact.accuracy is not None
    assert (artifact.accuracy.max_abs or 0) < 1e-5
    assert [output.name for output in artifact.accuracy.outputs] == ["output", "stateN"]


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["batch", "1"])
def test_one_rate_for_good(batch: str, tmp_path: Path) -> None:
    """With ``sr`` fixed, its If is gone, and targets that take no such Ifs take the model. At a
    fixed batch ONNX Runtime's own optimizer dies of the Ifs left: of its child process alone."""
    real = MODELS["silero"]
    path = fetch_package_file(real.package, real.version, real.member, real.sha256)
    samples = _samples(tmp_path / "samples", sequence=False, rate=False)
    made = api.convert(
        str(path),
        inputs=[f"input:{batch}x576", f"state:2x{batch}x128", "sr:int64:"],
        fix=["sr=16000"],
        to=["onnx", "tflite"],
        samples=str(samples),
        out=str(tmp_path / "out"),
        bench=False,
    )
    assert made.report is not None
    for artifact in made.report.artifacts:
        assert {gate.status for gate in artifact.gates} == {"passed"}, artifact.title
        assert artifact.accuracy is not None and (artifact.accuracy.max_abs or 0) < 1e-5
    plain = Model.load(tmp_path / "out" / "onnx" / "fp32" / "model.onnx")
    assert [spec.name for spec in plain.inputs] == ["input", "state"]
    assert not any(node.op_type == "If" for node in plain.nodes())
