"""Lower precisions, as users ask for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from converter import api
from converter.errors import GateError, UsageError
from converter.ir import Model
from tests.acceptance.cli import small_cnn
from tests.passes.models import text_model


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
    with pytest.raises(GateError, match="cosine") as caught:
        api.convert(
            str(model),
            precision=["int8"],
            samples=str(samples),
            min_cosine=0.999999999,
            out=str(out),
            bench=False,
        )
    assert not out.exists()
    assert caught.value.exit_code == 4
    reached, *table = caught.value.details
    assert reached.startswith(("best reached: cosine 0.99", "best reached: cosine 1 \u2212 "))
    assert {row.split(":")[0] for row in table} >= {"Conv conv0", "Conv conv1", "Gemm fc"}


@pytest.mark.slow
def test_int8_of_int8_stays_what_it_is(model: Path, samples: Path, tmp_path: Path) -> None:
    """Not one more layer of rounding; and it is said."""
    options = {"precision": ["int8"], "samples": str(samples), "bench": False}
    api.convert(str(model), out=str(tmp_path / "once"), **options)
    once = tmp_path / "once" / "onnx" / "int8" / "model.onnx"
    made = api.convert(str(once), out=str(tmp_path / "again"), **options)
    assert made.report is not None
    (artifact,) = made.report.artifacts
    assert any("held integers already; left as they are" in line for line in artifact.decisions)
    assert artifact.accuracy is not None and (artifact.accuracy.cosine or 0) > 0.999999
    before, after = _kinds(tmp_path / "once", "int8"), _kinds(tmp_path / "again", "int8")
    assert before["QuantizeLinear"] == after["QuantizeLinear"]


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, -3.0])
def test_samples_that_are_all_the_same(value: float, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "flat.npz", image=np.full((16, 3, 16, 16), value, np.float32))
    made = api.convert(
        str(model),
        precision=["int8"],
        samples=str(tmp_path / "flat.npz"),
        out=str(tmp_path / "out"),
        bench=False,
    )
    assert made.report is not None
    (artifact,) = made.report.artifacts
    assert "failed" not in {gate.status for gate in artifact.gates}
    assert artifact.accuracy is not None
    if value:
        assert (artifact.accuracy.cosine or 0) > 0.999
    else:  # a network without biases gives 0 there, of which there is no cosine
        assert [output.blind for output in artifact.accuracy.outputs] == ["zero"]


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_a_calibration_sample_that_is_broken_is_named(
    value: float, word: str, model: Path, samples: Path, tmp_path: Path
) -> None:
    images = np.zeros((16, 3, 16, 16), np.float32)
    images[3, 0, 2, 1] = value
    np.savez(tmp_path / "broken.npz", image=images)
    with pytest.raises(
        UsageError, match=rf"broken.npz\[3\].*'image' holds {word} at \[0, 0, 2, 1\]"
    ):
        api.convert(
            str(model),
            precision=["int8"],
            samples=str(samples),
            calibration_samples=str(tmp_path / "broken.npz"),
            out=str(tmp_path / "out"),
            bench=False,
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_operator_without_int8_stays_is_counted_and_named(
    model: Path, samples: Path, tmp_path: Path
) -> None:
    proto = onnx.load(model)
    (relu,) = (node for node in proto.graph.node if node.op_type == "Relu")
    relu.op_type = "Selu"
    onnx.save(proto, model)
    made = api.convert(
        str(model),
        precision=["int8"],
        samples=str(samples),
        out=str(tmp_path / "out"),
        bench=False,
    )
    assert made.report is not None
    lines = made.report.artifacts[0].decisions
    assert any("5 nodes; 1 more could be, and stayed float32" in line for line in lines), lines
    assert any("(Selu) stays float32: onnxruntime-u8s8 has no int8 Selu" in line for line in lines)
    assert _kinds(tmp_path / "out", "int8")["Selu"] == 1


LOWEST = np.finfo(np.float32).min


def _attention(path: Path) -> Path:
    """Self-attention of eight tokens, some of them hidden by a mask of -3.4e38."""
    rng = np.random.default_rng(8)
    model = text_model(
        f"""
        m (float[batch, 8, 16] x, bool[batch, 8] m, float[16, 16] wq, float[16, 16] wk,
           float[16, 16] wv) => (float[batch, 8, 16] y)
        <float one = {{1}}, float low = {{{LOWEST}}}, int64[1] ax = {{1}}> {{
            q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
            kt = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, kt)
            u = Unsqueeze(m, ax) f = Cast <to = 1> (u) i = Sub(one, f) h = Mul(i, low)
            t = Add(s, h) p = Softmax(t) y = MatMul(p, v) }}"""
    )
    for name in ("wq", "wk", "wv"):
        value = next(item for item in model.graph.graph.inputs if item.name == name)
        array = (rng.standard_normal((16, 16)) / 4).astype(np.float32)
        value.const_value = onnx_ir.tensor(array, name=name)
        model.graph.graph.inputs.remove(value)
        model.graph.graph.register_initializer(value)
    model.save(path)
    return path


def test_int8_sees_clamped_masks_and_fp16_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    hidden = rng.random((12, 8)) > 0.4
    hidden[:, 0] = True
    values = rng.standard_normal((12, 8, 16)).astype(np.float32)
    np.savez(tmp_path / "s.npz", x=values, m=hidden)
    made = api.convert(
        str(_attention(tmp_path / "attention.onnx")),
        precision=["fp16", "int8"],
        samples=str(tmp_path / "s.npz"),
        out=str(tmp_path / "out"),
        bench=False,
    )
    assert made.report is not None
    half, int8 = made.report.artifacts
    assert any(line.startswith("clamp-masks: ") for line in int8.decisions), int8.decisions
    assert not any("clamp-masks" in line for line in half.decisions)
    steps = [item.step for item in made.report.timings]
    assert {"masks", "calibrate", "calibrate:int8"} <= set(steps)
    model = Model.load(tmp_path / "out" / "onnx" / "int8" / "model.onnx")
    for weight in model.initializers():
        assert weight.const_value is not None
        assert np.abs(weight.const_value.numpy().astype(np.float64)).max(initial=0) < 1e5
