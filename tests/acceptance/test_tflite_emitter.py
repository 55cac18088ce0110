"""Real models as TFLite files, converted and checked as users do it: every precision that a model
is promised in, on LiteRT with XNNPACK and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from converter import api
from converter.check.gates import JUDGED
from converter.report.model import ArtifactReport
from tests.acceptance.cli import modelyard

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ccexam-mnist": ("fp32,fp16,int8,int16x8,int8-dynamic", {}),
    "efficientnet-lite0": ("fp32,fp16,int8,int16x8", {"weight_methods": ["bias"]}),
    "minilm": ("fp32,fp16,int8-dynamic", {}),
    "pp-ocrv4-det": ("fp32", {}),
    "pp-ocrv4-rec": ("fp32", {"simplify": False}),
    "silero-vad-ifless": ("fp32", {}),
    "fer": ("fp32,int8,int8-dynamic", {"few_samples": True}),
    "face-detection-short-range": ("fp32,int8", {"few_samples": True}),
    "wakeword-alexa": ("fp32", {}),
}
"""By the catalogue's names: precisions, and options."""


def _converted(name: str, folder: Path, precisions: str, **options: Any) -> list[ArtifactReport]:
    made = api.convert(
        f"zoo:{name}",
        to=["tflite"],
        precision=precisions.split(","),
        out=str(folder / "out"),
        bench=False,
        **options,
    )
    assert made.report is not None
    return made.report.artifacts


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_converts_and_passes(name: str, tmp_path: Path) -> None:
    precisions, options = CASES[name]
    artifacts = _converted(name, tmp_path, precisions, **options)
    assert [item.precision for item in artifacts] == precisions.split(",")
    for item in artifacts:
        untold = {gate.name: gate.status for gate in item.gates if not gate.passed}
        # a wake word's score is 0 for whatever isn't one: that isn't judged, and said not to be
        assert untold == ({JUDGED: "not judged"} if name.startswith("wakeword") else {})
        assert "interface without XNNPACK" in {gate.name for gate in item.gates}
        assert item.runtime["delegate"] == "xnnpack"


@pytest.mark.slow
def test_sizes_follow_the_precision(tmp_path: Path) -> None:
    items = _converted("ccexam-mnist", tmp_path, "fp32,fp16,int8,int8-dynamic")
    whole, half, full, dynamic = (item.bytes for item in items)
    assert half < 0.52 * whole and full < 0.28 * whole and dynamic < 0.28 * whole
    assert items[2].lowered_share == 1.0


def test_sixteen_bits_are_for_tflite(tmp_path: Path) -> None:
    ran = modelyard(
        "convert", "zoo:ccexam-mnist", "--to", "onnx,tflite", "--precision", "int16x8",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert ran.code == 2 and "onnx has no int16x8" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_integers_at_the_borders(tmp_path: Path, dtype: str) -> None:
    (item,) = _converted("ccexam-mnist", tmp_path, "int8", io_dtype=dtype)
    assert all(gate.passed for gate in item.gates)
    assert any(f"{dtype} instead of float32" in line for line in item.decisions)
    told = api.check(
        str(tmp_path / "out" / item.path),
        "zoo:ccexam-mnist",
        precision=["int8"],
        io_dtype=dtype,
    )
    assert all(gate.passed for gate in told.gates)


def test_bfloat16_is_refused(tmp_path: Path) -> None:
    ran = modelyard(
        "convert", "zoo:ccexam-mnist", "--to", "tflite", "--precision", "bf16",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert ran.code == 2 and "tflite has no bf16" in ran.err


def test_integers_at_the_borders_are_for_int8(tmp_path: Path) -> None:
    ran = modelyard(
        "convert", "zoo:ccexam-mnist", "--to", "tflite", "--io-dtype", "int8",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert ran.code == 2 and "--io-dtype int8 is for int8 artifacts" in ran.err
    ran = modelyard(
        "convert", "zoo:ccexam-mnist", "--to", "onnx", "--precision", "int8", "--io-dtype", "int8",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert ran.code == 2 and "onnx takes and gives" in ran.err
