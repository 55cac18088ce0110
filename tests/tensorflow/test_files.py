"""What TensorFlow's files are told apart by, without TensorFlow."""

from io import BytesIO
from pathlib import Path

import pytest

from converter.options.request import Request
from parsers.onnx.parser import OnnxParser
from parsers.tensorflow import files
from parsers.tensorflow.parser import TensorFlowParser
from tests.parsers_onnx.files import RELU, model


def field(number: int, content: bytes) -> bytes:
    """A field with a length, below 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


NODE = field(1, b"x") + field(2, b"Placeholder") + field(5, field(1, b"dtype"))
GRAPH = field(1, NODE) + field(1, field(1, b"y") + field(2, b"Relu") + field(3, b"x"))
META = field(1, field(4, b"serve")) + field(2, GRAPH) + field(3, field(3, b"save/restore_all"))


@pytest.mark.parametrize(("name", "content", "kind"), [
    ("frozen.pb", GRAPH, files.GRAPH),
    ("renamed.bin", GRAPH + field(4, b"\x08\x1b"), files.GRAPH),
    ("net.meta", META, files.CHECKPOINT),
    ("graph.pbtxt", b'node {\n  name: "x"\n}\n', files.GRAPH),
    ("labels.pbtxt", b"item {\n  id: 1\n}\n", ""),
    ("saved_model.pb", b"\x08\x01", files.SAVED_MODEL),
    ("net.ckpt.index", b"", files.WEIGHTS),
    ("net.ckpt.data-00000-of-00002", b"", files.WEIGHTS),
    ("checkpoint", b"", files.WEIGHTS),
    ("model.pb", model(RELU).SerializeToString(), ""),
    ("text.pb", b"node: this is no protobuf", ""),
    ("cut.pb", GRAPH[:-3], ""),
    ("empty.pb", b"", ""),
])  # fmt: skip
def test_kinds_by_content(name: str, content: bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert files.kind_of(path) == kind
    assert TensorFlowParser().sniff(str(path)) == bool(kind)
    assert not kind or not OnnxParser().sniff(str(path))
    assert OnnxParser().sniff(str(path)) or name != "model.pb"


def test_all_files_of_a_folder_are_in_the_key(tmp_path: Path) -> None:
    folder = tmp_path / "Bird-Net" / "1"
    names = ["saved_model.pb", "variables/variables.index", "assets/words.txt"]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\x08\x01")
    identity = TensorFlowParser().identify(Request(source=str(folder)))
    assert list(identity.files) == names
    assert identity.name == "bird_net"
    assert {"tf2onnx", "onnx"} < set(identity.versions)
    assert TensorFlowParser().identify(Request(source=str(folder / names[0]))) == identity


def test_the_newest_checkpoint_of_a_folder(tmp_path: Path) -> None:
    for step in (5, 10):
        (tmp_path / f"net-{step}.meta").write_bytes(META)
    assert files.newest_meta(tmp_path) is None
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/gone/net-5"\n')
    assert files.newest_meta(tmp_path) == tmp_path / "net-5.meta"
    assert files.kind_of(tmp_path) == files.CHECKPOINT


@pytest.mark.parametrize("content", [
    b"\x0b\x01", b"\x0d\x01\x02\x03\x04", b"\x0a", b"\x0a\x05ab", b"\xff\xff",
], ids=["group", "four bytes", "no length", "cut short", "no number"])  # fmt: skip
def test_what_is_no_message_of_these_ends_there(content: bytes) -> None:
    good = field(1, b"x")
    first, last = files._fields(BytesIO(good + content), len(good + content))
    assert (first, last) == ((1, 2, 2, 3), None)
