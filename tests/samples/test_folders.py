"""A folder a class, and files that can't be read."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.acceptance.cli import modelyard, small_cnn
from tests.samples.conftest import Load, Refuse, spec

IMAGE = spec("image", "batch", 3, 16, 16)


def photos(folder: Path, *names: str) -> Path:
    """Small images of noise."""
    rng = np.random.default_rng(0)
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(place)
    return folder


@pytest.mark.parametrize(("folders", "classes", "labels"), [
    (["cow", "ant", "bee"], None, {"ant": 0, "bee": 1, "cow": 2}),
    (["cow", "ant"], ["cow", "bee", "ant"], {"cow": 0, "ant": 2}),
    (["10", "2"], None, {"10": 10, "2": 2}),  # as text, 10 would come first
])  # fmt: skip
def test_a_folder_a_class(
    folders: list[str], classes: list[str] | None, labels: dict[str, int], load: Load
) -> None:
    photos(Path("p"), *(f"{name}/{i}.png" for name in folders for i in range(2)))
    Path("names.txt").write_text("\n".join(classes or []))
    found = load("p", IMAGE, labels="folder", **({"label_names": "names.txt"} if classes else {}))
    assert {sample.name: sample.label for sample in found} == {
        f"{name}/{i}.png": label for name, label in labels.items() for i in range(2)
    }


def test_folders_that_are_no_classes(refuse: Refuse) -> None:
    folder = photos(Path("p"), "cat/a.png", "b.png")
    refuse(folder, IMAGE, labels="folder", says=("1 of 2 files have no label", "b.png"))
    Path("names.txt").write_text("dog\ncow\n")
    options = {"labels": "folder", "label_names": "names.txt"}
    says = "cat isn't one of the model's classes", "dog, cow"
    refuse(photos(Path("q"), "cat/a.png"), IMAGE, **options, says=says)


def test_as_many_folders_as_the_model_has_classes(tmp_path: Path) -> None:
    """Three folders of a model with ten classes: their indices would be other classes'."""
    photos(tmp_path / "p", "ant/a.png", "bee/a.png", "cow/a.png")
    options = ("--labels", "folder", "--no-bench", "--out", tmp_path / "out")
    model = small_cnn(tmp_path / "m.onnx")
    said = modelyard("convert", model, "--samples", tmp_path / "p", *options)
    assert said.code == 2
    assert "has 3 class names, and no output has that many values" in said.err


def test_what_can_not_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    folder = photos(tmp_path / "p", *(f"{i}.png" for i in range(3)))
    (folder / "1.png").write_bytes(b"no image")
    options = ("--samples", folder, "--no-bench", "--out", tmp_path / "out")
    said = modelyard("convert", small_cnn(tmp_path / "m.onnx"), *options)
    assert said.code == 2
    assert "1.png can't be read" in said.err and "--skip-bad" in said.err
    said = modelyard("convert", tmp_path / "m.onnx", *options, "--skip-bad")
    assert said.code == 0, said.err
    assert "1 SAMPLE LEFT OUT (--skip-bad): 1.png can't be read" in said.out.replace("\n", " ")
    assert "Checked on 2 samples" in said.out


def test_nothing_is_left(refuse: Refuse) -> None:
    for name in ("a.png", "b.png"):
        Path(name).write_bytes(b"no image")
    refuse(".", IMAGE, skip_bad=True, says=("none of the samples can be read", "a.png"))


def test_arrays_that_can_not_be_read(load: Load) -> None:
    np.savez("a.npz", image=np.zeros((1, 3, 16, 16), np.float32))
    Path("b.npz").write_bytes(Path("a.npz").read_bytes()[:200])
    found = load(".", IMAGE, skip_bad=True)
    assert [sample.name for sample in found] == ["a.npz"]
    assert [text.partition(" ")[0] for text in found.skipped] == ["b.npz"]
