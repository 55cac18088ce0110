"""An output folder looked at again: check, bench, inspect and diff take it, or a part of it."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.cli import command, converted_cnn, small_cnn, typed, written

CHECKED = "check build/cnn --against cnn.onnx --samples samples.npz --json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``build/cnn`` holds onnx and tflite, in fp32 and int8, made of ``cnn.onnx``."""
    options = "--to onnx,tflite --precision fp32,int8 --few-samples"
    return converted_cnn(tmp_path_factory.mktemp("folders"), options)


def test_every_artifact_of_a_folder_is_checked_in_its_own_precision(folder: Path) -> None:
    said = typed(CHECKED, folder)
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
    said = typed(f"{CHECKED} --to onnx --min-cosine 0.99999", folder, 4)
    good, bad = said.json["artifacts"]
    assert good["precision"] == "fp32" and "error" not in good
    assert bad["precision"] == "int8" and bad["error"] == "gate"
    assert "onnx int8" in said.err


@pytest.mark.parametrize(("named", "titles"), [
    ("build/cnn/onnx", ["onnx fp32", "onnx int8"]),
    ("build/cnn/tflite/int8", ["tflite int8"]),
    ("build/cnn --precision fp32", ["onnx fp32", "tflite fp32"]),
])  # fmt: skip
def test_a_part_of_a_folder(folder: Path, named: str, titles: list[str]) -> None:
    found = typed(f"inspect {named} --json", folder).json["artifacts"]
    assert [f"{item['target']} {item['precision']}" for item in found] == titles
    shown = typed(f"inspect {named}", folder).out
    assert all(title in shown for title in titles)


def test_bench_and_diff_take_a_folder_and_its_parts(folder: Path) -> None:
    said = typed("bench build/cnn/onnx --against cnn.onnx --bench-seconds 0.05", folder)
    assert "onnx fp32" in said.out and "onnx int8" in said.out
    typed("diff build/cnn/onnx/fp32 build/cnn/tflite/fp32", folder)
    said = typed("diff build/cnn cnn.onnx", folder, 2)
    assert "build/cnn/onnx/int8" in said.err, "where there are several, they are named"


@pytest.mark.parametrize(("args", "says"), [
    ("build/cnn --to coreml", "It holds: onnx fp32, onnx int8, tflite fp32"),
    ("cnn.onnx --to onnx", "cnn.onnx isn't an output folder"),
    ("build", "isn't an artifact"),
])  # fmt: skip
def test_what_is_not_there(folder: Path, args: str, says: str) -> None:
    assert says in typed(f"check {args} --against cnn.onnx", folder, 2).err


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
    typed("convert m.onnx --layout nhwc --dim high=5 --dim wide=7 --no-bench", tmp_path)
    typed("check build/m --against m.onnx --json", tmp_path)
    said = typed("check build/m --against m.onnx --layout nchw", tmp_path, None)
    assert said.no_traceback().code in (2, 3, 4), "what is given goes first"


COUNTED = """
import os
import torch

def say(what):
    if "RUNS" in os.environ:
        with open(os.environ["RUNS"], "a") as file:
            file.write(what + "\\n")

say("read")

class Net(torch.nn.Module):
    def forward(self, x):
        say("run")
        return x.softmax(-1) @ torch.eye(64).flip(0)
"""


@pytest.mark.slow
def test_a_folders_source_is_read_once_and_runs_once_on_each_input(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(COUNTED)
    given = "--input x:batchx64 --samples random:8"
    several = "--precision fp32,fp16,int8-dynamic"
    typed(f"convert net.py:Net {given} {several} --no-bench", tmp_path)

    def runs(what: str) -> list[str]:
        log = tmp_path / "runs"
        log.unlink(missing_ok=True)
        line = shlex.split(f"check {what} --against net.py:Net {given}")
        command(*line, cwd=tmp_path, env={"RUNS": str(log)}, code=0)
        return log.read_text().split()

    one, three = runs("build/net/onnx/fp32"), runs("build/net")
    assert three.count("read") == 1
    assert three.count("run") == one.count("run") >= 9, "each sample once, the first again"


# -- help ---------------------------------------------------------------------------------


def test_the_help_shows_the_usual_options_and_help_all_the_others() -> None:
    usual, everything = (command("convert", flag).out for flag in ("--help", "--help-all"))
    shown = [line for line in usual.splitlines() if line.startswith("  --")]
    assert 20 <= len(shown) <= 24  # twenty, and --json and its like
    assert "--precision" in usual and "--version-policy" not in usual
    assert "--version-policy" in everything
    words = " ".join(everything.split())  # a default stands at the end, where there is one
    assert "The order of colours. [rgb]" in words and "from the input's shape. [" not in words
    assert "--image-std" in usual
    whole = re.sub(r"-\n +", "-", usual)  # a line may end at a hyphen
    for value in ("tensorrt-rtx", "int16x8", "triton", "top5"):
        assert value in whole
    assert "--help-all" not in command("run", "--help").out


def test_names_that_are_declared_for_the_help_are_those_that_work() -> None:
    from converter.options.request import options
    from converter.options.values import VALUES
    from converter.runtime import ort

    assert set(VALUES["providers"]()) == set(ort.PROVIDERS)
    assert {option.values for option in options().values()} - {""} == set(VALUES)


def test_which_options_of_a_folder_count() -> None:
    """Those of the source where it is the same one; labels where the samples are; never what only
    the user may allow, or files whose folders aren't known."""
    from converter.errors import UsageError
    from converter.pipeline.folders import Found

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


def test_what_is_in_the_file_of_a_package_is_counted(tmp_path: Path) -> None:
    """A package has the artifact's own file under a second name: a hard link."""
    weights = np.ones((1024, 1024), np.float32)
    text = "g (float[batch, 1024] x) => (float[batch, 1024] y) { y = MatMul(x, w) }"
    written(tmp_path / "m.onnx", text, w=weights)
    typed("convert m.onnx --serve triton --no-bench --out out", tmp_path)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["artifacts"][0]["stored"] == {"float32": weights.nbytes}
    assert "couldn't be counted" not in str(report)
