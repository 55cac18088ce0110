"""What a recipe declares of users' files and answers, and what becomes of it."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from PIL import Image

import modelyard
from tests.acceptance.cli import small_cnn, typed, written

DETECTOR = """
g (float[batch, 3, 64, 64] x) => (float[batch, 4, 2] boxes, float[batch, 2, 2] scores) {
    m = GlobalAveragePool(x) f = Flatten(m) s = MatMul(f, zeros) h = MatMul(f, half)
    b = Reshape(s, shape) boxes = Add(b, places) t = Reshape(h, shorter) scores = Add(t, sure)
}"""
"""Finds two things wherever they are: a cat in the left half, a dog that is a tenth as likely."""


def detector(path: Path, *, first: tuple[float, ...] = (16, 32, 32, 32)) -> Path:
    """Finds its first thing there: the middle's x and y, width, height."""
    second = (48, 32, 8, 8)
    places = np.array([list(zip(first, second, strict=True))], np.float32)
    sure = np.array([[[0.9, 0.2], [0.1, 0.3]]], np.float32)
    arrays = {"zeros": np.zeros((3, 8), np.float32), "places": places, "sure": sure,
              "shape": np.array([-1, 4, 2]), "shorter": np.array([-1, 2, 2])}  # fmt: skip
    return written(path, DETECTOR, half=np.zeros((3, 4), np.float32), **arrays)


def test_a_detector_gives_boxes_in_the_picture_s_own_pixels(tmp_path: Path) -> None:
    detector(tmp_path / "net.onnx")
    (tmp_path / "net.yaml").write_text("""
source: net.onnx
bench: false
prepare: {kind: picture, fill: 114}
answer: {kind: boxes, output: boxes, transposed: true, scores: scores, format: cxcywh,
         labels: [cat, dog], threshold: 0.25, iou: 0.5}
out: out
""")
    with pytest.raises(modelyard.UsageError, match="output: Field required"):
        modelyard.convert(tmp_path / "net.onnx", answer={"kind": "boxes", "scores": "scores"},
                          out=tmp_path / "bad")  # fmt: skip
    typed("run net.yaml", tmp_path)
    Image.new("RGB", (200, 100)).save(tmp_path / "wide.png")
    with modelyard.load(tmp_path / "out") as net:
        first, second = net(tmp_path / "wide.png").boxes
    # 200 x 100 becomes 64 x 32, 16 rows of grey above it: x / .32, (y - 16) / .32
    assert first["label"] == "cat" and first["box"] == [0.0, 0.0, 100.0, 100.0]
    assert second["label"] == "dog" and second["box"] == [137.5, 37.5, 162.5, 62.5]
    page = (tmp_path / "out/report.html").read_text()
    assert "Boxes of boxes" in page and "2 names" in page


@pytest.mark.parametrize(("said", "told"), [
    ("prepare: {kind: photo}", "kind is 'photo'; it is one of picture, text, sound, row, constant"),
    ("prepare: {kind: picture, men: 3}", "no such key men; did you mean mean?"),
    ("prepare: {kind: picture, interpolation: cubic}", "interpolation"),
    ("answer: {kind: classes, output: nothing}", "the model has no nothing; it has scores"),
    ("answer: {kind: series}", "rate: Field required"),
    ("answer: [1]", "answer"),
])  # fmt: skip
def test_what_is_declared_wrongly_is_told(tmp_path: Path, said: str, told: str) -> None:
    small_cnn(tmp_path / "m.onnx")
    (tmp_path / "r.yaml").write_text(f"source: m.onnx\nbench: false\nout: out\n{said}\n")
    assert told in typed("run r.yaml", tmp_path, code=2).err
    assert not (tmp_path / "out").exists()


def test_what_is_written_counts_more_and_both_are_shown(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    modelyard.convert(
        tmp_path / "m.onnx", bench=False, out=tmp_path / "out", image_mean=0.5, image_std=0.25,
        prepare={"kind": "picture", "mean": 0.4, "color": "bgr"},
        answer={"kind": "classes", "top": 2},
    )  # fmt: skip
    declared = json.loads((tmp_path / "out/manifest.json").read_text())["declared"]
    (picture,) = declared["prepare"]
    assert picture["mean"] == [0.4] * 3 and picture["std"] == [0.25] * 3
    assert picture["color"] == "bgr" and picture["height"] == 16
    assert any("mean is" in note and "0.5" in note for note in declared["notes"])
    Image.new("RGB", (20, 20), (200, 100, 50)).save(tmp_path / "a.png")
    with modelyard.load(tmp_path / "out") as net:
        given = net(tmp_path / "a.png")
        x = ((np.full((16, 16, 3), (50, 100, 200)) / 255 - 0.4) / 0.25).transpose(2, 0, 1)
        np.testing.assert_allclose(given["scores"], net(x[None].astype(np.float32))["scores"],
                                   atol=1e-5)  # fmt: skip
        assert len(given.classes) == 2


SOUND = """g (float[windows, 8] x, float[1, 1] bias) => (float[windows] y) {
    m = ReduceMean<keepdims = 0, axes = [1]>(x) b = Squeeze(bias) y = Add(m, b) }"""


def test_a_stereo_sound_of_another_rate_becomes_windows(tmp_path: Path) -> None:
    written(tmp_path / "s.onnx", SOUND)
    prepare = [{"kind": "sound", "input": "x", "rate": 16000, "length": 8, "hop": 6, "before": 2},
               {"kind": "constant", "input": "bias", "shape": [1, 1], "value": 2}]  # fmt: skip
    answer = {"kind": "series", "rate": 16000 / 6, "name": "level"}
    modelyard.convert(tmp_path / "s.onnx", bench=False, out=tmp_path / "out", prepare=prepare,
                      dims={"windows": 3}, answer=answer)  # fmt: skip
    rng = np.random.default_rng(0)
    wave = rng.standard_normal((4800, 2)).astype(np.float32) / 8
    soundfile.write(tmp_path / "a.wav", wave, 48000, subtype="FLOAT")
    with modelyard.load(tmp_path / "out") as net:
        answer = net(tmp_path / "a.wav")
        with pytest.raises(modelyard.UsageError, match="can't be read as a sound"):
            net(b"RIFF but no sound")
    mono = soxr.resample(wave.mean(axis=1), 48000, 16000, quality="HQ")
    padded = np.concatenate([np.zeros(2), mono, np.zeros(8)])
    right = [padded[i : i + 8].mean() + 2 for i in range(0, len(mono), 6)]
    np.testing.assert_allclose(answer.told["level"]["values"], right, atol=1e-6)
    np.testing.assert_allclose(answer["y"], right, atol=1e-6)


def test_rows_of_a_table_become_inputs(tmp_path: Path) -> None:
    text = """g (float[batch, 2] size, int64[batch, 1] age) => (float[batch, 1] y) {
        a = Cast<to = 1>(age) s = ReduceSum<keepdims = 1>(size, axis) y = Mul(a, s) }"""
    written(tmp_path / "t.onnx", text, axis=np.array([1]))
    row = {"kind": "row", "inputs": [
        {"name": "size", "columns": ["height", "width"], "dtype": "float32"},
        {"name": "age", "columns": ["age"], "dtype": "int64"},
    ]}  # fmt: skip
    modelyard.convert(tmp_path / "t.onnx", bench=False, out=tmp_path / "out", prepare=row,
                      answer={"kind": "numbers", "names": ["price"], "unit": "EUR"})  # fmt: skip
    (tmp_path / "a.csv").write_text("age,name,width,height\n2,x,1,2.5\n3,y,1,1\n")
    with modelyard.load(tmp_path / "out") as net:
        told = net(tmp_path / "a.csv").told
        assert told == {"numbers": [{"price": 7.0}, {"price": 6.0}], "unit": "EUR"}
        (tmp_path / "b.csv").write_text("age,width\n2,1\n")
        with pytest.raises(modelyard.UsageError, match="lacks the columns height"):
            net(tmp_path / "b.csv")


def test_that_nobody_said_what_pictures_are_is_told(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (20, 20), (200, 100, 50)).save(tmp_path / "photos/0.png")
    told = "the source doesn't say how the model was trained"
    for options, there in (("", True), ("--image-mean imagenet", False)):
        typed(
            f"convert m.onnx --no-bench --samples photos {options} --out out --overwrite", tmp_path
        )
        assert (told in unescape((tmp_path / "out/report.html").read_text())) == there


def test_files_and_usage_prepare_as_written(tmp_path: Path) -> None:
    """A recipe's mean is Core ML's bias, checked on pictures, and usage.py's."""
    small_cnn(tmp_path / "m.onnx")
    (tmp_path / "photos").mkdir()
    for number in range(2):
        Image.new("RGB", (20, 20), (200, 100, number)).save(tmp_path / f"photos/{number}.png")
    modelyard.convert(
        tmp_path / "m.onnx", to=["tflite", "coreml"], samples=tmp_path / "photos", bench=False,
        prepare={"kind": "picture", "mean": [0.4, 0.5, 0.6], "std": 0.25, "color": "bgr"},
        coreml_images=["image"], out=tmp_path / "out",
    )  # fmt: skip
    usage = (tmp_path / "out/tflite/fp32/usage.py").read_text()
    assert "[0.4, 0.5, 0.6]) / [0.25, 0.25, 0.25]" in usage and "[..., ::-1]" in usage


def test_a_manifest_that_declares_nothing_right(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    modelyard.convert(tmp_path / "m.onnx", bench=False, out=tmp_path / "out",
                      prepare={"kind": "picture"})  # fmt: skip
    file = tmp_path / "out/manifest.json"
    said = json.loads(file.read_text())
    said["declared"]["prepare"][0]["color"] = "mauve"
    file.write_text(json.dumps(said))
    with pytest.raises(modelyard.UsageError, match="holds a declaration that isn't valid"):
        modelyard.load(tmp_path / "out")
