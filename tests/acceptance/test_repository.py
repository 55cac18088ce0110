"""``--repository`` adds the next version and touches none that is there."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import modelyard, small_cnn, tree


def convert(folder: Path, out: str, *args: str) -> int:
    said = modelyard(
        "convert", "model.onnx", "--serve", "triton", "--repository", "models", "--name", "net",
        "--no-bench", "--samples", "random:2", "--out", out, *args, cwd=folder,
    ).no_traceback()  # fmt: skip
    return said.code


def test_versions_add_up(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    assert convert(tmp_path, "a") == 0
    first = tree(tmp_path / "models" / "net" / "1")
    config = (tmp_path / "models" / "net" / "config.pbtxt").read_bytes()
    small_cnn(tmp_path / "model.onnx", channels=16)
    assert convert(tmp_path, "b") == 0
    assert tree(tmp_path / "models" / "net" / "1") == first
    assert tree(tmp_path / "models" / "net" / "2") != first
    assert (tmp_path / "models" / "net" / "config.pbtxt").read_bytes() == config
    assert sorted(p.name for p in (tmp_path / "models").iterdir()) == ["net"]


def test_another_interface_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    assert convert(tmp_path, "a") == 0
    before = tree(tmp_path / "models")
    assert convert(tmp_path, "b", "--max-batch", "4") == 2
    assert tree(tmp_path / "models") == before
    assert not (tmp_path / "b").exists()
