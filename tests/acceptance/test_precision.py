"""Lower precisions, as users ask for them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from bench import precision_data as data
from bench.precision_checks import Made, float16_everywhere
from bench.precision_shares import share_of
from converter import api, plugins
from converter.errors import GateError, UsageError
from converter.ir.model import Model
from converter.report.model import ArtifactReport
from converter.runtime.ort_integers import saturates
from tests.acceptance.cli import written
from tests.schemes import HERE


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    images = np.random.default_rng(3).standard_normal((16, 3, 16, 16)).astype(np.float32)
    path = tmp_path / "samples.npz"
    np.savez(path, image=images)
    return path


def _made(model: Path, out: Path, *precisions: str, **options: Any) -> list[ArtifactReport]:
    """What comes of a model in these precisions, int8 where none is named."""
    precision = list(precisions) or ["int8"]
    if options.get("to", ["onnx"]) == ["onnx"]:
        options = {**HERE, **options}
    made = api.convert(str(model), precision=precision, out=str(out), bench=False, **options)
    assert made.report is not None
    return made.report.artifacts


def test_int8_is_never_calibrated_on_made_up_values_or_few_unasked(
    model: Path, samples: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="int8 needs samples"):
        _made(model, tmp_path / "out")
    with pytest.raises(UsageError, match="int8 needs samples"):
        api.convert(str(model), precision="int8", dry_run=True)
    (tmp_path / "empty").mkdir()
    for missing in ("nowhere", "nowhere.py:rows", str(tmp_path / "empty"), "random:0"):
        with pytest.raises(UsageError, match="--samples"):
            api.convert(str(model), samples=missing, dry_run=True)
    assert _made(model, tmp_path / "out", samples="random:8")
    options = {"samples": str(samples), "samples_limit": 2}
    with pytest.raises(UsageError, match="--few-samples"):
        _made(model, tmp_path / "few", **options)
    assert _made(model, tmp_path / "few", few_samples=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, -3.0])
def test_samples_that_are_all_the_same(value: float, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "flat.npz", image=np.full((16, 3, 16, 16), value, np.float32))
    (artifact,) = _made(model, tmp_path / "out", samples=str(tmp_path / "flat.npz"))
    assert "failed" not in {gate.status for gate in artifact.gates}
    assert artifact.accuracy is not None
    if value:
        assert (artifact.accuracy.cosine or 0) > 0.999
    else:  # a network without biases gives 0 there, of which there is no cosine
        assert [output.blind for output in artifact.accuracy.outputs] == ["zero"]


@pytest.mark.slow
def test_digits(tmp_path: Path) -> None:
    """A small trained model on 300 digits, of which one is a third of a point."""
    out = tmp_path / "out"
    digits = {"samples": str(data.judged_digits(tmp_path, 16)), "labels": "label"}
    calibration = {"calibration_samples": str(data.calibration_digits(tmp_path))}
    items = _made(Path("zoo:ccexam-mnist"), out, "fp32", "fp16", "int8", **digits, **calibration)
    for artifact, cosine in zip(items, (0.9999, 0.9999, 0.99), strict=True):
        assert {gate.status for gate in artifact.gates} == {"passed"}, artifact.title
        assert artifact.accuracy is not None and (artifact.accuracy.cosine or 0) >= cosine
        assert artifact.metrics[0].drop <= 0.34
    plain, half, int8 = items
    assert share_of(out / int8.path).share == 1.0
    model, options = Path("zoo:ccexam-mnist"), {"to": ["coreml"], **digits, **calibration}
    (int8,) = _passed(_made(model, tmp_path / "coreml", **options))
    assert int8.lowered_share == 1.0 and int8.metrics[0].drop <= 0.5
    found, enough = float16_everywhere().measure(
        Made(out / plain.path, out / half.path, half, tmp_path)
    )
    assert enough, found


LOWEST = np.finfo(np.float32).min


def _attention(path: Path) -> Path:
    """Self-attention of eight tokens, some of them hidden by a mask of -3.4e38."""
    rng = np.random.default_rng(8)
    weights = {
        name: (rng.standard_normal((16, 16)) / 4).astype(np.float32) for name in ("wq", "wk", "wv")
    }
    text = f"""m (float[batch, 8, 16] x, bool[batch, 8] m) => (float[batch, 8, 16] y)
        <float one = {{1}}, float low = {{{LOWEST}}}, int64[1] ax = {{1}}> {{
            q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
            kt = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, kt)
            u = Unsqueeze(m, ax) f = Cast <to = 1> (u) i = Sub(one, f) h = Mul(i, low)
            t = Add(s, h) p = Softmax(t) y = MatMul(p, v) }}"""
    return written(path, text, 20, **weights)


def test_int8_and_fp16_see_clamped_masks(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    hidden = rng.random((12, 8)) > 0.4
    hidden[:, 0] = True
    values = rng.standard_normal((12, 8, 16)).astype(np.float32)
    np.savez(tmp_path / "s.npz", x=values, m=hidden)
    made = api.convert(
        str(_attention(tmp_path / "attention.onnx")), precision=["fp16", "int8"],
        samples=str(tmp_path / "s.npz"), out=str(tmp_path / "out"), bench=False, **HERE,
    )  # fmt: skip
    assert made.report is not None
    for artifact in made.report.artifacts:
        assert any(line.startswith("clamp-masks: ") for line in artifact.decisions)
    assert {"masks", "calibrate"} <= {item.step for item in made.report.timings}
    for precision in ("fp16", "int8"):
        model = Model.load(tmp_path / "out" / "onnx" / precision / "model.onnx")
        for weight in model.initializers():
            assert weight.const_value is not None
            assert np.abs(weight.const_value.numpy().astype(np.float64)).max(initial=0) < 2e4


@pytest.mark.parametrize("reduced", [True, False])
def test_products_that_saturate(reduced: bool, model: Path, samples: Path, tmp_path: Path) -> None:
    """On x86 CPUs without VNNI, weights of 8 bits are told of, and fail the check where they are
    wrong there; those of 7 bits are right everywhere."""
    proto = onnx.load(model)
    for weight in proto.graph.initializer:  # all of one sign, the largest at both ends
        array = onnx.numpy_helper.to_array(weight)
        weight.CopyFrom(onnx.numpy_helper.from_array(np.abs(array) + np.float32(1), weight.name))
    onnx.save(proto, model)
    options = {"samples": str(samples), "bench": False, "reduce_range": reduced}
    try:
        made = api.convert(str(model), precision=["int8"], out=str(tmp_path / "out"), **options)
    except GateError as error:
        assert saturates() and not reduced and "--reduce-range" in str(error)
        return
    assert made.report is not None and not (saturates() and not reduced)
    assert any("--reduce-range" in text for text in made.report.loud) != reduced
    lowered = Model.load(tmp_path / "out" / "onnx" / "int8" / "model.onnx")
    stored = (value.const_value for value in lowered.initializers())
    wide = [t.numpy() for t in stored if t is not None and t.dtype == onnx_ir.DataType.INT8]
    assert max(np.abs(w.astype(int)).max() for w in wide) == (63 if reduced else 127)


# -- Core ML, which doesn't run here: packages are read back and computed by ONNX Runtime ------


def _passed(items: list[ArtifactReport]) -> list[ArtifactReport]:
    """The same, every gate of theirs passed that can be judged here."""
    for artifact in items:
        assert {gate.status for gate in artifact.gates if gate.name != "runs"} == {"passed"}
    return items


def test_float16_at_the_border(model: Path, samples: Path, tmp_path: Path) -> None:
    options = {"samples": str(samples), "io_dtype": "float16", "to": ["coreml"]}
    plain, half = (
        plugins.load("parsers", "coreml").read(tmp_path / "out" / item.path)
        for item in _passed(_made(model, tmp_path / "out", "fp32", "fp16", **options))
    )
    assert {spec.dtype for spec in (*half.inputs, *half.outputs)} == {"float16"}
    assert {spec.dtype for spec in plain.inputs} == {"float32"}
    assert not any(node.op_type == "Cast" for node in half.nodes())


@pytest.mark.slow
@pytest.mark.parametrize(("target", "options", "limits"), [
    ("iOS18", {}, {"int4-weights": (0.995, 0.28e6), "fp16+int4-weights": (0.995, 0.25e6)}),
    ("iOS16", {"io_dtype": "float16"}, {"fp16+palettized": (0.999, 0.34e6)}),
])  # fmt: skip
def test_weights_alone(tmp_path: Path, target: str, options: dict[str, Any],
                       limits: dict[str, tuple[float, float]]) -> None:  # fmt: skip
    """In float32 they take 1.7 MB."""
    options = {**options, "to": ["coreml"], "coreml_target": target}
    for item in _passed(_made(Path("zoo:ccexam-mnist"), tmp_path / "out", *limits, **options)):
        cosine, most = limits[item.precision]
        assert item.accuracy is not None and (item.accuracy.cosine or 0) >= cosine
        assert item.bytes <= most


@pytest.mark.parametrize(("targets", "options", "told"), [
    ("tflite", {"precision": ["int4-weights"]}, "tflite has no int4-weights"),
    ("tflite", {"precision": ["bf16"]}, "tflite has no bf16"),
    ("tflite", {"io_dtype": "int8"}, "--io-dtype int8 needs int8 artifacts"),
    ("tensorrt-rtx", {"precision": ["palettized"]}, "has no palettized"),
    ("coreml", {"precision": ["int4-weights"]}, "since iOS18"),
    ("coreml", {"precision": ["int8-dynamic"]}, "coreml has no int8-dynamic"),
    ("onnx tflite", {"precision": ["int16x8"]}, "onnx has no int16x8"),
    ("onnx", {"precision": ["int8"], "io_dtype": "int8"}, "onnx has no such inputs"),
    ("onnx", {"precision": ["palettized"], "palette_bits": 5}, "one of 1, 2, 4, 6, 8"),
])  # fmt: skip
def test_what_a_target_has_not(model: Path, tmp_path: Path, targets: str, options: dict[str, Any],
                               told: str) -> None:  # fmt: skip
    with pytest.raises(UsageError) as refused:
        api.convert(str(model), to=targets.split(), out=str(tmp_path / "out"), **options)
    assert told in str(refused.value)
