"""What can't be is refused at once, all of it; with ``--keep-going``, what passed is given, what
missed leaves its report, and what can't be is named."""

import json
from pathlib import Path

import pytest

from converter.report.model import Report
from tests.acceptance.cli import Said, command, names, small_cnn, tree, written

FEW = ("--no-bench", "--samples", "random:8", "--few-samples", "--out", "out")
MISSED = ("--precision", "fp32,int8", "--max-abs-error", "1e-5")


def convert(folder: Path, *args: str, source: str = "model.onnx", code: int = 0) -> Said:
    return command("convert", source, *FEW, *args, cwd=folder, code=code)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    small_cnn(tmp_path / "model.onnx")
    return tmp_path


ODD = """g (int64[batch, 8] x) => (float[batch, 3] y) {
    [counts] y = TfIdfVectorizer<mode = "TF", min_gram_length = 1, max_gram_length = 1,
        max_skip_count = 0, ngram_counts = [0], ngram_indexes = [0, 1, 2],
        pool_int64s = [0, 1, 2]>(x) }"""
"""A model with a node that ONNX Runtime takes, and neither LiteRT nor Core ML."""


def report_of(folder: Path) -> Report:
    return Report.model_validate_json((folder / "report.json").read_text())


# -- a missed gate, a missed budget --------------------------------------------------------


@pytest.mark.slow
def test_what_strict_alone_misses_is_left_out_too(project: Path) -> None:
    said = convert(
        project, "--precision", "fp32,fp16", "--keep-float", "*", "--strict", "--keep-going", code=4
    )
    assert "onnx fp16 missed a gate" in said.err and "onnx fp32" in said.err
    assert names(project / "out" / "onnx") == ["fp32"]
    verdicts = [item.verdict for item in report_of(project / "out").artifacts]
    assert verdicts == ["passed", "failed"]


@pytest.mark.slow
def test_what_passed_is_given_and_what_missed_leaves_its_rows(project: Path) -> None:
    args = (*MISSED, "--serve", "triton", "--repository", "models", "--keep-going")
    said = convert(project, *args, code=4)
    assert "onnx int8" in said.err and str(project / "out") in said.err
    assert "the artifacts that passed" in said.err and "onnx fp32" in said.err
    assert "FAILED" in said.out  # the table of all of them is shown all the same
    files = tree(project / "out")
    assert "onnx/fp32/model.onnx" in files and not any("int8" in name for name in files)
    assert "serving/triton/model_fp32/1/model.onnx" in files
    assert names(project / "models") == ["model_fp32"]
    assert not (project / "out.failed").exists()
    found = {item.precision: item for item in report_of(project / "out").artifacts}
    assert (found["fp32"].verdict, found["int8"].verdict) == ("passed", "failed")
    assert found["int8"].path == "" and found["fp32"].path
    assert [item.path for item in report_of(project / "out").packages] == [
        "serving/triton/model_fp32"
    ]
    manifest = json.loads((project / "out" / "manifest.json").read_text())
    assert manifest["results"]["verdict"] == "failed"
    named = [item["path"] for item in (*manifest["files"], *manifest["measured"]["files"])]
    assert sorted([*named, "manifest.json"]) == sorted(files)
    assert convert(project, "--overwrite").code == 0  # it is an output like any other


def test_without_it_nothing_but_the_report_is_left(project: Path) -> None:
    said = convert(project, *MISSED, code=4)
    assert "--keep-going" in said.err and "onnx fp32" in said.err
    assert not (project / "out").exists()
    assert {name.split(".")[0] for name in tree(project / "out.failed")} == {"report", "manifest"}


def test_what_is_advised_was_not_given_already(project: Path) -> None:
    limit = ("--precision", "fp16", "--max-abs-error", "1e-9")
    said = convert(project, *limit, code=4)
    assert "Modelyard keeps as many layers in float32 as X needs" in said.err
    said = convert(project, *limit, "--min-cosine", "0.9", "--overwrite", code=4)
    assert "--min-cosine" not in said.err and "--keep-float" in said.err
    late = ("--precision", "fp16", "--bench", "--bench-seconds", "0.05", "--max-latency", "1e-9")
    said = convert(project, *late, "--overwrite", code=4)
    assert "latency p95" in said.err and "--min-cosine" not in said.err


def test_where_all_of_it_missed_nothing_is_given(project: Path) -> None:
    said = convert(
        project, "--precision", "fp32,fp16", "--max-abs-error", "-1", "--keep-going", code=4
    )
    assert "2 of 2 artifacts" in said.err and "--keep-going" not in said.err
    assert not (project / "out").exists() and (project / "out.failed" / "report.html").is_file()


@pytest.mark.slow
def test_a_budget_that_is_missed_stops_only_its_precision(project: Path) -> None:
    args = ("--precision", "int8,fp32", "--min-cosine", "0.99999999", "--to", "onnx,tensorrt")
    said = convert(project, *args, "--keep-going", code=4)
    assert "cosine >= 0.99999999 is not met" in said.err
    assert {path.parent.name for path in (project / "out").glob("*/*/model.onnx")} == {"fp32"}
    found = {item.title: item for item in report_of(project / "out").artifacts}
    assert found["onnx int8"].gates[0].name == "budget"
    assert found["tensorrt int8"].verdict == "failed"
    assert found["onnx fp32"].verdict == "passed"


# -- what can't be -------------------------------------------------------------------------


def test_what_cannot_be_is_refused_at_once_with_the_whole_list(project: Path) -> None:
    args = ("--to", "onnx,tflite,coreml", "--precision", "fp32,int16x8,bf16")
    said = convert(project, *args, code=2)
    for what in ("onnx has no int16x8", "coreml has no int16x8", "tflite has no bf16",
                 "coreml has no bf16"):  # fmt: skip
        assert what in said.err
    assert "--keep-going" in said.err and not (project / "out").exists()
    said = convert(project, "--to", "tflite", "--precision", "bf16", "--keep-going", code=2)
    assert "tflite has no bf16" in said.err
    assert "--keep-going" not in said.err


@pytest.mark.slow
def test_what_cannot_be_is_left_out_and_named(project: Path) -> None:
    args = ("--to", "onnx,tflite", "--precision", "fp32,bf16,int8-weights", "--keep-going")
    dry = convert(project, *args, "--dry-run")
    assert "SKIPPED: tflite bf16" in dry.out
    said = convert(project, *args)
    assert "SKIPPED: tflite bf16: tflite has no bf16" in said.out
    assert "SKIPPED: onnx int8-weights: int8-weights stores" in said.out  # found out on the way
    report = report_of(project / "out")
    assert any("SKIPPED: tflite int8-weights" in text for text in report.loud)
    titles = {item.title for item in report.artifacts}
    assert titles == {"onnx fp32", "onnx bf16", "tflite fp32"}


BY = """by (float[2, 3] x, int64[1] axes) => (float[a, b] y, float[c, d] z) {
    [sum] y = ReduceSum<keepdims = 1>(x, axes)
    n = Neg(x)
    [other] z = ReduceSum<keepdims = 1>(n, axes) }"""
"""Operators that LiteRT and Core ML have, by axes that only an input knows."""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tflite", "coreml"])
def test_what_shows_when_nodes_are_lowered_is_told_whole(project: Path, target: str) -> None:
    written(project / "by.onnx", BY)
    said = convert(project, "--to", target, source="by.onnx", code=3)
    assert f"{target} can't take 2 " in said.err
    assert "ReduceSum (sum)" in said.err and "ReduceSum (other)" in said.err
    assert not (project / "out").exists()


@pytest.mark.slow
def test_what_shows_when_nodes_are_lowered_is_told_of_all_targets(project: Path) -> None:
    written(project / "by.onnx", BY)
    args = ("--to", "onnx,coreml,tflite")
    said = convert(project, *args, source="by.onnx", code=3)
    for target in ("tflite", "coreml"):
        assert f"{target} can't take 2 " in said.err
        assert f"{target}: ReduceSum (sum)" in said.err
        assert f"{target}: ReduceSum (other)" in said.err
    assert "--keep-going" in said.err and not (project / "out").exists()
    convert(project, *args, "--keep-going", source="by.onnx")
    assert {path.name for path in (project / "out").iterdir() if path.is_dir()} == {"onnx"}


@pytest.mark.slow
def test_a_model_that_some_targets_cannot_take(project: Path) -> None:
    written(project / "odd.onnx", ODD)
    args = ("--to", "onnx,tflite,coreml", "--precision", "fp32")
    said = convert(project, *args, source="odd.onnx", code=3)
    assert "tflite: TfIdfVectorizer (counts)" in said.err
    assert "coreml: TfIdfVectorizer (counts)" in said.err
    assert "--keep-going" in said.err and not (project / "out").exists()
    said = convert(project, *args, "--keep-going", source="odd.onnx")
    assert "SKIPPED: tflite fp32: tflite can't take 1 nodes" in said.out
    assert "TfIdfVectorizer (counts)" in said.out
    assert {path.name for path in (project / "out").iterdir() if path.is_dir()} == {"onnx"}
    said = convert(project, "--to", "tflite,coreml", "--keep-going", "--overwrite",
                   source="odd.onnx", code=3)  # fmt: skip
    assert "--keep-going" not in said.err
