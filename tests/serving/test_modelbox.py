"""Packages for ModelBox: their TOML and graphs, read and run by what stands in for it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from tests.acceptance.cli import command, written
from tests.serving.modelbox_stand_in import Graph

NET = """g (float[batch,3,12,10] image) => (float[batch,3] scores) <int64[2] shape = {-1, 3}> {
    h = Relu(image) means = GlobalAveragePool(h) s = Reshape(means, shape) scores = Softmax(s) }"""


SUMS = """m (float[batch,4] a, float[batch,4] b) => (float[batch,4] s, float[batch,4] d) {
    s = Add(a, b) d = Sub(a, b) }"""
NAMES = {"a": "node", "b": "b:0 left", "s": "s:n", "d": "lambda"}


def _packed(folder: Path, *more: str) -> Path:
    """The package of a model of pictures, of photos."""
    (folder / "photos").mkdir()
    rng = np.random.default_rng(5)
    for name in "abc":
        pixels = rng.integers(0, 256, (12, 10, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{name}.png")
    written(folder / "net.onnx", NET, 20)
    (folder / "names.txt").write_text("red\ngreen\nblue\n")
    line = ["convert", "net.onnx", "--serve", "modelbox", "--samples", "photos"]
    line += ["--label-names", "names.txt", "--image-mean", "0.5,0.4,0.3", "--image-std", "0.2"]
    command(*line, *more, "--no-bench", "--out", "out", cwd=folder, code=0)
    return folder / "out/serving/modelbox/net"


def _graph(package: Path, name: str) -> Graph:
    text = (package / "graph" / name).read_text(encoding="utf-8")
    return Graph(text.replace("@APPLICATION_PATH@", str(package)))


@pytest.mark.parametrize("color", ["rgb", "bgr"])
def test_a_picture_is_answered_as_the_model_answers_its_pixels(color: str, tmp_path: Path) -> None:
    package = _packed(tmp_path, "--image-color", color)
    graph = _graph(package, "net_http.toml")
    photo = tmp_path / "photos" / "b.png"
    (answer,) = graph.run({"httpserver_sync_receive": photo.read_bytes()}).values()
    pixels = np.asarray(Image.open(io.BytesIO(photo.read_bytes())))
    pixels = pixels if color == "rgb" else pixels[..., ::-1]
    image = ((pixels / 255 - [0.5, 0.4, 0.3]) / 0.2).transpose(2, 0, 1)[None].astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"image": image})
    found = json.loads(answer)
    np.testing.assert_allclose(found["outputs"]["scores"], wanted, atol=1e-5)
    assert found["best"]["scores"]["label"] == ["red", "green", "blue"][int(np.argmax(wanted))]
    node = graph.nodes["net_infer"]
    assert (node["device"], node["batch_size"], node["queue_size"]) == ("cuda", "8", "16")
    unit = graph.units["net_infer"]
    assert unit["base"]["virtual_type"] == "tensorrt"
    assert unit["config"] == {"onnx_opt_batch_size": 8, "onnx_max_batch_size": 8}
    readme = (package / "README.md").read_text()
    assert "has not run ModelBox" in readme and "--data-binary" in readme
    assert "was not run" in (tmp_path / "out/report.json").read_text()


def test_the_sdk_runs_several_inputs_by_name(tmp_path: Path) -> None:
    """Names that graphviz and Python know otherwise, and a graph without pictures."""
    path = written(tmp_path / "m.onnx", SUMS)
    model = onnx.load(path)
    for place in (*model.graph.input, *model.graph.output):
        old, place.name = place.name, NAMES[place.name]
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = [place.name if name == old else name for name in names]
    onnx.save(model, path)
    line = ["convert", path, "--serve", "modelbox", "--max-batch", "4", "--no-bench"]
    command(*line, "--name", "two-inputs", "--out", tmp_path / "out", code=0)
    package = tmp_path / "out/serving/modelbox/two-inputs"
    assert [path.name for path in (package / "graph").iterdir()] == ["two_inputs.toml"]
    program = (
        "import sys, runpy, tests.serving.modelbox_stand_in as it; sys.modules['modelbox'] = it"
    )
    program += f"; runpy.run_path({str(package / 'use.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines and all(float(line.split()[-1]) < 1e-6 for line in lines), lines
    tested = subprocess.run(
        [sys.executable, package / "selftest.py"], capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0 and "ok" in tested.stdout, tested.stderr


def test_types_that_its_engine_lacks_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", "m (int64[n,4] x) => (int64[n,4] y) { y = Neg(x) }")
    said = command("convert", path, "--serve", "modelbox", "--out", tmp_path / "out", code=3)
    assert "tensorrt has no int64" in said.err
    said = command("convert", path, "--to", "tflite", "--serve", "modelbox", "--out",
                   tmp_path / "no", code=2)  # fmt: skip
    assert "mindspore" in said.err
