"""Lower precisions, as users ask for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from converter import api
from converter.errors import GateError, UsageError
from converter.ir import Model
from tests.acceptance.cli import small_cnn


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return small_cnn(tmp_path / "model.onnx")


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    images = np.random.default_rng(3).standard_normal((16, 3, 16, 16)).astype(np.float32)
    path = tmp_path / "samples.npz"
    np.savez(path, image=images)
    return path


def _kinds(out: Path, precision: str) -> Counter[str]:
    model = Model.load(out / "onnx" / precision / "model.onnx")
    return Counter(node.op_type for node in model.nodes())


@pytest.mark.slow
def test_all_precisions_side_by_side(model: Path, samples: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = api.convert(
        str(model),
        precision=["fp32", "fp16", "int8", "int8-dynamic"],
        samples=str(samples),
        out=str(out),
        bench=False,
    )
    assert made.report is not None
    for artifact in made.report.artifacts:
        assert {gate.status for gate in artifact.gates} == {"passed"}, artifact.title
        assert (artifact.precision == "fp32") == (not artifact.decisions)
    assert "QuantizeLinear" not in _kinds(out, "fp32")
    assert _kinds(out, "int8")["QuantizeLinear"] >= 2
    assert _kinds(out, "int8-dynamic")["MatMulInteger"] == 1
    half = Model.load(out / "onnx" / "fp16" / "model.onnx")
    large = [w for w in half.initializers() if w.const_value is not None and w.const_value.size > 9]
    assert {w.dtype for w in large} == {onnx_ir.DataType.FLOAT16}


def test_int8_is_never_calibrated_on_made_up_values_unasked(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="int8 needs samples"):
        api.convert(str(model), precision=["int8"], out=str(tmp_path / "out"), bench=False)
    made = api.convert(
        str(model), precision=["int8"], samples="random:8", out=str(tmp_path / "out"), bench=False
    )
    assert made.report is not None


def test_too_few_samples(model: Path, samples: Path, tmp_path: Path) -> None:
    options = {"precision": ["int8"], "samples": str(samples), "samples_limit": 2, "bench": False}
    with pytest.raises(UsageError, match="--few-samples"):
        api.convert(str(model), out=str(tmp_path / "out"), **options)
    api.convert(str(model), out=str(tmp_path / "out"), few_samples=True, **options)


def test_what_stays_in_float_is_named(model: Path, samples: Path, tmp_path: Path) -> None:
    made = api.convert(
        str(model),
        precision=["int8"],
        samples=str(samples),
        keep_float=["Conv"],
        out=str(tmp_path / "out"),
        bench=False,
    )
    assert made.report is not None
    lines = made.report.artifacts[0].decisions
    assert any("(Conv) stays float32" in line for line in lines), lines
    with pytest.raises(UsageError, match="names no node"):
        api.convert(
            str(model),
            precision=["int8"],
            samples=str(samples),
            keep_float=["Nonsense*"],
            out=str(tmp_path / "other"),
            bench=False,
        )


@pytest.mark.slow
def test_a_budget_that_can_not_be_met(model: Path, samples: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(GateError, match="cosine"):
        api.convert(
            str(model),
            precision=["int8"],
            samples=str(samples),
            min_cosine=0.999999999,
            out=str(out),
            bench=False,
        )
    assert not out.exists()
