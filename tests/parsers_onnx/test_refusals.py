"""Files that can't be read: one clear error, which names the thing."""

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
from converter.options.request import Request
from parsers.onnx.parser import OnnxParser
from tests.acceptance.cli import command
from tests.parsers_onnx.files import ADD, PLUS, RELU, VECTOR, model, source, sparse, weight, write


def refusal(path: Path) -> ModelyardError:
    """The error that reading the file ends in, however it is gone about."""
    with pytest.raises(ModelyardError) as caught:
        OnnxParser().identify(Request(str(path)))
        source(path).parse()
    assert "Traceback" not in str(caught.value)
    assert "onnxruntime_src" not in str(caught.value)
    assert isinstance(caught.value, UsageError) or str(path.parent) not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(("option", "given"), [
    ("--weights", {"weights": "w.pth"}),
    ("--arg", {"args": [3]}),
    ("--arg", {"kwargs": {"width": 3}}),
])  # fmt: skip
def test_options_of_a_class_are_refused(option: str, given: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path, RELU)
    with pytest.raises(UsageError, match=f"{option} only works with a PyTorch class") as caught:
        OnnxParser().identify(Request(str(path), **given))
    assert caught.value.code == "option-not-applicable"


def _zip(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return content.getvalue()


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
    (b"<!DOCTYPE html><html>Not found</html>", "an HTML page"),
    (b'<?xml version="1.0"?><net name="x"/>', "XML text"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
    (b"this is no model\n", "a text file"),
    ("nicht übertragbar".encode() * 400, "a text file"),
    (b"\x93NUMPY\x01\0" + bytes(64), "a NumPy array"),
    ((2).to_bytes(8, "little") + b"{}data", "a safetensors file"),
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
    assert not OnnxParser().sniff(str(path.rename(tmp_path / "net.bin")))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").mkdir()
    missing = "reading missing.onnx: No such file or directory"
    for name, says in (("missing.onnx", missing), ("net.onnx", "is a folder")):
        error = refusal(tmp_path / name)
        assert isinstance(error, UsageError) and error.exit_code == 2
        assert says in error.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, RELU)
    path.chmod(0)
    assert isinstance(refusal(path), UsageError)


def test_a_file_cut_short_anywhere_or_damaged_inside(tmp_path: Path) -> None:
    whole = model(ADD).SerializeToString()
    path = tmp_path / "net.onnx"
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        error = refusal(path)
        assert isinstance(error, ModelError), length
        assert "net.onnx" in error.message
        assert "cut short" in error.message or "looks like" in error.message
        assert "50 bytes, at least" in error.message or length != 50
    damaged = bytearray(whole)
    damaged[damaged.index(b"Add") - 1] = 0xFF
    path.write_bytes(bytes(damaged))
    assert isinstance(refusal(path), ModelError)


NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize(("opset", "ir", "says", "hint"), [
    (6, 3, "model.onnx has opset 6; Modelyard reads opset 7 and later", "Export it again"),
    (99, 8, "has opset 99 (file version 8)", "-m pip install -U onnx onnxruntime"),
    (17, 99, "has opset 17 (file version 99)", "-m pip install -U onnx onnxruntime"),
    (NEWEST, 8, "ONNX Runtime refuses the model", ""),  # newer than the runtime
])  # fmt: skip
def test_too_old_and_too_new(tmp_path: Path, opset: int, ir: int, says: str, hint: str) -> None:
    error = refusal(write(tmp_path, model(RELU, opset=opset, ir=ir)))
    assert isinstance(error, ModelError)
    assert says in error.message and hint in error.hint


def test_all_unknown_operators_are_listed(tmp_path: Path) -> None:
    text = f"""{VECTOR} <float[4] s = {{1, 1, 1, 1}}> {{
        [first] a = Fly (x)
        [old] b = Upsample (a, s)
        [early] c = Gelu (b)
        [theirs] d = com.example.Swim (c)
        [fused] y = com.microsoft.FusedConv (d)
    }}"""
    error = refusal(write(tmp_path, model(text, **{"com.example": 1, "com.microsoft": 1})))
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
    text = """g (float[2] x, bool c) => (float[N] y) {
            a = own.f (x)
            y = If (c) <
                then_branch = t () => (float[M] p) { [inner] p = Fly (a) },
                else_branch = e () => (float[K] q) { q = Relu (a) }
            >
        }
        <domain: "own", opset_import: ["" : 17]> f (i) => (o) { [deep] o = Swim (i) }"""
    error = refusal(write(tmp_path, model(text, own=1)))
    assert isinstance(error, UnsupportedError)
    assert {item.node for item in error.items} == {"inner", "deep"}


def test_inputs_and_outputs_that_are_no_tensors(tmp_path: Path) -> None:
    ends = "g (float[2] x, seq(float) s) => (int64 n, optional(float[2]) o)"
    error = refusal(write(tmp_path, f"{ends} {{ n = SequenceLength (s) o = Optional (x) }}"))
    assert isinstance(error, UnsupportedError)
    (s, o) = error.items
    assert (s.node, s.op, o.node, o.op) == ("s", "input", "o", "output")
    assert "sequence" in s.reason and "optional" in o.reason


def _tensor(*dims: int, kind: int = 1, **more: Any) -> TensorProto:
    return TensorProto(name="w", data_type=kind, dims=dims, **more)


STRINGS = "g (float[2] x) => (string[2] y) { y = Identity (w) }"
BROKEN: dict[str, tuple[str, list[TensorProto], str]] = {
    "dangling": (f"{VECTOR} {{ [sum] y = Add (x, gone) }}", [], "takes 'gone'"),
    "cycle": (f"{VECTOR} {{[p] a = Add (x, b) [q] b = Relu (a) y = Relu (b)}}", [], "circle: p, q"),
    "self": (f"{VECTOR} {{ [me] y = Add (x, y) }}", [], "in a circle: me"),
    "two outputs": (f"{VECTOR} {{ y = Relu (x) y = Abs (x) }}", [], "2 node outputs are called y"),
    "two inputs": ("g (float[2] x, float[2] x) => (float[2] y) { y = Relu (x) }", [], "2 inputs"),
    "two weights": (PLUS, [weight("w", 2)] * 2, "2 initializers are called w"),
    "input computed": (f"{VECTOR} {{ y = Relu (x) x = Relu (y) }}", [], "x is computed by a node"),
    "no such output": (f"{VECTOR} {{ z = Relu (x) }}", [], "computes the output y"),
    "no outputs": ("g (float[2] x) => () { z = Relu (x) }", [], "no outputs"),
    "too few bytes": (PLUS, [_tensor(4, raw_data=b"1234")], "w of shape [4] has 4 bytes, not 16"),
    "too few numbers": (PLUS, [_tensor(2, float_data=[1.0])], "shape [2] has 1 numbers, not 2"),
    "too few strings": (STRINGS, [_tensor(2, kind=8, string_data=[b"a"])], "has 1 strings, not 2"),
    "no such type": (PLUS, [_tensor(1, kind=99, raw_data=b"1")], "99 isn't a type"),
    "negative size": (PLUS, [_tensor(-1, raw_data=b"1")], "its shape is [-1]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs(tmp_path: Path, name: str) -> None:
    text, weights, says = BROKEN[name]
    error = refusal(write(tmp_path, model(text, *weights)))
    assert isinstance(error, ModelError)
    assert error.exit_code == 3
    assert error.message == "model.onnx is not a valid model"
    assert any(says in detail for detail in error.details), error.details


def test_a_broken_constant_and_an_input_without_a_type(tmp_path: Path) -> None:
    proto = model(f"{VECTOR} {{ c = Constant () y = Add (x, c) }}")
    bad = helper.make_attribute("value", _tensor(4, raw_data=b"1234"))
    proto.graph.node[0].attribute.append(bad)
    proto.graph.input[0].type.tensor_type.elem_type = 0
    details = "\n".join(refusal(write(tmp_path, proto)).details)
    assert "tensor w of shape [4] has 4 bytes" in details
    assert "input x has no element type" in details


def test_everything_that_is_wrong_is_listed_bodies_too(tmp_path: Path) -> None:
    text = """g (float[2] x, bool c) => (float[2] y) {
        [branch] y = If (c) <
            then_branch = t () => (float[2] a) { [inner] a = Relu (gone) },
            else_branch = e () => (float[2] b) { b = Relu (x) }
        >
        z = Relu (lost)
    }"""
    first, second = refusal(write(tmp_path, text)).details
    assert first == "If (branch): Relu (inner) takes 'gone', which nothing computes"
    assert "'lost'" in second


def test_the_runtime_has_the_last_word(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, model(f"{VECTOR} {{ y = MatMul (x, w) }}", weight("w", 3, 3))))
    assert isinstance(error, ModelError)
    assert "model.onnx: ONNX Runtime refuses the model" in error.message
    assert "Incompatible dimensions" in error.message


def outside(folder: Path, **fields: str | int) -> Path:
    """A model whose weight of 8 bytes lies somewhere else."""
    tensor = _tensor(2, data_location=TensorProto.EXTERNAL)
    for key, value in fields.items():
        tensor.external_data.add(key=key, value=str(value))
    return write(folder, model(PLUS, tensor))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "w.bin").write_bytes(bytes(8))
    return inside


@pytest.mark.parametrize(("fields", "says"), [
    ({"location": "../secret.bin"}, "outside of the model's folder"),
    ({"location": "sub/../../secret.bin"}, "outside of the model's folder"),
    ({"location": "/etc/hostname"}, "outside of the model's folder"),
    ({"location": "missing.bin"}, "is missing (missing.bin)"),
    ({"location": "."}, "is missing"),
    ({}, "it doesn't name their file"),
    ({"location": "w.bin", "offset": 4}, "w.bin is truncated (it has 8 bytes)"),
    ({"location": "w.bin", "offset": 10**30}, "is truncated"),
    ({"location": "w.bin", "offset": -8}, "8 bytes are needed"),
    ({"location": "w.bin", "length": 4}, "8 bytes are needed, 4 declared"),
    ({"location": "w.bin", "length": "many"}, "many"),
])  # fmt: skip
def test_external_data(folder: Path, fields: dict[str, str | int], says: str) -> None:
    error = refusal(outside(folder, **fields))
    assert isinstance(error, ModelError)
    assert error.message == "reading model.onnx: its external data can't be used"
    assert len(error.details) == 1
    assert error.details[0].startswith("w: ")
    assert says in error.details[0]


def _holding(place: str, location: str) -> onnx.ModelProto:
    """A model with a tensor that lies elsewhere, in this place of the file."""
    indexed = place == "indices"
    away = _tensor(2, kind=TensorProto.INT64 if indexed else 1, data_location=TensorProto.EXTERNAL)
    away.external_data.add(key="location", value=location)
    indices = onnx.numpy_helper.from_array(np.arange(2), "i")
    thin = sparse(weight("w", 2), away, 2) if indexed else sparse(away, indices, 2)
    if place in ("sparse_initializer", "indices"):
        proto = model(PLUS)
        proto.graph.sparse_initializer.append(thin)
        return proto
    proto = model(f"{VECTOR} {{ w = Constant <value_float = 1.0> () y = Add (x, w) }}")
    attribute, held = proto.graph.node[0].attribute[0], helper.make_attribute("value", away)
    if place == "sparse_value":
        attribute.CopyFrom(helper.make_attribute("sparse_value", thin))
    elif place == "sparse_tensors":
        attribute.sparse_tensors.append(thin)
    elif place == "function":
        proto.functions.add(name="f", domain="own").node.add().CopyFrom(proto.graph.node[0])
        proto.functions[0].node[0].attribute[0].CopyFrom(held)
    elif place == "function's default":
        proto.functions.add(name="f", domain="own").attribute_proto.append(held)
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
    assert "outside of the model's folder" in refusal(path).details[0]
    said = command("convert", path, "--out", folder / "out")
    assert said.code == 3
    assert "outside of the model's folder" in said.no_traceback().err


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


@pytest.mark.parametrize(("plant", "says"), [
    (lambda at: (at / "w").symlink_to(at.parent / "secret.bin"), "outside"),
    (lambda at: (at / "w").symlink_to(at.parent), "outside"),
    (lambda at: os.link(at.parent / "secret.bin", at / "w"), "2 hard links"),
    (lambda at: os.mkfifo(at / "w"), "is missing"),
], ids=["link", "linked folder", "hard link", "device"])  # fmt: skip
def test_what_is_no_file_of_the_folder(folder: Path, plant: Callable[[Path], None],
                                       says: str) -> None:  # fmt: skip
    plant(folder)
    location = "w/secret.bin" if (folder / "w").is_dir() else "w"
    assert says in refusal(outside(folder, location=location)).details[0]


@pytest.mark.parametrize(("dims", "says"), [([2**40], "too large"), ([2], "contradicts itself")])
def test_sparse_tensors_that_can_t_be(tmp_path: Path, dims: list[int], says: str) -> None:
    values = onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    indices = onnx.numpy_helper.from_array(np.array([0, 7]), "w_indices")
    proto = model(PLUS)
    proto.graph.sparse_initializer.append(sparse(values, indices, *dims))
    error = refusal(write(tmp_path, proto))
    assert isinstance(error, ModelError)
    assert "the sparse tensor w" in error.message and says in error.message
