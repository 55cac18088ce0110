"""An output folder looked at again: check, bench, inspect and diff take it, or a part of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.cli import command, images, small_cnn, written

LATENCY = ("--bench-seconds", "0.05")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``build/cnn`` holds onnx and tflite, in fp32 and int8, made of ``cnn.onnx``."""
    folder = tmp_path_factory.mktemp("folders")
    small_cnn(folder / "cnn.onnx")
    images(folder / "samples.npz")
    command(
        "convert", "cnn.onnx", "--to", "onnx,tflite", "--precision", "fp32,int8", "--few-samples",
        "--samples", "samples.npz", "--no-bench", cwd=folder, code=0,
    )  # fmt: skip
    return folder


def test_every_artifact_of_a_folder_is_checked_in_its_own_precision(folder: Path) -> None:
    said = command("check", "build/cnn", "--against", "cnn.onnx", "--samples", "samples.npz",
                     "--json", cwd=folder, code=0)  # fmt: skip
    limits = {
        (item["target"], item["precision"]): next(
            gate["limit"] for gate in item["gates"] if gate["name"] == "cosine"
        )
        for item in said.json["artifacts"]
    }
    assert limits == {
        ("onnx", "fp32"): 0.9999, ("onnx", "int8"): 0.99,
        ("tflite", "fp32"): 0.9999, ("tflite", "int8"): 0.99,
    }  # fmt: skip


def test_an_artifact_that_misses_does_not_keep_the_others(folder: Path) -> None:
    said = command("check", "build/cnn", "--to", "onnx", "--against", "cnn.onnx", "--samples",
                     "samples.npz", "--min-cosine", "0.99999", "--json", cwd=folder,
                     code=4)  # fmt: skip
    good, bad = said.json["artifacts"]
    assert good["precision"] == "fp32" and "error" not in good
    assert bad["precision"] == "int8" and bad["error"] == "gate"
    assert "onnx int8" in said.err


@pytest.mark.parametrize(("named", "titles"), [
    (["build/cnn/onnx"], ["onnx fp32", "onnx int8"]),
    (["build/cnn/tflite/int8"], ["tflite int8"]),
    (["build/cnn", "--precision", "fp32"], ["onnx fp32", "tflite fp32"]),
])  # fmt: skip
def test_a_part_of_a_folder(folder: Path, named: list[str], titles: list[str]) -> None:
    said = command("inspect", *named, "--json", cwd=folder, code=0)
    found = said.json["artifacts"]
    assert [f"{item['target']} {item['precision']}" for item in found] == titles
    shown = command("inspect", *named, cwd=folder).out
    assert all(title in shown for title in titles)


def test_bench_takes_a_folder(folder: Path) -> None:
    said = command("bench", "build/cnn/onnx", "--against", "cnn.onnx", *LATENCY, cwd=folder, code=0)
    assert "onnx fp32" in said.out and "onnx int8" in said.out


def test_diff_takes_parts_and_names_them_where_there_are_several(folder: Path) -> None:
    said = command("diff", "build/cnn/onnx/fp32", "build/cnn/tflite/fp32", cwd=folder, code=0)
    said = command("diff", "build/cnn", "cnn.onnx", cwd=folder, code=2)
    assert "build/cnn/onnx/int8" in said.err


@pytest.mark.parametrize(("args", "says"), [
    (["build/cnn", "--to", "coreml"], "It holds: onnx fp32, onnx int8, tflite fp32"),
    (["cnn.onnx", "--to", "onnx"], "cnn.onnx is none"),
    (["build"], "no artifact"),
])  # fmt: skip
def test_what_is_not_there(folder: Path, args: list[str], says: str) -> None:
    said = command("check", *args, "--against", "cnn.onnx", cwd=folder, code=2)
    assert says in said.err


def test_a_manifest_names_what_is_in_its_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    manifest = tmp_path / "out/manifest.json"
    text = (folder / "build/cnn/manifest.json").read_text()
    manifest.write_text(text)
    said = command("inspect", tmp_path / "out", code=2)
    assert "onnx fp32" in said.err and "isn't there" in said.err
    made = json.loads(text)
    made["artifacts"][0]["path"] = "../cnn.onnx"
    manifest.write_text(json.dumps(made))
    small_cnn(tmp_path / "cnn.onnx")
    command("inspect", tmp_path / "out", code=2)


def test_options_of_the_manifest_are_taken_where_none_are_given(tmp_path: Path) -> None:
    """Layout and free sizes: without them, neither the source nor the samples would fit."""
    text = """g (float[batch, 3, high, wide] x) => (float[batch, 4, high, wide] y) {
        [conv] y = Conv(x, w) }"""
    written(tmp_path / "m.onnx", text, 20, w=np.ones((4, 3, 1, 1), np.float32))
    sizes = ("--dim", "high=5", "--dim", "wide=7")
    said = command(
        "convert", "m.onnx", "--layout", "nhwc", *sizes, "--no-bench", cwd=tmp_path, code=0
    )
    said = command("check", "build/m", "--against", "m.onnx", "--json", cwd=tmp_path, code=0)
    said = command("check", "build/m", "--against", "m.onnx", "--layout", "nchw", cwd=tmp_path)
    assert said.no_traceback().code in (2, 3, 4), "what is given goes first"


# -- help ---------------------------------------------------------------------------------


def test_the_help_shows_the_usual_options_and_help_all_the_others() -> None:
    usual, everything = (command("convert", flag).out for flag in ("--help", "--help-all"))
    shown = [line for line in usual.splitlines() if line.startswith("  --")]
    assert 20 <= len(shown) <= 24  # twenty, and --json and its like
    assert "--precision" in usual and "--version-policy" not in usual
    assert "--version-policy" in everything
    for value in ("tensorrt-rtx", "int16x8", "triton", "top5"):
        assert value in usual
    assert "--help-all" not in command("run", "--help").out


def test_names_that_are_declared_for_the_help_are_those_that_work() -> None:
    from converter import ort
    from converter.option_values import VALUES
    from converter.request import _OPTIONS

    assert set(VALUES["providers"]()) == set(ort.PROVIDERS)
    assert {option.values for option in _OPTIONS.values()} - {""} == set(VALUES)


def test_which_options_of_a_folder_count() -> None:
    """Those of the source where it is the same one; labels where the samples are; never what only
    the user may allow, or files whose folders aren't known."""
    from converter.errors import UsageError
    from converter.folders import Found

    request = {
        "source": "net.py:Net", "weights": "net.pth", "inputs": ["x:batchx3"], "trust_source": True,
        "samples": "photos", "labels": "filename", "metric": ["top1", "a.py:f"],
        "image_mean": [0.5], "min_cosine": 0.9,
    }  # fmt: skip
    found = Found(Path("model.onnx"), "onnx", "int8", request)
    assert found.options("net.py:Net", {"samples": "photos"}) == {
        "inputs": ["x:batchx3"], "samples": "photos", "labels": "filename", "image_mean": [0.5],
        "metric": ["top1"], "min_cosine": 0.9, "precision": ["int8"],
    }  # fmt: skip
    other = found.options("other.onnx", {"min_cosine": 0.99})
    assert other == {"image_mean": [0.5], "min_cosine": 0.99, "precision": ["int8"]}
    with pytest.raises(UsageError, match="with --weights net"):
        found.require_weights("net.py:Net", {})
    found.require_weights("net.py:Net", {"weights": "there/net.pth"})
    found.require_weights("other.onnx", {})
