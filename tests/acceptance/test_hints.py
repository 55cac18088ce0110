"""Hints: what one says to do works, and nothing then calls it without effect."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.acceptance.cli import command, small_cnn, typed, written

QUICK = "--no-simplify"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with a free batch, one of a batch of two, one whose output is of all together,
    and samples."""
    made = tmp_path_factory.mktemp("hints")
    text = "g (float[{}, 3] x) => (float[{}, 4] y) {{ y = MatMul(x, w) }}"
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    for name, batch in (("free", "batch"), ("two", "2")):
        written(made / f"{name}.onnx", text.format(batch, batch), w=weights)
    text = "g (float[batch, 3] x) => (float y) { y = ReduceSum<keepdims = 0>(x) }"
    written(made / "all.onnx", text)
    np.savez(made / "few.npz", x=np.ones((3, 3), np.float32))
    (made / "repository").mkdir()
    return made


@pytest.mark.parametrize(("line", "hinted", "more"), [
    ("free.onnx --precision fp16 --samples few.npz --no-bench", "--few-samples", ""),
    ("free.onnx --precision int8 --samples few.npz --no-bench", "--few-samples", ""),
    ("two.onnx --serve triton --no-bench --max-batch 4", "--batch", "dynamic"),
    ("all.onnx --serve litserve --no-bench --max-batch 4", "--max-batch", "0"),
    ("free.onnx --max-latency 900 --bench-seconds 0.05 --bench-batch 8", "--bench-batch", "1"),
    ("free.onnx --io-dtype float16 --samples random:8 --no-bench", "--precision", "fp16"),
    ("free.onnx --repository repository --no-bench", "--serve", "triton"),
])  # fmt: skip
def test_what_a_hint_asks_for_works(
    folder: Path, tmp_path: Path, line: str, hinted: str, more: str
) -> None:
    said = typed(f"convert {line} {QUICK} --out {tmp_path / 'a'}", folder, 2)
    assert hinted in said.err
    line = line.split(f" {hinted} ")[0]  # of two values, the last would count
    again = typed(f"convert {line} {hinted} {more} {QUICK} --out {tmp_path / 'b'}", folder)
    assert "without effect" not in " ".join((again.out + again.err).split())


@pytest.mark.parametrize("given", ["", "--batch dynamic"])
def test_batch_dynamic_is_not_asked_for_where_it_is(
    folder: Path, tmp_path: Path, given: str
) -> None:
    line = f"convert all.onnx {given} --serve litserve --max-batch 4 --no-bench {QUICK}"
    said = typed(f"{line} --out {tmp_path / 'out'}", folder, 2)
    assert "--max-batch 0" in said.err and "--batch dynamic" not in said.err


@pytest.mark.parametrize(("labels", "says"), [
    ("filename", "--labels filename: 1 of 3 files have no label"),
    ("folder", "--labels folder: 3 of 3 files have no label"),
    ("labels.csv", "--labels labels.csv: 2 of 3 files have no label"),
    ("none.csv", "--labels none.csv: there is no such file"),
])  # fmt: skip
def test_files_without_a_label_are_refused_before_anything_is_read(
    tmp_path: Path, labels: str, says: str
) -> None:
    """The pictures hold nothing, and no runtime has the model's operator."""
    (tmp_path / "photos").mkdir()
    for name in ("0", "cat_1", "dog"):
        (tmp_path / "photos" / f"{name}.png").touch()
    (tmp_path / "labels.csv").write_text("file,label\n0.png,0\n")
    text = "g (float[batch, 3, 8, 8] x) => (float[batch, 4] y) { y = com.microsoft.Nothing(x) }"
    written(tmp_path / "net.onnx", text)
    line = ("convert", "net.onnx", "--samples", "photos", "--labels", labels, "--out", "out")
    for how in ("--dry-run", "--no-bench"):
        assert says in command(*line, how, cwd=tmp_path, code=2).err
    (tmp_path / "photos" / "dog.png").rename(tmp_path / "photos" / "2.png")
    if labels == "filename":
        command(*line, "--dry-run", cwd=tmp_path, code=0)
        assert "Nothing" in command(*line, "--no-bench", cwd=tmp_path, code=3).err


def test_small_pictures_are_told_once(tmp_path: Path) -> None:
    small_cnn(tmp_path / "net.onnx")
    (tmp_path / "photos").mkdir()
    for side in (5, 8, 40):
        Image.new("RGB", (side, side), "red").save(tmp_path / f"photos/{side}.png")
    line = ("convert", "net.onnx", "--samples", "photos", "--to", "onnx,tflite", "--no-bench")
    said = command(*line, cwd=tmp_path, code=0)
    note = (
        "PICTURES ARE ENLARGED: 1 of 3 to more than 2 times their height or width. "
        "The smallest is 5x5 pixels, and the model's input is 16x16"
    )
    assert " ".join(said.out.split()).count(note) == 1
