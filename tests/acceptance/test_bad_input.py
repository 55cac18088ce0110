"""Bad input: its exit code, one clear message, no traceback, nothing left behind."""

import io
import pickle
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.acceptance.cli import Said, command, modelyard, small_cnn, written


def refused(code: int, says: str, folder: Path, *args: str | Path) -> Said:
    """A conversion in ``folder`` that has to fail so, and leave the folder as it was."""
    before = sorted(folder.rglob("*"))
    return failed(code, says, folder, before, command("convert", *args, "--no-bench", cwd=folder))


def failed(code: int, says: str, folder: Path, before: list[Path], said: Said) -> Said:
    """What was said, after making sure of its code, its one error and the folder's files."""
    assert said.no_traceback().code == code, said.err
    assert says.lower() in said.err.lower(), said.err
    assert said.err.lower().count("error:") == 1
    assert sorted(folder.rglob("*")) == before
    return said


# -- files -------------------------------------------------------------------------------


def _zip() -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (_zip(), "model.onnx"),
        (b"hello, this is not a model\n" * 10, "model.onnx"),
        (b'{"model": 1}', "model.onnx"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "model.onnx"),
        (np.random.default_rng(1).bytes(1000), "model.onnx"),
    ],
    ids=["empty", "zip", "text", "json", "png", "noise"],
)
def test_what_is_no_model(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    refused(3, says, tmp_path, "model.onnx")


def test_a_file_that_is_missing_or_truncated(model: Path) -> None:
    refused(2, "there is no nothing.onnx", model.parent, "nothing.onnx")
    model.write_bytes(model.read_bytes()[:-500])
    refused(3, "cut short", model.parent, model.name)


def test_a_folder_where_a_file_was_meant(model: Path) -> None:
    said = refused(2, ". is of no format that can be read", model.parent, ".")
    assert "It holds model.onnx: name the model's file." in said.err
    (model.parent / "empty").mkdir()
    refused(2, "saved_model.pb", model.parent, "empty")


def test_weights_that_are_missing_are_said_once_a_file(tmp_path: Path) -> None:
    whole = onnx.load(small_cnn(tmp_path / "whole.onnx"))
    onnx.save(whole, tmp_path / "model.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=0)  # fmt: skip
    (tmp_path / "w.bin").unlink()
    said = refused(3, "the file of its weights is missing (w.bin)", tmp_path, "model.onnx")
    assert said.err.count("w.bin") == 1 and "w0, w1, w2" in said.err


def test_names_of_other_classes_than_the_model_s(model: Path) -> None:
    (model.parent / "names.txt").write_text("cat\ndog\n")
    said = refused(2, "has 2 names", model.parent, model.name, "--samples", "random:4",
                   "--label-names", "names.txt")  # fmt: skip
    assert "scores: float32[batch, 10]" in said.err


def test_a_file_whose_name_is_no_model_s(model: Path) -> None:
    model.rename(model.with_name("mödel (1) ß.onnx"))
    said = command("convert", "mödel (1) ß.onnx", "--dry-run", cwd=model.parent)
    assert said.code == 0, said.err
    assert "m_del_1 would become build/m_del_1" in said.out


def test_a_weights_file_alone_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "net.pth").write_bytes(b"x" * 10)
    refused(2, "--weights", tmp_path, "net.pth")


def test_unknown_ops_and_domains_are_all_listed(tmp_path: Path) -> None:
    opsets = '<ir_version: 8, opset_import: ["" : 17, "com.example" : 1, "org.other" : 1]>'
    body = "[first] a = com.example.Foo(x) [second] b = Frobnicate(a) [third] y = org.other.Bar(b)"
    model = onnx.parser.parse_model(f"{opsets} g (float[1] x) => (float[1] y) {{ {body} }}")
    onnx.save(model, tmp_path / "model.onnx")
    said = refused(3, "com.example::Foo", tmp_path, "model.onnx")
    for name in ("first", "second", "third", "org.other::Bar", "Frobnicate"):
        assert name in said.err


def test_external_data_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(40))
    text = "g (float[10] x) => (float[10] y) { [add] y = Add(x, w) }"
    path = written(tmp_path / "inner" / "model.onnx", text, w=np.zeros(10, np.float32))
    proto = onnx.load(path)
    (tensor,) = proto.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")
    path.write_bytes(proto.SerializeToString())
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
        archive.writestr("net/data.pkl", pickle.dumps({"weight": Evil()}, protocol=2))
        archive.writestr("net/version", "3\n")
    args = ("net.py:Net", "--weights", "net.pth", "--input", "x:batchx2")
    assert "system" in refused(3, "trust", tmp_path, *args).err
    assert not (tmp_path / "pwned").exists()


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
    text = "g (float[batch, frames] x) => (float[batch, frames] y) { y = Relu(x) }"
    written(tmp_path / "m.onnx", text)
    refused(2, "frames", tmp_path, "m.onnx")
    said = command("convert", "m.onnx", "--dim", "frames=7", "--no-bench", cwd=tmp_path)
    assert said.code == 0, said.err


# -- outputs and options -----------------------------------------------------------------


def test_an_output_in_the_way(model: Path) -> None:
    (model.parent / "out").mkdir()
    (model.parent / "out" / "mine").write_text("mine")
    refused(2, "--overwrite", model.parent, model.name, "--out", "out")
    assert (model.parent / "out" / "mine").read_text() == "mine"
    refused(2, "mine", model.parent, model.name, "--out", "out/mine/out")


def limit() -> None:
    """No file may be larger than 200 kB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


@pytest.mark.parametrize("target", ["onnx", "tflite", "coreml", "steps"])
def test_the_file_size_limit(model: Path, tmp_path_factory: pytest.TempPathFactory,
                             target: str) -> None:  # fmt: skip
    """Of an artifact, or of what the cache keeps of a step."""
    small_cnn(model, channels=128)
    before = sorted(model.parent.rglob("*"))
    few = () if target == "steps" else ("--to", target, "--no-cache", "--no-check", "--no-simplify")
    env = {"MODELYARD_CACHE": str(tmp_path_factory.mktemp("cache"))}
    args = ("convert", model.name, "--no-bench", *few)
    said = modelyard(*args, cwd=model.parent, before=limit, env=env)
    says = "too large" if target == "steps" else "ulimit -f"
    failed(6, says, model.parent, before, said)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--to", "tflight"], "there is no target 'tflight'"),
        (["--to", "tflight"], "tflite"),
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
    refused(2, says, model.parent, model.name, *args)


def test_a_missed_gate_leaves_only_its_report(model: Path) -> None:
    args = ["--max-latency", "0.000001", "--bench-seconds", "0.2", "--out", "out"]
    said = command("convert", model.name, *args, cwd=model.parent).no_traceback()
    assert said.code == 4, said.err
    assert "latency" in said.err
    left = sorted(path.name for path in (model.parent / "out.failed").iterdir())
    assert left == ["manifest.json", "report.html", "report.json"]
    assert not (model.parent / "out").exists()


def test_an_error_as_json(tmp_path: Path) -> None:
    said = command("convert", "nothing.onnx", "--json", cwd=tmp_path)
    assert said.code == 2
    assert said.json["error"] == "usage"
    assert said.json["exit_code"] == 2
