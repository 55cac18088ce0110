"""A real model of every source format, through the command line to every target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli import modelyard

pytestmark = [pytest.mark.slow, pytest.mark.smoke]

CASES = {
    "ccexam-mnist": ("pytorch", "onnx,tflite,coreml,tensorrt,tensorrt-rtx"),
    "minilm": ("huggingface", "onnx"),
    "fer": ("keras", "tflite"),
    "basic-pitch": ("tensorflow", "onnx"),
    "basic-pitch-coreml": ("coreml", "onnx"),
    "face-detection-short-range": ("tflite", "onnx"),
    "silero-vad-ifless": ("onnx", "tflite"),
}
"""By the catalogue's names: the source's format, and targets."""


@pytest.mark.parametrize("name", CASES)
def test_from_source_to_target(name: str, tmp_path: Path) -> None:
    form, targets = CASES[name]
    said = modelyard(
        "convert", f"zoo:{name}", "--to", targets, "--no-bench", "--few-samples", "--out", "out",
        *(("--serve", "triton") if "onnx" in targets else ()), "--json", cwd=tmp_path,
    ).no_traceback()  # fmt: skip
    assert said.code == 0, said.err
    report = said.json["report"]
    assert report["source"]["format"] == form
    assert [item["target"] for item in report["artifacts"]] == targets.split(",")
    for item in report["artifacts"]:
        assert (tmp_path / "out" / item["path"]).exists()
        statuses = {gate["name"]: gate["status"] for gate in item["gates"]}
        assert statuses["cosine"] == "passed" and "failed" not in statuses.values()
    for metric in report["artifacts"][0]["metrics"]:
        assert (metric["source"], metric["candidate"], metric["samples"]) == (100, 100, 20)
    configs = list((tmp_path / "out" / "serving").glob("triton/*/config.pbtxt"))
    assert len(configs) == ("onnx" in targets)  # of what the server takes best
