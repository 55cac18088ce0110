"""Where a declaration is from: command line, recipe, the model's files, the zoo, in this order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from PIL import Image

import modelyard
from modelyard.containers.tflite import pack, unpack
from tests.acceptance.cli import typed, written
from zoo import catalogue
from zoo.entry import Entry

DETECTOR = """
g (float[1, 3, 8, 8] images) => (float[1, 7, 2] out) {
    m = GlobalAveragePool(images) a = Squeeze<axes = [3]>(m) l = ReduceMean<axes = [1]>(a)
    c = Concat<axis = 1>(a, a, l) out = Concat<axis = 2>(c, c)
}"""
METADATA = {"task": "detect", "names": "{0: 'a', 1: 'b', 2: 'c'}", "stride": "32"}

CLASSIFIER = """
g (float[n, 3, 8, 8] images) => (float[n, 3] out) {
    m = GlobalAveragePool(images) out = Flatten(m)
}"""


def detector(path: Path) -> Path:
    """A file whose metadata says how pictures become its input: letterboxed, values of 0 to 1."""
    model = onnx.load(written(path, DETECTOR, opset=11))
    onnx.helper.set_model_props(model, METADATA)
    onnx.save(model, path)
    return path


def declared(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_text())["declared"]


def test_an_option_counts_more_than_the_recipe_and_the_model_s_file(tmp_path: Path) -> None:
    detector(tmp_path / "m.onnx")
    Image.new("RGB", (9, 9), (200, 100, 50)).save(tmp_path / "a.png")
    recipe = {"source": "m.onnx", "samples": "a.png", "bench": False, "out": str(tmp_path / "out"),
              "prepare": {"kind": "picture", "mean": 0.4, "std": 0.5}}  # fmt: skip
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
    modelyard.run_recipe(tmp_path / "r.yaml", image_mean="0.3")
    found = declared(tmp_path / "out")
    (picture,) = found["prepare"]
    assert (picture["mean"], picture["std"], picture["fill"]) == ([0.3] * 3, [0.5] * 3, 114)
    told = "\n".join(found["notes"])
    assert "mean is (0.3, 0.3, 0.3), and (0.4, 0.4, 0.4) by the recipe" in told
    assert "std is 0.5 as written, and (1.0, 1.0, 1.0) without that" in told
    typed("convert m.onnx --samples a.png --no-bench --image-std 0.2 --out two", tmp_path)
    found = declared(tmp_path / "two")
    assert found["prepare"][0]["std"] == [0.2] * 3 and found["prepare"][0]["fill"] == 114
    assert any("std is (0.2, 0.2, 0.2), and (1.0" in note for note in found["notes"])


def test_a_model_s_file_counts_more_than_the_zoo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector(tmp_path / "m.onnx")
    entry = Entry.model_validate({
        "title": "Finds", "task": "detection", "framework": "onnx", "licence": "MIT",
        "model": {"source": str(tmp_path / "m.onnx")},
        "preprocessing": {"mean": [0.5, 0.5, 0.5], "interpolation": "nearest"},
        "answer": [{"kind": "boxes", "output": "out", "threshold": 0.4, "most": 7}],
    })  # fmt: skip
    monkeypatch.setattr(catalogue, "_load", lambda: {"finds": entry})
    modelyard.convert("zoo:finds", bench=False, out=tmp_path / "out")
    found = declared(tmp_path / "out")
    (picture,), (boxes,) = found["prepare"], found["answer"]
    assert (picture["mean"], picture["interpolation"]) == ([0.0] * 3, "nearest")
    assert (boxes["threshold"], boxes["most"], boxes["labels"]) == (0.25, 7, ["a", "b", "c"])
    told = "\n".join(found["notes"])
    assert "mean is (0.0, 0.0, 0.0), and (0.5, 0.5, 0.5) by zoo:finds" in told
    assert "threshold is 0.25, and 0.4 by zoo:finds" in told
    assert "from zoo:finds" not in told  # since the file says both
    modelyard.convert("zoo:finds", bench=False, out=tmp_path / "own", image_mean=0.1,
                      answer={"kind": "boxes", "most": 3})  # fmt: skip
    found = declared(tmp_path / "own")
    assert found["prepare"][0]["mean"] == [0.1] * 3
    assert (found["answer"][0]["threshold"], found["answer"][0]["most"]) == (0.25, 3)


def test_tflite_metadata_says_what_a_file_takes_and_tells(tmp_path: Path) -> None:
    """Written by ourselves, and read again; where it is damaged, that is told."""
    written(tmp_path / "m.onnx", CLASSIFIER)
    Image.new("RGB", (9, 9), (200, 100, 50)).save(tmp_path / "a.png")
    modelyard.convert(
        tmp_path / "m.onnx", to=["tflite"], bench=False, out=tmp_path / "out",
        samples=tmp_path / "a.png",
        prepare={"kind": "picture", "mean": [0.4, 0.5, 0.6], "std": 0.25, "color": "bgr"},
        answer={"kind": "classes", "labels": ["cat", "dog", "cow"]},
    )  # fmt: skip
    file = next((tmp_path / "out").rglob("*.tflite"))
    modelyard.convert(file, bench=False, out=tmp_path / "again")
    found = declared(tmp_path / "again")
    (picture,), (classes,) = found["prepare"], found["answer"]
    assert picture["color"] == "bgr" and classes["labels"] == ["cat", "dog", "cow"]
    np.testing.assert_allclose(picture["mean"], np.array([0.4, 0.5, 0.6]) * 255, rtol=1e-6)
    np.testing.assert_allclose(picture["std"], [0.25 * 255] * 3, rtol=1e-6)
    assert "prepare (picture): from the file's metadata" in found["notes"]
    answers = []
    for folder in ("out", "again"):
        with modelyard.load(tmp_path / folder) as net:
            answers.append(net(tmp_path / "a.png").classes)
    for one, other in zip(*answers, strict=True):
        assert one.label == other.label and one.score == pytest.approx(other.score)

    source = unpack(file.read_bytes(), file.name)
    (item,) = [item for item in source.metadata if item.name == b"TFLITE_METADATA"]
    stored = np.array(source.buffers[item.buffer].data)
    stored[8:] = 255
    source.buffers[item.buffer].data = stored
    (tmp_path / "bad.tflite").write_bytes(pack(source, "bad"))
    modelyard.convert(tmp_path / "bad.tflite", bench=False, out=tmp_path / "bad",
                      samples=tmp_path / "a.png")  # fmt: skip
    assert any("metadata can't be read" in note for note in declared(tmp_path / "bad")["notes"])
