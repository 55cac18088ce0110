"""``modelyard.load``: artifacts of an output folder, run by their names."""

import json
from pathlib import Path

import numpy as np
import psutil
import pytest

import modelyard
from tests.acceptance.cli import written

TEXT = """g (float[batch, 8] x, float[batch, 8] z) => (float[batch, 4] sum, float[batch, 8] half)
    { a = Add(x, z) sum = MatMul(a, w) half = Mul(x, h) }"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ONNX and TFLite, and Core ML, which runs on a Mac alone."""
    folder = tmp_path_factory.mktemp("load")
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 4)).astype(np.float32), "h": np.float32([0.5])}
    model = written(folder / "m.onnx", TEXT, **weights)
    np.savez(folder / "w.npz", **weights)
    modelyard.convert(
        model, to=["onnx", "tflite", "coreml"], samples="random:32", out=folder / "out",
        bench_seconds=0.1, progress=False,
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("artifact", ["onnx", "onnx:fp32", "tflite", None])
def test_it_gives_outputs_by_name(made: Path, artifact: str | None) -> None:
    x, z = np.random.default_rng(1).standard_normal((2, 3, 8))  # float64, a batch of three
    with np.load(made / "w.npz") as weights, modelyard.load(made / "out", artifact) as net:
        assert artifact is None or net.title == f"{artifact.split(':')[0]} fp32"
        assert [spec.name for spec in net.inputs] == ["x", "z"]
        for found in (net(x, z), net(z=z, x=x), net({"x": x, "z": z})):
            np.testing.assert_allclose(found["sum"], (x + z) @ weights["w"], atol=1e-4)
            np.testing.assert_allclose(found["half"], x / 2, atol=1e-6)
    assert "x float32[batch, 8]" in repr(net)


def test_the_quickest_is_taken(made: Path) -> None:
    manifest = made / "out/manifest.json"
    told = json.loads(manifest.read_text())
    for entry in told["measured"]["latency"]:
        for point in entry["points"]:
            point["p50_ms"] = 1.0 if entry["artifact"] == "tflite fp32" else 2.0
    manifest.write_text(json.dumps(told))
    with modelyard.load(made / "out") as net:
        assert net.title == "tflite fp32" and "litert" in str(net.runtime["name"]).lower()
    with modelyard.load(made / "out/onnx") as net:
        assert net.title == "onnx fp32"


def test_litert_runs_in_this_process(made: Path) -> None:
    """As its own interpreter does, without a copy of the arrays on the way."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with modelyard.load(made / "out", "tflite", threads=1) as net:
        assert net.runtime["threads"] == 1
        for rows in (2, 5, 2):
            found = net(np.ones((rows, 8)), np.zeros((rows, 8)))
            assert found["half"].shape == (rows, 8) and (found["half"] == 0.5).all()
        assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    damaged = made / "damaged.tflite"
    damaged.write_bytes((made / "out/tflite/fp32/model.tflite").read_bytes()[:-400])
    with pytest.raises(modelyard.ModelError):
        modelyard.load(damaged)


def test_what_can_not_be_is_said(made: Path) -> None:
    with modelyard.load(made / "out", "onnx") as net:
        with pytest.raises(modelyard.UsageError, match="missing: z"):
            net(np.zeros((1, 8)))
        with pytest.raises(modelyard.UsageError, match="no input is called y; missing: x"):
            net(y=np.zeros((1, 8)), z=np.zeros((1, 8)))
        with pytest.raises(
            modelyard.UsageError, match="x takes float32, not an array of complex128"
        ):
            net(np.zeros((1, 8), complex), np.zeros((1, 8)))
        with pytest.raises(modelyard.ModelError):
            net(np.zeros((1, 9)), np.zeros((1, 9)))
    with pytest.raises(modelyard.DependencyError, match=r"model\.mlpackage doesn't run here"):
        modelyard.load(made / "out", "coreml")
    with pytest.raises(modelyard.UsageError, match="no artifact of that target and precision"):
        modelyard.load(made / "out", "onnx:int8")
    with pytest.raises(modelyard.UsageError, match="there is no "):
        modelyard.load(made / "nowhere")
