"""Metrics over whole sets against libraries' own, and through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import spearmanr
from sklearn.metrics import f1_score, jaccard_score

from converter.check.answer_metrics import edits
from converter.check.task_metrics import load_metric
from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.preparation.staged.base import Seen
from converter.samples import Sample
from converter.samples.labels import MaskFile
from tests.acceptance.cli import typed
from tests.acceptance.test_prepare import detector

RNG = np.random.default_rng(0)


def total(name: str, pairs: list[tuple[np.ndarray, object]], **known: object) -> float:
    metric = load_metric(name, None, **known)  # type: ignore[arg-type]
    notes = [metric.note({"y": out}, Sample("s", {}, label)) for out, label in pairs]
    return metric.total(notes)


def test_f1_and_spearman_are_their_libraries() -> None:
    right = RNG.integers(0, 4, 50)
    scores = RNG.standard_normal((50, 5)) + 1.5 * np.eye(5)[right]
    pairs = [(row[None], int(label)) for row, label in zip(scores, right, strict=True)]
    wanted = f1_score(right, scores.argmax(axis=1), average="macro")
    assert total("f1", pairs) == pytest.approx(wanted)
    labels = RNG.integers(0, 6, 50)  # many tie
    found = labels + RNG.standard_normal(50)
    numbers = [(np.array([[x]]), float(y)) for x, y in zip(found, labels, strict=True)]
    assert total("spearman", numbers) == pytest.approx(spearmanr(found, labels).statistic)
    with pytest.raises(UsageError, match="isn't a number"):
        total("spearman", [(np.ones((1, 1)), "five")])


def test_edits() -> None:
    assert edits("kitten", "sitting") == 3 and edits("", "abc") == 3 and edits("abc", "") == 3
    assert edits(["the", "cat"], ["the", "black", "cat"]) == 1


def spelled(text: str) -> np.ndarray:
    """What CTC reads as this text: a blank after each letter."""
    steps = [i for letter in text for i in (LETTERS.index(letter), 0)]
    return np.eye(len(LETTERS), dtype=np.float32)[None, steps]


LETTERS = ["-", *"abcd 17"]


def test_error_rates_count_all_edits_over_all_letters() -> None:
    known = {
        "answer": [{"kind": "text", "letters": LETTERS}],
        "outputs": [TensorSpec("y", "float32", (1, "t", len(LETTERS)))],
    }
    pairs = [(spelled("ab cd"), "ab cd"), (spelled("abd"), "abcd"), (spelled("17"), 17)]
    assert total("cer", pairs, **known) == pytest.approx(1 / 11)
    assert total("wer", pairs, **known) == pytest.approx(1 / 4)
    with pytest.raises(UsageError, match="needs an answer of the kind text"):
        load_metric("cer", None, [], known["outputs"])  # type: ignore[arg-type]


def test_masks_are_compared_at_their_own_size(tmp_path: Path) -> None:
    """A picture of 40 x 20 became 32 x 16 in the middle of 32 x 32; the output is 8 x 8."""
    found = RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)
    mask = RNG.integers(0, 3, (20, 40)).astype(np.uint8)
    mask[:2] = 255
    Image.fromarray(mask).save(tmp_path / "a.png")
    feeds = {"x": np.zeros((1, 3, 32, 32), np.float32)}
    seen = Seen((40, 20), (0.8, 0.8), (0, 8), feeds=feeds)
    sample = Sample("a", feeds, MaskFile(tmp_path / "a.png"), seen)
    outputs = [TensorSpec("y", "float32", (1, 3, 8, 8))]
    metric = load_metric("miou", None, [{"kind": "masks"}], outputs)
    large = found[0].argmax(axis=0).repeat(4, axis=0).repeat(4, axis=1)[8:24]
    own = np.asarray(Image.fromarray(large.astype(np.uint8)).resize((40, 20), 0))
    right = mask != 255
    wanted = jaccard_score(mask[right], own[right], average="macro")
    value = metric.total([metric.note({"y": found}, sample)])
    assert value == pytest.approx(wanted, abs=1e-12)


def test_a_detector_is_held_to_its_map(tmp_path: Path) -> None:
    """The source's boxes are those of every picture."""
    detector(tmp_path / "net.onnx")
    (tmp_path / "photos").mkdir()
    images, boxes = [], []
    for number in range(8):
        name = f"{number}.png"
        Image.fromarray(RNG.integers(0, 256, (100, 200, 3), np.uint8)).save(
            tmp_path / "photos" / name
        )
        images.append({"id": number, "file_name": name, "width": 200, "height": 100})
        for category, box in ((7, [0, 0, 100, 100]), (9, [137.5, 37.5, 25, 25])):
            boxes.append({"id": len(boxes), "image_id": number, "category_id": category,
                          "bbox": box, "area": box[2] * box[3], "iscrowd": 0})  # fmt: skip
    categories = [{"id": 7, "name": "cat"}, {"id": 9, "name": "dog"}]
    coco = {"images": images, "annotations": boxes, "categories": categories}
    (tmp_path / "right.json").write_text(json.dumps(coco))
    (tmp_path / "net.yaml").write_text("""
source: net.onnx
bench: false
samples: photos
labels: right.json
metric: map
prepare: {kind: picture, fill: 114}
answer: {kind: boxes, output: boxes, transposed: true, scores: scores, format: cxcywh,
         labels: [cat, dog], iou: 0.5}
""")
    said = typed("run net.yaml --out out", tmp_path)
    assert "map" in said.out
    (metric,) = json.loads((tmp_path / "out/report.json").read_text())["artifacts"][0]["metrics"]
    assert metric["source"] == metric["candidate"] == pytest.approx(100)
    coco["annotations"] = boxes[::2]  # a dog that nobody labelled is no class of theirs
    (tmp_path / "right.json").write_text(json.dumps(coco))
    typed("run net.yaml --out out --overwrite", tmp_path)
    line = "--against net.onnx --samples photos --labels right.json --metric map"
    typed(f"check out {line}", tmp_path)  # which says itself what its outputs mean
    (tmp_path / "out/onnx/fp32/model.onnx").rename(tmp_path / "alone.onnx")
    said = typed(f"check alone.onnx {line}", tmp_path, code=2)
    assert "needs an answer of the kind boxes" in said.err
