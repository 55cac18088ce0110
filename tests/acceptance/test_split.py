"""A model cut in two, for a device and a server."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import modelyard
from emitters.serving.triton.config import read_config
from tests.acceptance.cli import small_cnn, typed, written

SKIPS = """
g (float[n, 8] x) => (float[n, 4] y) {
    a = MatMul(x, w) b = Relu(a) c = MatMul(b, v) d = Tanh(x) e = Add(c, d) f = MatMul(e, u)
    y = Sigmoid(f)
}"""


def skipping(path: Path) -> Path:
    """What reads its input again, late."""
    rng, sizes = np.random.default_rng(0), {"w": (8, 16), "v": (16, 8), "u": (8, 4)}
    return written(path, SKIPS, **{n: rng.normal(size=s).astype(np.float32)
                                   for n, s in sizes.items()})  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("split")
    small_cnn(made / "m.onnx")
    (made / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (4, 20, 24, 3), np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(made / f"photos/{number}_{number}.png")
    return made


def test_the_places_that_few_bytes_lead_over(folder: Path) -> None:
    said = typed("split m.onnx", folder).out
    assert [line.split()[0] for line in said.splitlines()] == ["tensor", "a", "e"]
    found = modelyard.split(folder / "m.onnx")
    first, last = found.cuts
    # 3 x 3 kernels of 3 and of 8 channels on 16 x 16, then 8 x 10
    total = 16 * 16 * 8 * 9 * (3 + 8) + 8 * 10
    assert first.before == pytest.approx(16 * 16 * 8 * 9 * 3 / total)
    assert (first.bytes, last.bytes) == (4 * 8 * 16 * 16, 4 * 8)
    assert last.after == pytest.approx(8 * 10 / total)
    assert found.chosen is None and found.converted is None


def test_both_parts_answer_as_the_whole(folder: Path) -> None:
    """A picture in, classes out: TFLite on the device, ONNX on Triton, any batch."""
    typed("split m.onnx --smallest --before 0.5 --device tflite --serve triton "
          "--samples photos --labels filename --no-bench --image-mean 0.5 --image-std 0.25 "
          "--out out", folder)  # fmt: skip
    report = json.loads((folder / "out/report.json").read_text())
    made = {(item["part"], item["target"]): item["gates"] for item in report["artifacts"]}
    assert made.keys() == {("device", "tflite"), ("cloud", "onnx")}
    for gates in made.values():
        (gate,) = (gate for gate in gates if gate["name"] == "flow")
        assert gate["status"] == "passed" and gate["value"] > 0.9999
        assert gate["why"].startswith("the whole against its source: cosine: ")
    config = read_config(folder / "out/serving/triton/m-cloud/config.pbtxt")
    assert [item.name for item in config.input] == ["a"] and config.max_batch_size == 8
    whole = onnxruntime.InferenceSession(folder / "m.onnx")
    picture = Image.open(folder / "photos/1_1.png").resize((16, 16), Image.Resampling.BILINEAR)
    pixels = ((np.asarray(picture, np.float32) / 255 - 0.5) / 0.25).transpose(2, 0, 1)[None]
    with modelyard.load(folder / "out") as flow:
        for x in (pixels, np.random.default_rng(1).normal(size=(3, 3, 16, 16)).astype(np.float32)):
            (right,) = whole.run(None, {"image": x})
            np.testing.assert_allclose(flow(x)["scores"], right, atol=1e-5)
        told = flow(folder / "photos/1_1.png")
        (right,) = whole.run(None, {"image": pixels})
        np.testing.assert_allclose(told["cloud"]["scores"], right, atol=1e-5)
        assert told.keys() == {"cloud"}
    page = (folder / "out/report.html").read_text()
    assert "device, then cloud of what device gives" in page


def test_where_a_model_can_t_be_cut(tmp_path: Path) -> None:
    """A tensor goes around: two lead over, and what was asked for is told."""
    skipping(tmp_path / "s.onnx")
    said = typed("split s.onnx --at b --out out", tmp_path, code=2).err
    assert "the model can't be cut at b by 1: x, b would cross the cut" in said
    assert "Did you mean" in typed("split s.onnx --at bb", tmp_path, code=2).err
    assert "--most 2" in typed("split s.onnx --smallest --before 0.1", tmp_path, code=2).err


def test_an_input_may_lead_over_too(tmp_path: Path) -> None:
    skipping(tmp_path / "s.onnx")
    typed("split s.onnx --at b --most 2 --device tflite --no-bench --out out", tmp_path)
    report = json.loads((tmp_path / "out/report.json").read_text())
    told = [gate["why"] for item in report["artifacts"] for gate in item["gates"]
            if gate["name"] == "flow"]  # fmt: skip
    assert len(told) == 2 and all("the whole against its source" in why for why in told)
    x = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    (right,) = onnxruntime.InferenceSession(tmp_path / "s.onnx").run(None, {"x": x})
    with modelyard.load(tmp_path / "out") as flow:
        np.testing.assert_allclose(flow(x)["y"], right, atol=1e-5)
        assert [spec.name for spec in flow.parts["cloud"].inputs] == ["x_2", "b"]


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.onnx", "g (float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }")
    written(tmp_path / "b.onnx", "g (float[n, 2] z) => (float[n, 2] o) { o = Neg(z) }")
    (tmp_path / "r.yaml").write_text("""
bench: false
parts: {a: {source: a.onnx}, b: {source: b.onnx}}
flow: [a, {part: b, takes: a}]
out: out
""")
    said = typed("run r.yaml", tmp_path, code=2).err
    assert "b takes z, and a gives y" in said
    (tmp_path / "r.yaml").write_text(
        (tmp_path / "r.yaml").read_text().replace("takes: a", "takes: c")
    )
    assert "takes is c; it is one of a" in typed("run r.yaml", tmp_path, code=2).err
