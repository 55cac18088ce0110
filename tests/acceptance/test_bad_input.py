"""Bad input: its exit code, one clear message, no traceback, nothing left behind."""

import resource
from pathlib import Path

import onnx
import pytest

from tests.acceptance.cli import command, failed, modelyard, refused, small_cnn, typed, written

# -- files -------------------------------------------------------------------------------


def test_a_file_that_is_missing_or_truncated(model: Path) -> None:
    refused(2, "there is no nothing.onnx", model.parent, "nothing.onnx")
    model.write_bytes(model.read_bytes()[:-500])
    refused(3, "cut short", model.parent, model.name)
    model.write_bytes(b"hello, this is not a model\n" * 10)
    refused(3, "model.onnx", model.parent, model.name)


def test_a_folder_where_a_file_was_meant(model: Path) -> None:
    said = refused(2, "Modelyard can't read the format of .", model.parent, ".")
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
    said = refused(2, "has 2 class names", model.parent, model.name, "--samples", "random:4",
                   "--label-names", "names.txt")  # fmt: skip
    assert "scores: float32[batch, 10]" in said.err


def test_a_file_whose_name_is_no_model_s(model: Path) -> None:
    model.rename(model.with_name("mödel (1) ß.onnx"))
    said = command("convert", "mödel (1) ß.onnx", "--dry-run", cwd=model.parent, code=0)
    assert "m_del_1 would become build/m_del_1" in said.out


def test_a_weights_file_alone_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "net.pth").write_bytes(b"x" * 10)
    refused(2, "--weights", tmp_path, "net.pth")


def test_a_librarys_words_are_one_line_without_colours(tmp_path: Path) -> None:
    code = 'raise ValueError(f"no {chr(27)}[96mweights{chr(27)}[0m:{chr(10)}  none at all")'
    (tmp_path / "net.py").write_text(code)
    said = typed("convert net.py:Net --input x:2", tmp_path, 3)
    assert "no weights: none at all" in said.err
    assert "\\x1b" not in said.err and "\\n" not in said.err


# -- samples -----------------------------------------------------------------------------


def test_made_up_samples_that_the_model_refuses(tmp_path: Path) -> None:
    text = "g (float[b, 4] x, int64[2] shape) => (float[p, q] y) { y = Reshape(x, shape) }"
    written(tmp_path / "model.onnx", text)
    said = refused(3, "on the sample random[", tmp_path, "model.onnx")
    assert "give it --samples" in said.err


def test_a_free_dimension_without_a_size_is_named(tmp_path: Path) -> None:
    text = "g (float[batch, frames] x) => (float[batch, frames] y) { y = Relu(x) }"
    written(tmp_path / "m.onnx", text)
    refused(2, "frames", tmp_path, "m.onnx")
    typed("convert m.onnx --dim frames=7 --no-bench", tmp_path)


# -- outputs and options -----------------------------------------------------------------


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
    env["COVERAGE_PROCESS_START"] = ""  # what is traced is in a file that grows larger
    args = ("convert", model.name, "--no-bench", *few)
    said = modelyard(*args, cwd=model.parent, before=limit, env=env)
    says = "too large" if target == "steps" else "ulimit -f"
    failed(6, says, model.parent, before, said)


@pytest.mark.parametrize(("args", "says"), [
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
])  # fmt: skip
def test_wrong_options(model: Path, args: list[str], says: str) -> None:
    refused(2, says, model.parent, model.name, *args)
