"""Engines told by their first bytes; damaged ones."""

from pathlib import Path

import pytest

from converter.errors import ModelError
from emitters.tensorrt.emitter import TensorrtEmitter, TensorrtRtxEmitter
from emitters.tensorrt.plan_header import read_header, require_version, target_of


def plan(magic: bytes, version: tuple[int, ...], size: int = 64, said: int | None = None) -> bytes:
    """A file that begins as an engine does."""
    length = (size if said is None else said).to_bytes(8, "little")
    head = magic + bytes(4) + (2).to_bytes(8, "little") + length + bytes(version) + magic
    return (head + bytes([0b10101])).ljust(size, b"\0")


def test_targets_versions_and_capabilities(tmp_path: Path) -> None:
    file = tmp_path / "model.plan"
    file.write_bytes(plan(b"vtrt", (1, 7, 1, 116)))
    header = read_header(file)
    assert (header.target, header.version) == ("tensorrt-rtx", "1.7.1.116")
    assert header.compute_capabilities == ("7.5", "8.6", "12.0")
    assert TensorrtRtxEmitter().sniff(file) and not TensorrtEmitter().sniff(file)
    file.write_bytes(plan(b"ftrt", (10, 16, 1, 11)))
    assert (read_header(file).target, read_header(file).version) == ("tensorrt", "10.16.1.11")
    assert TensorrtEmitter().sniff(file) and not TensorrtRtxEmitter().sniff(file)


def test_what_is_no_engine_or_a_part_of_one(tmp_path: Path) -> None:
    assert target_of(tmp_path) == ""
    assert target_of(tmp_path / "absent") == ""
    file = tmp_path / "x"
    file.write_bytes(b"PK\x03\x04")
    assert target_of(file) == ""
    with pytest.raises(ModelError, match="isn't an engine"):
        read_header(file)
    for cut in (8, 40):
        file.write_bytes(plan(b"vtrt", (1, 7, 1, 116))[:cut])
        with pytest.raises(ModelError, match="damaged"):
            read_header(file)


def test_one_of_another_version(tmp_path: Path) -> None:
    file = tmp_path / "model.plan"
    file.write_bytes(plan(b"vtrt", (1, 6, 0, 40)))
    with pytest.raises(
        ModelError, match=r"model.plan was built by tensorrt-rtx 1.6.0.40, but 1.7.1"
    ):
        require_version(read_header(file), "1.7.1.116", file.name)
    file.write_bytes(plan(b"vtrt", (1, 7, 1, 100)))
    require_version(read_header(file), "1.7.1.116", file.name)
