"""Several models in one output: parts of a recipe, or of a call in Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

import modelyard
from converter.errors import UsageError
from converter.pipeline.folders import artifacts_of
from converter.pipeline.left_out import _remove_but
from tests.acceptance.cli import command, images, names, small_cnn, tree, typed, written

MLP = "mlp (float[batch, 4] x) => (float[batch, 3] y) { h = MatMul(x, w) y = Relu(h) }"
BOTH = {
    "classify": {"source": "cnn.onnx", "samples": "samples.npz"},
    "read": {"source": "mlp.onnx"},
}


def recipe(folder: Path, parts: dict[str, Any], **beside: Any) -> str:
    """A recipe with parts in a folder with two models; gives its name."""
    small_cnn(folder / "cnn.onnx")
    images(folder / "samples.npz")
    weights = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    written(folder / "mlp.onnx", MLP, w=weights)
    options = {"to": ["onnx", "tflite"], "samples": "random:8", "bench": False, **beside}
    (folder / "both.yaml").write_text(yaml.safe_dump({**options, "parts": parts}))
    return "both.yaml"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an output of two parts in ``out``, and each of them converted alone."""
    folder = tmp_path_factory.mktemp("parts")
    named = recipe(folder, BOTH, serve="triton")
    command("run", named, "--out", "out", cwd=folder, code=0)
    typed("convert cnn.onnx --to onnx,tflite --serve triton --samples samples.npz --no-bench "
          "--name classify --out classify", folder)  # fmt: skip
    typed("convert mlp.onnx --to onnx,tflite --serve triton --samples random:8 --no-bench "
          "--name read --out read", folder)  # fmt: skip
    return folder


def test_one_output_of_both(made: Path) -> None:
    out = made / "out"
    assert names(out) == ["README.md", "classify", "manifest.json", "read", "report.html",
                          "report.json", "serving"]  # fmt: skip
    assert names(out / "serving/triton") == ["classify", "read"]
    for part in ("classify", "read"):  # as each is alone, byte for byte
        alone = tree(made / part)
        for place, folder in ((out / part, ""), (out / "serving", "serving/")):
            for name, data in tree(place).items():
                if folder and not name.startswith(f"triton/{part}/"):
                    continue
                assert alone[folder + name] == data, name
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "passed"
    titles = [(item["part"], item["target"], item["path"]) for item in report["artifacts"]]
    assert ("read", "tflite", "read/tflite/fp32/model.tflite") in titles and len(titles) == 4
    assert report["parts"]["classify"]["samples"]["origin"] == "samples.npz"
    assert "classify/parse" in [item["step"] for item in report["timings"]]
    page = (out / "report.html").read_text()
    assert "<h2>read: source</h2>" in page and "classify tflite fp32" in page


def test_the_manifest_says_what_is_of_which(made: Path) -> None:
    manifest = json.loads((made / "out/manifest.json").read_text())
    assert manifest["parts"]["classify"]["request"]["source"] == "cnn.onnx"
    assert manifest["parts"]["read"]["request"]["samples"] == "random:8"
    assert {item["path"] for item in manifest["source_files"]} == {
        "classify/cnn.onnx", "read/mlp.onnx"}  # fmt: skip
    assert {item["part"] for item in manifest["packages"]} == {"classify", "read"}


def test_commands_take_the_output_or_a_part(made: Path) -> None:
    both = typed("check out --against classify=cnn.onnx --against read=mlp.onnx --json", made).json
    assert [item["verdict"] for item in both["artifacts"]] == ["passed"] * 4
    one = typed("check out/read --against mlp.onnx --json", made).json
    assert [item["target"] for item in one["artifacts"]] == ["onnx", "tflite"]
    missing = typed("check out --against cnn.onnx", made, code=2).err
    assert (
        "--against names no source for that part" in missing and "--against read=SOURCE" in missing
    )
    other = typed("check out/read/onnx --against classify=cnn.onnx", made, code=2).err
    assert "--against names no source for that part" in other
    assert "x: float32[batch, 4]" in typed("inspect out/read", made).out
    assert len(typed("inspect out --json", made).json["artifacts"]) == 4
    assert typed("bench out/read --to onnx --bench-seconds 0.05", made).out
    typed("diff out/read/onnx mlp.onnx --samples random:2 --gate", made)
    assert "holds 2 packages" in typed("bench out --server http://127.0.0.1:9", made, code=2).err


def test_a_part_is_loaded(made: Path) -> None:
    with modelyard.load(str(made / "out/read"), "tflite") as net:
        ones = net(np.ones((1, 4), np.float32))["y"]
    weights = onnx.numpy_helper.to_array(onnx.load(made / "mlp.onnx").graph.initializer[0])
    np.testing.assert_allclose(ones, np.maximum(weights.sum(0, keepdims=True), 0), rtol=1e-5)
    with pytest.raises(UsageError, match="has the parts classify, read"):
        modelyard.load(str(made / "out"))


def test_a_part_that_misses_its_gate(tmp_path: Path) -> None:
    """The run fails for it; with --keep-going, the part alone."""
    read = {"source": "mlp.onnx", "precision": ["fp32", "int8"], "max-abs-error": 1e-9}
    named = recipe(tmp_path, {**BOTH, "read": read}, to=["onnx"])
    said = command("run", named, "--out", "out", cwd=tmp_path, code=4)
    assert "read onnx int8" in said.err and names(tmp_path / "out.failed") == [
        "manifest.json", "report.html", "report.json"]  # fmt: skip
    assert not (tmp_path / "out").exists()
    command("run", named, "--out", "out", "--keep-going", cwd=tmp_path, code=4)
    made = artifacts_of(str(tmp_path / "out")) or []
    assert [item.title for item in made] == ["classify onnx fp32", "read onnx fp32"]


@pytest.mark.parametrize("broken", [b"garbage", None])
def test_a_part_that_cant_be_converted(tmp_path: Path, broken: bytes | None) -> None:
    """What is no model is seen before anything runs, what no batch can have when it runs."""
    named = recipe(tmp_path, BOTH, to=["onnx"])
    if broken:
        (tmp_path / "mlp.onnx").write_bytes(broken)
    else:
        text = "bad (float[batch, 4] x) => (float[batch, 3] y) { y = Reshape(x, shape) }"
        written(tmp_path / "mlp.onnx", text, shape=np.array([-1, 3, 7], np.int64))
    said = command("run", named, "--out", "out", cwd=tmp_path, code=3)
    assert said.err.startswith("error[") and not (tmp_path / "out").exists()
    said = command("run", named, "--out", "out", "--keep-going", cwd=tmp_path, code=4)
    assert "read couldn't be converted" in said.err and "NOT CONVERTED: read" in said.out
    assert names(tmp_path / "out") == ["README.md", "classify", "manifest.json", "report.html",
                                       "report.json"]  # fmt: skip
    assert json.loads((tmp_path / "out/manifest.json").read_text())["parts"]["read"]["failed"]


def test_of_a_part_that_fails_late_nothing_is_left(made: Path, tmp_path: Path) -> None:
    """Its artifacts and packages, half-made ones too; the others' packages stay."""
    serving = shutil.copytree(made / "out/serving", tmp_path / "serving")
    (serving / "triton/half/1").mkdir(parents=True)
    (serving / "litserve/read").mkdir(parents=True)
    kept = tree(serving / "triton/classify")
    _remove_but(serving, {serving / "triton/classify"})
    assert names(serving) == ["triton"] and names(serving / "triton") == ["classify"]
    assert tree(serving / "triton/classify") == kept
    _remove_but(serving, set())
    assert not serving.exists()


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"a": {"source": "mlp.onnx", "out": "x"}}, "part a: out holds for the whole run"),
        ({"a": {"source": "mlp.onnx"}, "A": {"source": "cnn.onnx"}}, "would have the same folder"),
        ({"serving": {"source": "mlp.onnx"}}, "'serving' can't be a part's name"),
        ({"../a": {"source": "mlp.onnx"}}, "can't be a part's name"),
        ({"a": {"to": "onnx"}}, "part a: it names no source"),
        ({"a": {"source": "mlp.onnx", "tto": "onnx"}}, "did you mean to?"),
        ({"a": {"source": "gone.onnx"}}, "a: there is no"),
        ({"a": {"source": "net.py:Net"}}, "a: source: "),
        ({"a": {"source": "mlp.onnx", "name": "n"}, "b": {"source": "cnn.onnx", "name": "N"}},
         "would both be called N on triton"),
        ({"a": {"source": "mlp.onnx", "precision": ["fp32", "fp16"]},
          "a_fp16": {"source": "cnn.onnx"}}, "would both be called a_fp16 on triton"),
        ({}, "has parts that aren't a mapping"),
        (["mlp.onnx"], "has parts that aren't a mapping"),
    ],
)  # fmt: skip
def test_what_cant_be_parts(tmp_path: Path, parts: Any, says: str) -> None:
    named = recipe(tmp_path, parts, to=["onnx"], serve="triton")
    before = sorted(tmp_path.rglob("*"))
    said = command("run", named, "--out", "out", cwd=tmp_path, code=2)
    assert says in said.err and sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_names_every_step(tmp_path: Path) -> None:
    named = recipe(tmp_path, BOTH, to=["onnx"])
    plan = command("run", named, "--dry-run", "--json", cwd=tmp_path, code=0).json
    ids = [step["id"] for step in plan["steps"]]
    assert "classify/emit:onnx:fp32" in ids and "read/check:onnx:fp32" in ids
    needs = {need for step in plan["steps"] for need in step["needs"]}
    assert needs <= {*ids} and plan["name"] == "classify-read"


def test_what_parts_have_in_common_is_done_once(tmp_path: Path) -> None:
    """One source twice: it is read, simplified and run once, with a cache and without."""
    parts = {"a": {"source": "mlp.onnx"}, "b": {"source": "mlp.onnx", "to": "tflite"}}
    named = recipe(tmp_path, parts, to=["onnx"])
    said = command("run", named, "--out", "out", "--no-cache", "--json", cwd=tmp_path, code=0)
    took = {item["step"]: item["seconds"] for item in said.json["report"]["timings"]}
    shared = ("parse", "simplify", "reference")
    assert all(min(took[f"a/{name}"], took[f"b/{name}"]) == 0 for name in shared), took
    assert took["b/emit:tflite:fp32"] > 0


def test_a_warm_cache_knows_both_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    parts = {**BOTH, "read": {"source": "mlp.onnx", "precision": ["fp32", "int8"]}}
    named = recipe(tmp_path / "here", parts, to=["onnx"])
    command("run", named, "--out", "out", cwd=tmp_path / "here", code=0)
    there = shutil.copytree(tmp_path / "here", tmp_path / "deep/there")
    command("run", there / named, "--out", "again", cwd=tmp_path, code=0)
    report = json.loads((tmp_path / "again/report.json").read_text())
    anew = {item["step"].split("/")[1] for item in report["timings"] if not item["cached"]}
    made = {f"{kind}:onnx:{name}" for kind in ("emit", "check") for name in ("fp32", "int8")}
    assert anew == {"parse", "samples", "masks", *made}  # what isn't worth keeping
    found = [item["step"] for item in report["timings"] if item["cached"]]
    assert {"classify/simplify", "classify/reference", "read/calibrate"} <= {*found}


@pytest.mark.slow
def test_parts_of_different_frameworks(tmp_path: Path) -> None:
    """A Keras model and a scikit-learn pipeline, each in the process of its framework."""
    (tmp_path / "make.py").write_text(MAKE)
    subprocess.run([sys.executable, "make.py"], cwd=tmp_path, check=True, capture_output=True)
    result = modelyard.convert(
        {
            "picture": {"source": tmp_path / "net.keras", "samples": np.ones((4, 8), np.float32)},
            "table": {"source": tmp_path / "pipe.skops", "to": "onnx"},
        },
        to=["onnx", "tflite"], samples="random:8", bench=False, out=tmp_path / "out",
    )  # fmt: skip
    assert {name: sorted(made) for name, made in result.parts.items()} == {
        "picture": ["onnx:fp32", "tflite:fp32"], "table": ["onnx:fp32"]}  # fmt: skip
    assert all(item.verdict == "passed" for item in result.artifacts.values())
    assert result.report is not None
    formats = {name: part.source.format for name, part in result.report.parts.items()}
    assert formats == {"picture": "keras", "table": "sklearn"}


@pytest.mark.slow
def test_a_detector_and_a_recognizer(tmp_path: Path) -> None:
    """PP-OCRv4 as one output: one report, one manifest, one repository that Triton serves."""
    parts = {"detect": {"source": "zoo:pp-ocrv4-det"}, "recognize": {"source": "zoo:pp-ocrv4-rec"}}
    options = {"to": ["onnx", "tflite"], "serve": ["triton"], "bench": False, "parts": parts}
    (tmp_path / "ocr.yaml").write_text(yaml.safe_dump(options))
    command("run", "ocr.yaml", "--out", "ocr", cwd=tmp_path, code=0)
    report = json.loads((tmp_path / "ocr/report.json").read_text())
    titles = [(item["part"], item["target"]) for item in report["artifacts"]]
    assert titles == [(part, target) for part in parts for target in ("onnx", "tflite")]
    manifest = json.loads((tmp_path / "ocr/manifest.json").read_text())
    assert manifest["results"]["verdict"] == "passed" and [*manifest["parts"]] == [*parts]
    assert names(tmp_path / "ocr/serving/triton") == [*parts]
    with modelyard.serve(str(tmp_path / "ocr"), port=0) as served:
        place = served.addresses["detect v2"].split("/v2/")[0]
        checked = command("check", tmp_path / "ocr", "--server", place, "--json", code=0).json
    assert [item["verdict"] for item in checked["packages"]] == ["passed", "passed"]


MAKE = """
import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, numpy as np, skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
keras.utils.set_random_seed(0)
net = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(3)])
net.save("net.keras")
x = np.random.default_rng(0).standard_normal((60, 5))
pipe = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, x[:, 0] > 0)
skops.io.dump(pipe, "pipe.skops")
"""
