"""The folder as written: batching proven, warm-up files, the same bytes, and read back."""

import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from converter.errors import InternalError, UsageError
from converter.ir.model import Model
from converter.protocols.emitter import Artifact
from converter.protocols.server import Server
from emitters.serving.triton import folder as triton_folder
from emitters.serving.triton.config import read_config
from emitters.serving.triton.server import TritonServer, validate_folder
from tests.acceptance.cli import tree
from tests.serving.models import (
    MemorySamples,
    adder,
    classifier,
    emit,
    identity,
    make_request,
    of_one,
    package,
    samples_for,
    text_model,
)  # fmt: skip

MIXING = text_model(of_one("Softmax<axis = 0>(x)"))
"""Its elements depend on one another: a softmax over the batch."""

FAILING = text_model("""g (float[batch, 3] x) => (float[batch, 3] y)
    <int64 zero = {0}, int64 one = {1}, float[2, 1] table = {1, 2}> {
    n = Shape<start = 0, end = 1>(x) count = Squeeze(n) rows = Range(zero, count, one)
    found = Gather(table, rows) y = Add(x, found) }""")
"""It says that it takes any batch, and fails above two: its table has two rows."""


def test_is_a_server(tmp_path: Path) -> None:
    server: Server = TritonServer()
    assert (server.name, server.extra) == ("triton", None)
    assert list(server.accepts) == ["tensorrt", "onnx", "tflite", "torchscript", "savedmodel"]
    artifact = Artifact("coreml", "fp32", tmp_path / "model.mlpackage")
    with pytest.raises(UsageError, match="can't serve a coreml artifact"):
        server.package(artifact, adder(), MemorySamples(), make_request(), tmp_path)


def test_folder(tmp_path: Path) -> None:
    packaged = package(classifier(), tmp_path, version=3)
    files = "3/model.onnx README.md client.py config.pbtxt warmup/sample1-0-x.bin"
    assert " ".join(sorted(tree(packaged.path))) == files
    assert packaged.details == {
        "model": "tiny", "backend": "onnxruntime", "version": 3, "max_batch": 8,
        "dynamic_batching": True, "instances": 1, "instance_kind": "cpu",
        "warmups": ["batch1_sample1", "batch8_sample1"], "labels": {},
    }  # fmt: skip
    readme = (packaged.path / "README.md").read_text()
    for line in packaged.decisions:
        assert f"- {line}\n" in readme
    for data in tree(packaged.path).values():
        assert str(tmp_path).encode() not in data


def test_external_weights_lie_beside_the_model(tmp_path: Path) -> None:
    packaged = package(classifier(4000), tmp_path, external_data=True)
    version = packaged.path / "1"
    assert sorted(item.name for item in version.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert validate_folder(packaged.path) == []
    assert "weights in `1/model.onnx.data`" in (packaged.path / "README.md").read_text()
    onnx.load(version / "model.onnx")  # which refuses weights in a file of several names


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    def write(folder: Path) -> dict[str, bytes]:
        model = classifier()
        model.describe("scores", labels=("a", "b", "c", "d"))
        parameters = {"b": "1", "a": "2", "c": "3"}
        packaged = package(
            model, folder, warmup=2, preferred_batch=[4, 2], parameters=parameters, threads=1
        )
        return tree(packaged.path)

    assert write(tmp_path / "one") == write(tmp_path / "two")


def test_a_folder_in_the_way_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "repository" / "tiny").mkdir(parents=True)
    with pytest.raises(UsageError, match="in the way"):
        package(adder(), tmp_path)


# -- batching --------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "count", "reason"), [
    (MIXING, 2, "depends on the rest of the batch"),
    (MIXING, 1, "depends on the rest of the batch"),  # one sample is enough to find it
    (FAILING, 2, "does not run at batch"),
    (adder((1, 3)), 2, "do not start with the batch dimension"),
    (adder(("n", 3)), 2, "do not start with the batch dimension"),
], ids=["mixing", "mixing-one", "failing", "fixed", "other-symbol"])  # fmt: skip
def test_what_cannot_be_batched_is_not(tmp_path: Path, model: Model, count: int,
                                       reason: str) -> None:  # fmt: skip
    packaged = package(model, tmp_path, samples_for(model, count))
    assert packaged.details["max_batch"] == 0
    assert any(
        line.startswith("max_batch_size 0: ") and reason in line for line in packaged.decisions
    )
    (entry,) = read_config(packaged.path / "config.pbtxt").model_warmup
    assert entry.batch_size == 1  # 0 would be skipped
    with pytest.raises(UsageError, match=f"--max-batch 4, but .*{reason}"):
        package(model, tmp_path / "asked", max_batch=4)


def test_a_batch_is_checked_at_the_size_asked_for(tmp_path: Path) -> None:
    packaged = package(FAILING, tmp_path, max_batch=2)
    assert packaged.details["max_batch"] == 2
    assert packaged.decisions[0] == "max_batch_size 2 (asked for): the file was run at batch 1, 2"
    config = read_config(package(adder(), tmp_path, name="none", max_batch=0).path / "config.pbtxt")
    assert config.max_batch_size == 0
    assert list(config.input[0].dims) == [-1, 3]
    assert list(config.model_warmup[0].inputs["x"].dims) == [1, 3]


def test_without_samples(tmp_path: Path) -> None:
    model = adder(("batch", "width"))
    packaged = package(model, tmp_path, MemorySamples(), name="unknown")
    assert packaged.details["max_batch"] == 0 and packaged.details["warmups"] == []
    assert "no warm-up: there are no samples" in packaged.decisions
    sized = package(model, tmp_path, MemorySamples(), name="sized", dims={"width": 4})
    assert sized.details["max_batch"] == 8
    assert not (sized.path / "warmup").exists()


# -- warm-up ---------------------------------------------------------------------------


def test_warm_up_files_hold_one_element(tmp_path: Path) -> None:
    model = adder(("batch", 3, "width"))
    samples = samples_for(model, 3, free=2)
    packaged = package(model, tmp_path, samples, warmup=2, preferred_batch=[4])
    config = read_config(packaged.path / "config.pbtxt")
    assert [(entry.name, entry.batch_size) for entry in config.model_warmup] == [
        (f"batch{size}_sample{number}", size) for size in (1, 4, 8) for number in (1, 2)
    ]
    for number, sample in zip((1, 2), samples, strict=False):
        item = config.model_warmup[number - 1].inputs["x"]
        assert list(item.dims) == [3, 2]
        data = (packaged.path / "warmup" / item.input_data_file).read_bytes()
        assert data == sample.feeds["x"].tobytes()


@pytest.mark.parametrize(("kind", "values", "written"), [
    (
        "string",
        np.array([["a", "", "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n"]], object),
        b"\x01\0\0\0a" + b"\0\0\0\0" + b"\x05\0\0\0gr\xc3\xbcn",
    ),
    (
        "bfloat16",
        np.array([[1.0, -2.0, 0.5]], ml_dtypes.bfloat16),
        struct.pack("<3H", 0x3F80, 0xC000, 0x3F00),
    ),
    ("int64", np.array([[1, 2, 3]], ">i8"), struct.pack("<3q", 1, 2, 3)),
], ids=["lengths", "bits", "little-endian"])  # fmt: skip
def test_bytes_of_warm_up_files(tmp_path: Path, kind: str, values: Any, written: bytes) -> None:
    packaged = package(identity(kind), tmp_path, MemorySamples([{"x": values}]))
    assert (packaged.path / "warmup" / "sample1-0-x.bin").read_bytes() == written


@pytest.mark.parametrize(("feeds", "message"), [
    ({}, "has nothing for the input x"),
    ({"x": np.zeros((1, 3))}, "holds float64 for x"),
    ({"x": np.zeros((1, 4), np.float32)}, r"has the shape \[1, 4\]"),
    ({"x": np.zeros((1, 0), np.float32)}, r"has the shape \[1, 0\]"),
])  # fmt: skip
def test_samples_that_do_not_fit(tmp_path: Path, feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        package(adder((1, 3)), tmp_path, MemorySamples([feeds]))


def test_names_of_warm_up_files_are_safe(tmp_path: Path) -> None:
    model = text_model("g (float[batch] a, float[batch] b) => (float[batch] y) { y = Add(a, b) }")
    for value, name in zip(model.graph.graph.inputs, ("a/b:0", "a_b:0"), strict=True):
        value.name = name
    names = sorted(item.name for item in (package(model, tmp_path).path / "warmup").iterdir())
    assert names == ["sample1-0-a_b_0.bin", "sample1-1-a_b_0.bin"]


# -- read back -------------------------------------------------------------------------


def break_config(old: str, new: str) -> Any:
    """A change to config.pbtxt."""

    def change(folder: Path) -> None:
        path = folder / "config.pbtxt"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


@pytest.mark.parametrize(("change", "message"), [
    (break_config("max_batch_size: 8", "max_batch_size: 8 x"), "not a Triton model config"),
    (break_config('name: "tiny"', 'name: "other"'), "the folder 'tiny'"),
    (break_config("dims: [3]", "dims: [4]"), "dims [-1, 4] with the batch"),
    (break_config("dims: [4]", "dims: [-1]"), "output scores: dims [-1, -1]"),
    (break_config("TYPE_FP32", "TYPE_FP16"), "input x: TYPE_FP16"),
    (break_config('name: "scores"', 'name: "score"'), "score: not in the model"),
    (break_config("max_batch_size: 8\n", ""), "dims [3] with the batch"),
    (break_config("batch_size: 8\n  inputs", "batch_size: 9\n  inputs"), "a batch of 9"),
    (
        break_config("latest {\n    num_versions: 1", "specific {\n    versions: 2"),
        "policy names 2",
    ),
    (break_config('key: "x"', 'key: "z"'), "its inputs are ['z']"),
    (lambda folder: (folder / "labels.txt").unlink(), "label file labels.txt is missing"),
    (lambda folder: (folder / "labels.txt").write_text("a\n"), "has 1 labels"),
    (lambda folder: (folder / "1" / "model.onnx").unlink(), "holds no model.onnx"),
    (lambda folder: (folder / "1" / "model.onnx").write_bytes(b"x"), "ONNX Runtime refuses"),
    (lambda folder: (folder / "1").rename(folder / "one"), "no version folder"),
    (
        lambda folder: (folder / "warmup" / "sample1-0-x.bin").write_bytes(b"1234"),
        "has 4 bytes, and its dims say 12",
    ),
    (lambda folder: (folder / "warmup" / "sample1-0-x.bin").unlink(), "is missing"),
])  # fmt: skip
def test_what_is_wrong_is_found(tmp_path: Path, change: Any, message: str) -> None:
    model = classifier()
    model.describe("scores", labels=("a", "b", "c", "d"))
    folder = package(model, tmp_path).path
    assert validate_folder(folder) == []
    change(folder)
    assert any(message in line for line in validate_folder(folder)), validate_folder(folder)


@pytest.mark.parametrize("data", [b"\1\0\0", b"\5\0\0\0abc", b"\1\0\0\0a" * 2])
def test_broken_string_files_are_found(tmp_path: Path, data: bytes) -> None:
    folder = package(identity("string"), tmp_path).path
    (folder / "warmup" / "sample1-0-x.bin").write_bytes(data)
    assert any("its dims say 3" in line for line in validate_folder(folder))


def test_a_folder_that_fails_its_check_is_our_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_folder, "write_warmup", lambda folder, warmups: None)
    artifact, request = emit(adder(), tmp_path), make_request()
    with pytest.raises(InternalError, match="not as it should be") as caught:
        TritonServer().package(artifact, adder(), samples_for(adder()), request, tmp_path)
    assert any("is missing" in line for line in caught.value.details)
