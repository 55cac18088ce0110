"""Bad input: its exit code, one clear message, no traceback, nothing left behind."""

from __future__ import annotations

import io
import pickle
import resource
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.acceptance.cli import Said, modelyard, small_cnn


def refused(code: int, says: str, folder: Path, *args: str | Path, **options: object) -> Said:
    """Runs a conversion in ``folder`` that has to fail so, and leave the folder as it was."""
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    said = modelyard("convert", *args, "--no-bench", cwd=folder, **options).no_traceback()  # type: ignore[arg-type]
    assert said.code == code, said.err
    assert says.lower() in said.err.lower(), said.err
    assert said.err.count("error:") == 1
    after = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    assert after == before
    return said


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return small_cnn(tmp_path / "model.onnx")


# -- files -------------------------------------------------------------------------------


def test_missing(tmp_path: Path) -> None:
    refused(2, "there is no nothing.onnx", tmp_path, "nothing.onnx")


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    refused(3, "empty", tmp_path, "empty.onnx")


def test_truncated(model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-500])
    refused(3, "cut short", model.parent, model.name)


@pytest.mark.parametrize("kind", ["zip", "text", "json", "png", "noise"])
def test_wrong_format(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.onnx"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", b"x")
    else:
        contents = {
            "text": b"hello, this is not a model\n" * 10,
            "json": b'{"model": 1}',
            "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
            "noise": np.random.default_rng(1).bytes(1000),
        }
        path.write_bytes(contents[kind])
    refused(3, "model.onnx", tmp_path, path.name)


def test_a_folder_where_a_file_was_meant(model: Path) -> None:
    refused(2, ". is of no format that can be read", model.parent, ".")
    refused(2, "It holds model.onnx: name the model's file.", model.parent, ".")
    (model.parent / "empty").mkdir()
    refused(2, "saved_model.pb", model.parent, "empty")


def test_an_unknown_target(model: Path) -> None:
    said = refused(2, "there is no target 'tflte'", model.parent, model.name, "--to", "tflte")
    assert "tflite" in said.err


def test_weights_that_are_missing_are_said_once_a_file(tmp_path: Path) -> None:
    whole = onnx.load(small_cnn(tmp_path / "whole.onnx"))
    onnx.save(whole, tmp_path / "model.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=0)  # fmt: skip
    (tmp_path / "w.bin").unlink()
    said = refused(3, "the file of its weights is missing (w.bin)", tmp_path, "model.onnx")
    assert said.err.count("w.bin") == 1 and "w0, w1, w2" in said.err


@pytest.mark.slow
def test_names_of_other_classes_than_the_model_s(model: Path) -> None:
    (model.parent / "names.txt").write_text("cat\ndog\n")
    said = refused(2, "has 2 names", model.parent, model.name, "--samples", "random:4",
                   "--label-names", "names.txt")  # fmt: skip
    assert "scores: float32[batch, 10]" in said.err


def test_a_file_whose_name_is_no_model_s(model: Path) -> None:
    model.rename(model.with_name("mödel (1) ß.onnx"))
    said = modelyard("convert", "mödel (1) ß.onnx", "--dry-run", cwd=model.parent)
    assert said.code == 0, said.err
    assert "m_del_1 would become build/m_del_1" in said.out


def test_a_weights_file_alone_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "net.pth").write_bytes(b"x" * 10)
    refused(2, "--weights", tmp_path, "net.pth")


def test_unknown_ops_and_domains_are_all_listed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], name="first", domain="com.example"),
        helper.make_node("Frobnicate", ["a"], ["b"], name="second"),
        helper.make_node("Bar", ["b"], ["y"], name="third", domain="org.other"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    opsets = [
        helper.make_opsetid(name, 17 if not name else 1)
        for name in ("", "com.example", "org.other")
    ]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "model.onnx")
    said = refused(3, "com.example::Foo", tmp_path, "model.onnx")
    for name in ("first", "second", "third", "org.other::Bar", "Frobnicate"):
        assert name in said.err


def test_external_data_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(40))
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [10], [0.0] * 10)
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../secret.bin"
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="add")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [10])],
        [tensor],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "inner" / "model.onnx").write_bytes(proto.SerializeToString())
    refused(3, "outside", tmp_path, "inner/model.onnx")


def test_a_pickle_that_would_run_code_runs_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
            import os

            return os.system, (f"touch {tmp_path}/pwned",)

    (tmp_path / "net.py").write_text(
        "import torch\nclass Net(torch.nn.Linear):\n"
        "    def __init__(self): super().__init__(2, 2)\n"
    )
    with zipfile.ZipFile(tmp_path / "net.pth", "w") as archive:
        stream = io.BytesIO()
        pickle.dump({"weight": Evil()}, stream, protocol=2)
        archive.writestr("net/data.pkl", stream.getvalue())
        archive.writestr("net/version", "3\n")
    said = refused(
        3, "trust", tmp_path, "net.py:Net", "--weights", "net.pth", "--input", "x:batchx2"
    )
    assert not (tmp_path / "pwned").exists()
    assert "system" in said.err


# -- samples -----------------------------------------------------------------------------

GOOD = np.zeros((4, 3, 16, 16), np.float32)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"picture": GOOD, "other": GOOD}, "image"),
        ({"image": GOOD[:, :2]}, "[batch, 3, 16, 16]"),
        ({"image": GOOD.astype(np.float64)}, "float32"),
        ({"image": np.where(np.arange(16) == 3, np.nan, GOOD).astype(np.float32)}, "nan"),
        ({"image": GOOD[:0]}, "no samples"),
    ],
)
def test_samples_that_do_not_fit(model: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    np.savez(model.parent / "samples.npz", **arrays)
    refused(2, says, model.parent, model.name, "--samples", "samples.npz")


def test_samples_that_are_missing(model: Path) -> None:
    refused(2, "photos", model.parent, model.name, "--samples", "photos")


def test_a_free_dimension_without_a_size_is_named(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "frames"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "frames"])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    refused(2, "frames", tmp_path, "m.onnx")
    said = modelyard("convert", "m.onnx", "--dim", "frames=7", "--no-bench", cwd=tmp_path)
    assert said.code == 0, said.err


# -- outputs and options -----------------------------------------------------------------


def test_an_output_in_the_way(model: Path) -> None:
    (model.parent / "out").mkdir()
    (model.parent / "out" / "mine").write_text("mine")
    refused(2, "--overwrite", model.parent, model.name, "--out", "out")
    assert (model.parent / "out" / "mine").read_text() == "mine"


def test_a_folder_that_may_not_be_written(model: Path) -> None:
    (model.parent / "file").write_text("x")
    refused(2, "file", model.parent, model.name, "--out", "file/out")


def limit() -> None:
    """No file may be larger than 200 kB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


@pytest.mark.parametrize("target", ["onnx", "tflite", "coreml"])
def test_the_file_size_limit_of_an_artifact(model: Path, target: str) -> None:
    small_cnn(model, channels=128)
    options = ["--to", target, "--no-cache", "--no-check", "--no-simplify"]
    refused(6, "ulimit -f", model.parent, model.name, *options, before=limit)


def test_the_file_size_limit(model: Path, tmp_path: Path) -> None:
    small_cnn(model, channels=128)
    cache = {"MODELYARD_CACHE": str(tmp_path / "cache")}
    before = sorted(path.name for path in tmp_path.iterdir())
    said = modelyard("convert", model.name, "--no-bench", cwd=tmp_path, before=limit, env=cache)
    assert said.no_traceback().code == 6, said.err
    assert "too large" in said.err.lower()
    left = [path.name for path in tmp_path.iterdir() if path.name != "cache"]
    assert sorted(left) == before


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--to", "tflight"], "tflight"),
        (["--serve", "trition"], "trition"),
        (["--precision", "int9"], "int9"),
        (["--input", "image"], "--input"),
        (["--dim", "width=4"], "width"),
        (["--max-batch", "many"], "max-batch"),
        (["--batch", "some"], "--batch"),
        (["--name", "a/b"], "name"),
        (["--provider", "quantum"], "quantum"),
        (["--metric", "top3"], "top3"),
        (["--skip-pass", "nothing"], "nothing"),
    ],
)
def test_wrong_options(model: Path, args: list[str], says: str) -> None:
    before = sorted(path.name for path in model.parent.iterdir())
    said = modelyard("convert", model.name, "--no-bench", *args, cwd=model.parent).no_traceback()
    assert said.code in (2, 5), said.err
    assert says in said.err
    assert sorted(path.name for path in model.parent.iterdir()) == before


def test_a_missed_gate_leaves_only_its_report(model: Path) -> None:
    args = ["--max-latency", "0.000001", "--bench-seconds", "0.2", "--out", "out"]
    said = modelyard("convert", model.name, *args, cwd=model.parent).no_traceback()
    assert said.code == 4, said.err
    assert "latency" in said.err
    left = sorted(path.name for path in (model.parent / "out.failed").iterdir())
    assert left == ["manifest.json", "report.html", "report.json"]
    assert not (model.parent / "out").exists()
    shutil.rmtree(model.parent / "out.failed")


def test_an_error_as_json(tmp_path: Path) -> None:
    said = modelyard("convert", "nothing.onnx", "--json", cwd=tmp_path)
    assert said.code == 2
    assert said.json["error"] == "usage"
    assert said.json["exit_code"] == 2
