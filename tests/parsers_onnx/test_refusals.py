"""Files that can't be read: one clear error, which names the thing."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from converter.errors import ModelError, ModelyardError, UnsupportedError, UsageError
from converter.request import Request
from parsers.onnx import OnnxParser
from tests.acceptance.cli import command
from tests.parsers_onnx.files import info, model, node, source, weight, write

RELU = model([node("Relu", "x", "y")])
ADD = model([node("Add", "xw", "y")], weights=[weight("w", 2)])


def refusal(path: Path) -> ModelyardError:
    """The error that reading the file ends in, however it is gone about."""
    with pytest.raises(ModelyardError) as caught:
        OnnxParser().identify(Request(str(path)))
        source(path).parse()
    assert "Traceback" not in str(caught.value)
    assert "onnxruntime_src" not in str(caught.value)
    assert isinstance(caught.value, UsageError) or str(path.parent) not in str(caught.value)
    return caught.value


# -- files that are none ---------------------------------------------------------------------


def _zip(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return content.getvalue()


def _npy() -> bytes:
    content = io.BytesIO()
    np.save(content, np.ones(3))
    return content.getvalue()


SAFETENSORS = (2).to_bytes(8, "little") + b"{}" + b"data"

OTHERS = [
    (b"", "an empty file"),
    (_zip("archive/data.pkl", "archive/version"), "a PyTorch file"),
    (_zip("net/model.json"), "a PyTorch exported program"),
    (_zip("config.json", "model.weights.h5"), "a Keras model"),
    (_zip("a.npy", "b.npy"), "NumPy arrays"),
    (_zip("readme.txt"), "a zip archive"),
    (_zip("archive/data.pkl")[:40], "a zip archive that is cut short"),
    (b"\x80\x02}q\x00.", "a Python pickle"),
    (b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file"),
    (b"\x1c\0\0\0TFL3" + bytes(64), "a TensorFlow Lite model"),
    (b"\x1c\0\0\0ORTM" + bytes(64), "ONNX Runtime's own format"),
    (b"GGUF" + bytes(64), "a GGUF model"),
    (b"\x1f\x8b\x08" + bytes(64), "a gzip archive"),
    (json.dumps({"a": [1, 2]}).encode(), "JSON text"),
    (b"<!DOCTYPE html><html>Not found</html>", "a web page"),
    (b'<?xml version="1.0"?><net name="x"/>', "XML text"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
    (b"this is no model\n", "a text file"),
    ("nicht übertragbar".encode() * 400, "a text file"),
    (_npy(), "a NumPy array"),
    (SAFETENSORS, "a safetensors file"),
    (b"\xff\xd8\xff\xe0" + bytes(64), "a JPEG image"),
]


@pytest.mark.parametrize(("content", "what"), OTHERS, ids=[what for _, what in OTHERS])
def test_other_files_called_onnx(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    error = refusal(path)
    assert isinstance(error, ModelError)
    assert error.exit_code == 3
    assert f"net.onnx is not an ONNX model: it looks like {what}" in error.message
    assert OnnxParser().sniff(str(path)), "it is called one: the error is ours to give"
    other = path.rename(tmp_path / "net.bin")
    assert not OnnxParser().sniff(str(other))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    error = refusal(tmp_path / "missing.onnx")
    assert isinstance(error, UsageError)
    assert error.exit_code == 2
    assert "reading missing.onnx: No such file or directory" in error.message
    (tmp_path / "net.onnx").mkdir()
    error = refusal(tmp_path / "net.onnx")
    assert isinstance(error, UsageError)
    assert "is a folder" in error.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, model([node("Relu", "x", "y")]))
    path.chmod(0)
    assert isinstance(refusal(path), UsageError)


def test_a_file_cut_short_anywhere(tmp_path: Path) -> None:
    whole = ADD.SerializeToString()
    path = tmp_path / "net.onnx"
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        error = refusal(path)
        assert isinstance(error, ModelError), length
        assert "net.onnx" in error.message
        assert "cut short" in error.message or "looks like" in error.message
        assert "50 bytes, at least" in error.message or length != 50


def test_damage_inside(tmp_path: Path) -> None:
    whole = bytearray(RELU.SerializeToString())
    whole[whole.index(b"Relu") - 1] = 0xFF
    path = tmp_path / "net.onnx"
    path.write_bytes(bytes(whole))
    assert isinstance(refusal(path), ModelError)


# -- versions --------------------------------------------------------------------------------


def test_an_opset_too_old(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, model([node("Relu", "x", "y")], opset=6, ir_version=3)))
    assert isinstance(error, ModelError)
    assert error.message == "model.onnx is of opset 6; opset 7 and later are read"
    assert "Export it again" in error.hint


@pytest.mark.parametrize(("opset", "ir_version"), [(99, 8), (17, 99)])
def test_newer_than_what_is_installed(tmp_path: Path, opset: int, ir_version: int) -> None:
    proto = model([node("Relu", "x", "y")], opset=opset, ir_version=ir_version)
    error = refusal(write(tmp_path, proto))
    assert f"is of opset {opset} (file version {ir_version})" in error.message
    assert "-m pip install -U onnx onnxruntime" in error.hint
    newest = onnx.defs.onnx_opset_version()  # and newer than the runtime
    error = refusal(write(tmp_path, model([node("Relu", "x", "y")], opset=newest)))
    assert "ONNX Runtime refuses the model" in error.message


# -- operators -------------------------------------------------------------------------------


def test_all_unknown_operators_are_listed(tmp_path: Path) -> None:
    proto = model(
        [
            node("Fly", "x", "a", name="first"),
            node("Upsample", ["a", "s"], "b", name="old"),
            node("Gelu", "b", "c", name="early"),
            node("Swim", "c", "d", name="theirs", domain="com.example"),
            node("FusedConv", "d", "y", name="fused", domain="com.microsoft"),
        ],
        weights=[weight("s", 4)],
        domains={"com.example": 1, "com.microsoft": 1},
    )
    error = refusal(write(tmp_path, proto))
    assert isinstance(error, UnsupportedError)
    expected = (
        ("first", "Fly", "opset 17 has no such operator", ""),
        ("old", "Upsample", "opset 17 has it no more", ""),
        ("early", "Gelu", "", "came with opset 20"),
        ("theirs", "com.example::Swim", "custom domain", ""),
        ("fused", "com.microsoft::FusedConv", "ONNX Runtime's own", "QDQ"),
    )
    for item, (name, op, reason, remedy) in zip(error.items, expected, strict=True):
        assert (item.node, item.op) == (name, op)
        assert reason in item.reason and remedy in item.remedy and item.remedy


def test_unknown_operators_in_bodies_and_functions(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[2] x, bool c) => (float[N] y) {
            a = own.f (x)
            y = If (c) <
                then_branch = t () => (float[M] p) { [inner] p = Fly (a) },
                else_branch = e () => (float[K] q) { q = Relu (a) }
            >
        }
        <domain: "own", opset_import: ["" : 17]>
        f (i) => (o) { [deep] o = Swim (i) }
        """
    )
    error = refusal(write(tmp_path, proto))
    assert isinstance(error, UnsupportedError)
    assert {item.node for item in error.items} == {"inner", "deep"}


def test_inputs_and_outputs_that_are_no_tensors(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    kept = helper.make_value_info(
        "o", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))
    )
    proto = model(
        [node("SequenceLength", "s", "n"), node("Optional", "x", "o")],
        inputs=["x", sequence],
        outputs=[info("n", (), TensorProto.INT64), kept],
    )
    error = refusal(write(tmp_path, proto))
    assert isinstance(error, UnsupportedError)
    assert [(item.node, item.op) for item in error.items] == [("s", "input"), ("o", "output")]
    assert "sequence" in error.items[0].reason
    assert "optional" in error.items[1].reason


# -- graphs ----------------------------------------------------------------------------------


def _bad_bytes() -> TensorProto:
    return TensorProto(name="w", data_type=1, dims=[4], raw_data=b"1234")


def _weighed(dims: list[int], data_type: int = 1, **more: Any) -> Callable[[], onnx.ModelProto]:
    """A model with this weight."""
    tensor = TensorProto(name="w", data_type=data_type, dims=dims, **more)
    ends = {"outputs": [info("y", [2], TensorProto.STRING)]} if data_type == 8 else {}
    op = node("Identity", "w", "y") if data_type == 8 else node("Add", "xw", "y")
    return lambda: model([op], weights=[tensor], **ends)


BROKEN: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "dangling": (lambda: model([node("Add", ["x", "gone"], "y", name="sum")]), "takes 'gone'"),
    "cycle": (
        lambda: model(
            [
                node("Add", "xb", "a", name="p"),
                node("Relu", "a", "b", name="q"),
                node("Relu", "b", "y"),
            ]
        ),
        "in a circle: p, q",
    ),
    "self": (lambda: model([node("Add", "xy", "y", name="me")]), "in a circle: me"),
    "two outputs": (
        lambda: model([node("Relu", "x", "y"), node("Abs", "x", "y")]),
        "2 node outputs are called y",
    ),
    "two inputs": (lambda: model([node("Relu", "x", "y")], inputs=["x", "x"]), "2 inputs"),
    "two initializers": (
        lambda: model([node("Add", "xw", "y")], weights=[weight("w", 2), weight("w", 2)]),
        "2 initializers are called w",
    ),
    "input computed": (
        lambda: model([node("Relu", "x", "y"), node("Relu", "y", "x")]),
        "x is computed by a node",
    ),
    "no such output": (lambda: model([node("Relu", "x", "z")]), "computes the output y"),
    "no outputs": (lambda: model([node("Relu", "x", "z")], outputs=[]), "no outputs"),
    "untyped input": (
        lambda: model([node("Relu", "x", "y")], inputs=[info("x", None, 0)]),
        "input x has no element type",
    ),
    "too few bytes": (
        _weighed([4], raw_data=b"1234"),
        "tensor w of shape [4] has 4 bytes, not 16",
    ),
    "too few numbers": (
        _weighed([2], float_data=[1.0]),
        "tensor w of shape [2] has 1 numbers, not 2",
    ),
    "too few strings": (_weighed([2], 8, string_data=[b"a"]), "has 1 strings, not 2"),
    "no such type": (_weighed([1], 99, raw_data=b"1"), "99 is no type"),
    "negative size": (_weighed([-1], raw_data=b"1"), "its shape is [-1]"),
    "bad constant": (
        lambda: model([node("Constant", "", "c", value=_bad_bytes()), node("Add", "xc", "y")]),
        "tensor w of shape [4] has 4 bytes",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs(tmp_path: Path, name: str) -> None:
    make, says = BROKEN[name]
    error = refusal(write(tmp_path, make()))
    assert isinstance(error, ModelError)
    assert error.exit_code == 3
    assert error.message == "model.onnx is not a valid model"
    assert any(says in detail for detail in error.details), error.details


def test_everything_that_is_wrong_is_listed(tmp_path: Path) -> None:
    proto = model([node("Add", ["x", "gone"], "y"), node("Relu", ["lost"], "z")])
    assert len(refusal(write(tmp_path, proto)).details) == 2


def test_bodies_are_checked_too(tmp_path: Path) -> None:
    body = helper.make_graph([node("Relu", ["gone"], "a", name="inner")], "t", [], [info("a")])
    other = helper.make_graph([node("Relu", "x", "b")], "e", [], [info("b")])
    proto = model(
        [node("If", "c", "y", name="branch", then_branch=body, else_branch=other)],
        inputs=["x", info("c", (), TensorProto.BOOL)],
    )
    (detail,) = refusal(write(tmp_path, proto)).details
    assert detail == "If (branch): Relu (inner) takes 'gone', which nothing computes"


def test_the_runtime_has_the_last_word(tmp_path: Path) -> None:
    proto = model([node("MatMul", "xw", "y")], weights=[weight("w", 3, 3)])
    error = refusal(write(tmp_path, proto))
    assert isinstance(error, ModelError)
    assert "model.onnx: ONNX Runtime refuses the model" in error.message
    assert "Incompatible dimensions" in error.message


# -- external data ---------------------------------------------------------------------------


def outside(folder: Path, **fields: str | int) -> Path:
    """A model whose weight of 8 bytes lies somewhere else."""
    tensor = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in fields.items():
        tensor.external_data.add(key=key, value=str(value))
    return write(folder, model([node("Add", "xw", "y")], weights=[tensor]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "w.bin").write_bytes(bytes(8))
    return inside


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"location": "../secret.bin"}, "outside the model's folder"),
        ({"location": "sub/../../secret.bin"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": "missing.bin"}, "is missing (missing.bin)"),
        ({"location": "."}, "is missing"),
        ({}, "it says nothing of where"),
        ({"location": "w.bin", "offset": 4}, "w.bin is truncated (it has 8 bytes)"),
        ({"location": "w.bin", "offset": 10**30}, "is truncated"),
        ({"location": "w.bin", "offset": -8}, "8 bytes are needed"),
        ({"location": "w.bin", "length": 4}, "8 bytes are needed, 4 declared"),
        ({"location": "w.bin", "length": "many"}, "many"),
    ],
)
def test_external_data(folder: Path, fields: dict[str, str | int], says: str) -> None:
    error = refusal(outside(folder, **fields))
    assert isinstance(error, ModelError)
    assert error.message == "reading model.onnx: its external data can't be used"
    assert len(error.details) == 1
    assert error.details[0].startswith("w: ")
    assert says in error.details[0]


def _holding(place: str, location: str) -> onnx.ModelProto:
    """A model with a tensor that lies elsewhere, in this place of the file."""
    away = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    away.external_data.add(key="location", value=location)
    sparse = helper.make_sparse_tensor(away, onnx.numpy_helper.from_array(np.arange(2), "i"), [2])
    proto = model([node("Constant", "", "w", value_float=1.0), node("Add", "xw", "y")])
    attribute = proto.graph.node[0].attribute[0]
    if place == "sparse_initializer":
        del proto.graph.node[0]
        proto.graph.sparse_initializer.append(sparse)
    elif place == "indices":
        del proto.graph.node[0]
        away.data_type = TensorProto.INT64
        values = weight("w", 2)
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, away, [2]))
    elif place == "sparse_value":
        attribute.CopyFrom(helper.make_attribute("sparse_value", sparse))
    elif place == "sparse_tensors":
        attribute.sparse_tensors.append(sparse)
    elif place == "function":
        proto.functions.add(name="f", domain="own").node.add().CopyFrom(proto.graph.node[0])
        proto.functions[0].node[0].attribute[0].CopyFrom(helper.make_attribute("value", away))
    elif place == "function's default":
        default = helper.make_attribute("value", away)
        proto.functions.add(name="f", domain="own").attribute_proto.append(default)
    elif place == "training":
        proto.training_info.add().algorithm.initializer.append(away)
    return proto


SPARSE = ["sparse_initializer", "indices", "sparse_value"]
OTHER_PLACES = ["sparse_tensors", "function", "function's default", "training"]


@pytest.mark.parametrize("place", SPARSE + OTHER_PLACES)
@pytest.mark.parametrize("location", ["/etc/hostname", "../secret.bin", "link.bin"])
def test_external_data_anywhere(folder: Path, place: str, location: str) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    path = write(folder, _holding(place, location))
    assert "outside the model's folder" in refusal(path).details[0]
    said = command("convert", path, "--out", folder / "out")
    assert said.code == 3
    assert "outside the model's folder" in said.no_traceback().err


@pytest.mark.parametrize("place", SPARSE)
def test_sparse_tensors_beside_the_model(folder: Path, place: str) -> None:
    """From whatever folder it is read; compared with what ONNX Runtime makes of the file."""
    kind = np.int64 if place == "indices" else np.float32
    np.array([1, 0], kind).tofile(folder / "s.bin")
    path = write(folder, _holding(place, "s.bin"))
    said = command("convert", path, "--out", folder / "out", "--no-bench")
    assert said.code == 0, said.err


def test_a_location_that_is_said_twice(folder: Path) -> None:
    """Readers differ in which of the two they take."""
    proto = onnx.load(outside(folder, location="w.bin"), load_external_data=False)
    again = proto.graph.initializer[0].external_data.add()
    again.key, again.value = "location", "../secret.bin"
    assert "more than once" in refusal(write(folder, proto)).details[0]


def test_a_link_out_of_the_folder(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    assert "outside" in refusal(outside(folder, location="link.bin")).details[0]


def test_a_linked_folder_out_of_the_folder(folder: Path) -> None:
    (folder / "sub").symlink_to(folder.parent)
    assert "outside" in refusal(outside(folder, location="sub/secret.bin")).details[0]


def test_a_hard_link(folder: Path) -> None:
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    assert "2 hard links" in refusal(outside(folder, location="hard.bin")).details[0]


def test_a_device(folder: Path) -> None:
    os.mkfifo(folder / "pipe.bin")
    assert "is missing" in refusal(outside(folder, location="pipe.bin")).details[0]


@pytest.mark.parametrize(("dims", "says"), [([2**40], "too large"), ([2], "contradicts itself")])
def test_sparse_tensors_that_can_t_be(tmp_path: Path, dims: list[int], says: str) -> None:
    sparse = helper.make_sparse_tensor(
        onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "w"),
        onnx.numpy_helper.from_array(np.array([0, 7]), "w_indices"),
        dims,
    )
    proto = model([node("Add", "xw", "y")])
    proto.graph.sparse_initializer.append(sparse)
    error = refusal(write(tmp_path, proto))
    assert isinstance(error, ModelError)
    assert "the sparse tensor w" in error.message
    assert says in error.message
