"""silero-vad: TorchScript that keeps state, and an ONNX file with an If for each rate."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.errors import UnsupportedError
from converter.ir.model import Model
from tests.passes.real import MODELS, real_samples
from zoo.packages import fetch_package_file

JIT = (
    "silero_vad/data/silero_vad.jit",
    "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720",
)


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
@pytest.mark.parametrize("batch", ["batch", "1"])
def test_one_rate_for_good(batch: str, tmp_path: Path) -> None:
    """With ``sr`` fixed, its If is gone, and targets that take no such Ifs take the model. At a
    fixed batch ONNX Runtime's own optimizer dies of the Ifs left: of its child process alone."""
    real, samples = MODELS["silero"], tmp_path / "samples"
    path = fetch_package_file(real.package, real.version, real.member, real.sha256)
    samples.mkdir()
    for number, sample in enumerate(real_samples("silero", 6)):  # whose state isn't zero
        feeds = {name: values for name, values in sample.feeds.items() if name != "sr"}
        np.savez(samples / f"{number}.npz", **feeds)
    inputs = [f"input:{batch}x576", f"state:2x{batch}x128", "sr:int64:"]
    places: dict[str, Any] = {"out": str(tmp_path / "out"), "samples": str(samples)}
    options = {"inputs": inputs, "fix": ["sr=16000"], "to": ["onnx", "tflite"], "bench": False}
    made = api.convert(str(path), **places, **options)
    assert made.report is not None and len(made.report.artifacts) == 2
    for artifact in made.report.artifacts:
        assert {gate.status for gate in artifact.gates} == {"passed"}, artifact.title
        assert artifact.accuracy is not None and (artifact.accuracy.max_abs or 0) < 1e-5
    plain = Model.load(tmp_path / "out" / "onnx" / "fp32" / "model.onnx")
    assert [spec.name for spec in plain.inputs] == ["input", "state"]
    assert not any(node.op_type == "If" for node in plain.nodes())
