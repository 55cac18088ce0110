"""What exporters wrote in a file's metadata says how pictures are prepared and what is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

import modelyard
from tests.acceptance.cli import typed, written
from zoo import catalogue


def with_metadata(path: Path, **said: str) -> None:
    proto = onnx.load(path)
    onnx.helper.set_model_props(proto, said)
    onnx.save(proto, path)


def declared(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())["declared"]
    return found


PLACES = np.array([[[16, 48], [32, 32], [32, 8], [32, 8], [0.9, 0.1], [0.2, 0.8]]], np.float32)


@pytest.mark.parametrize("newer", [True, False])
def test_a_detector_of_ultralytics_kind(tmp_path: Path, newer: bool) -> None:
    """[1, 4 + classes, boxes], or before that [1, boxes, 5 + classes] with the object's own."""
    rows = PLACES if newer else np.insert(PLACES, 4, 1, axis=1).transpose(0, 2, 1).copy()
    shape = ", ".join(map(str, rows.shape))
    written(
        tmp_path / "net.onnx",
        f"""g (float[1, 3, 64, 64] images) => (float[{shape}] output0) {{
        m = ReduceMean<keepdims = 0>(images) z = Sub(m, m) output0 = Add(z, rows) }}""",
        rows=rows,
    )
    said = {
        "stride": "32",
        "names": "{0: 'cat', 1: 'dog'}",
        **({"task": "detect"} if newer else {}),
    }
    with_metadata(tmp_path / "net.onnx", **said)
    Image.new("RGB", (200, 100)).save(tmp_path / "wide.png")
    typed("convert net.onnx --samples wide.png --no-bench --out out", tmp_path)
    (picture,), notes = declared(tmp_path / "out")["prepare"], declared(tmp_path / "out")["notes"]
    assert (picture["fill"], picture["height"], picture["scale"]) == (114, 64, 1 / 255)
    assert "answer (boxes): from the file's metadata: names" in notes
    with modelyard.load(tmp_path / "out") as net:
        first, second = net(tmp_path / "wide.png").boxes
    assert (first["label"], first["box"]) == ("cat", [0.0, 0.0, 100.0, 100.0])
    assert (second["label"], second["box"]) == ("dog", [137.5, 37.5, 162.5, 62.5])


def test_what_is_told_otherwise_is_noted(tmp_path: Path) -> None:
    written(tmp_path / "net.onnx", "g (float[1, 8] x) => (float[1, 8] y) { y = Neg(x) }")
    with_metadata(tmp_path / "net.onnx", stride="32", names="{0: 'cat', 1: 'dog'}", task="pose")
    made = modelyard.convert(tmp_path / "net.onnx", bench=False, out=tmp_path / "out",
                             answer={"kind": "numbers"})  # fmt: skip
    assert made.report is not None
    assert any("how pose is read" in note for note in declared(tmp_path / "out")["notes"])


@pytest.mark.slow
def test_a_line_of_text_is_read(tmp_path: Path) -> None:
    """PP-OCRv4's own alphabet lies in its file."""
    from PIL import ImageDraw, ImageFont

    line = Image.new("RGB", (320, 48), "white")
    font = ImageFont.load_default(size=34)
    ImageDraw.Draw(line).text((8, 2), "Hello 2026", fill="black", font=font)
    line.save(tmp_path / "line.png")
    assert catalogue.find("pp-ocrv4-rec")
    typed("convert zoo:pp-ocrv4-rec --samples line.png --no-bench --out out", tmp_path)
    assert (
        "answer (text): from the file's metadata: character" in declared(tmp_path / "out")["notes"]
    )
    with modelyard.load(tmp_path / "out") as net:
        answer = net(tmp_path / "line.png")
    assert answer.text == "Hello 2026" and answer.told["score"] > 0.8
