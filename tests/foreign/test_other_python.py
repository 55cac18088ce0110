"""Frameworks in another Python than the tool's: TensorFlow in 3.12, LiteRT in 3.13."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import modelyard
from tests.foreign.environments import snapshot

pytestmark = pytest.mark.slow

MAKE = """
import keras, tensorflow
image = keras.Input((8, 8, 3), name="image")
x = keras.layers.Conv2D(4, 3, activation="gelu")(image)
x = keras.layers.GlobalAveragePooling2D()(x)
model = keras.Model(image, keras.layers.Dense(5, name="scores")(x))
model.save("net.keras")
model.export("saved", format="tf_saved_model", verbose=False)
open("net.tflite", "wb").write(tensorflow.lite.TFLiteConverter.from_keras_model(model).convert())
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, tensorflow_python: Path) -> Path:
    """One small network as .keras, SavedModel and .tflite."""
    folder = tmp_path_factory.mktemp("models")
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [str(tensorflow_python), "-B", "-c", MAKE]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=180)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return folder


@pytest.mark.parametrize(("source", "fixture", "python", "framework"), [
    ("net.keras", "tensorflow_python", "3.12", "tensorflow 2.21.0"),
    ("saved", "tensorflow_python", "3.12", "tensorflow 2.21.0"),
    ("net.tflite", "litert_python", "3.13", "litert 2.3.0"),
])  # fmt: skip
def test_a_source_is_read_in_another_python(
    source: str, fixture: str, python: str, framework: str, models: Path, tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    path: Path = request.getfixturevalue(fixture)
    environment = path.parents[1]
    before = snapshot(environment), snapshot(models)
    args = [models / source, "--python", path, "--no-bench", "--samples", "random:2"]
    said = modelyard("convert", *args, "--out", tmp_path / "out", cwd=tmp_path).no_traceback()
    assert said.code == 0, said.err
    assert (snapshot(environment), snapshot(models)) == before

    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["verdict"] == "passed"
    assert report["source"]["framework"].startswith(f"{framework} (Python {python}.")
    assert report["versions"]["python (source)"].startswith(python)
    model = tmp_path / "out/onnx/fp32/model.onnx"
    assert Model.load(model).source["python"].startswith(python)
    assert len(OrtSession(model).outputs) == 1
