"""The OpenVINO target: IRs of its own conversion, run by its own engine."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from converter.errors import UnsupportedError
from converter.ir.model import Model
from converter.options.recipe import make_request
from tests.acceptance.cli import command, tree, written
from tests.passes.models import noise, run, text_model

pytest.importorskip("openvino", reason="openvino isn't installed")

from emitters.openvino.emitter import OpenvinoEmitter

REQUEST = make_request({"source": "model.onnx"})

NET = """net (float[batch, 3, 17, 17] x) => (float[batch, 80] y) {
    [c0] p = Conv<pads = [1, 1, 1, 1]>(x, w0) a = Relu(p)
    [c1] q = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(a, w1) b = Relu(q)
    mean = GlobalAveragePool(b) flat = Flatten(mean) [fc] y = Gemm<transB = 1>(flat, w2) }"""
SHAPES = {"w0": (16, 3, 3, 3), "w1": (32, 16, 3, 3), "w2": (80, 32)}
MACS = {"Conv": 16 * 27 * 17 * 17 + 32 * 144 * 9 * 9, "fc": 80 * 32}


def _net(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    np.savez(folder / "x.npz", x=rng.standard_normal((16, 3, 17, 17)).astype(np.float32))
    return written(folder / "m.onnx", NET, **weights)


def _artifact(model: Model, folder: Path) -> Any:
    assert not OpenvinoEmitter().unsupported(model, REQUEST)
    return OpenvinoEmitter().emit(model, folder, "fp32", REQUEST)


def _outputs(model: Model, folder: Path, feeds: dict[str, Any]) -> dict[str, Any]:
    session = OpenvinoEmitter().open(_artifact(model, folder), REQUEST)
    assert session.runtime["floats"] == "f32"
    assert [spec.name for spec in session.inputs] == [spec.name for spec in model.inputs]
    assert [spec.shape for spec in session.outputs] == [spec.shape for spec in model.outputs]
    return session.run(feeds)


# -- whole conversions -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.smoke
def test_every_precision_packed_and_the_same_twice(tmp_path: Path) -> None:
    precisions = "fp32,fp16,int8,int8-weights"
    line = ["convert", _net(tmp_path), "--to", "openvino", "--samples", tmp_path / "x.npz"]
    line += ["--no-bench", "--no-cache"]
    command(*line, "--precision", precisions, "--out", tmp_path / "one", code=0)
    command(*line, "--precision", "int8", "--out", tmp_path / "two", code=0)
    report = json.loads((tmp_path / "one" / "report.json").read_text())
    found = {item["precision"]: item for item in report["artifacts"]}
    assert list(found) == precisions.split(",")
    one, two = (tmp_path / name / "openvino" / "int8" for name in ("one", "two"))
    assert tree(one) == tree(two)
    assert found["fp32"]["computes"] == {"float32": 1.0}
    assert found["fp16"]["computes"] == {"float16": 1.0} and found["fp16"]["stored_share"] > 0.99
    assert found["int8"]["computes"] == {"int8": 1.0}
    assert found["int8-weights"]["stored_share"] > 0.7
    assert found["fp16"]["bytes"] < found["fp32"]["bytes"]
    assert str(tmp_path) not in (one / "model.xml").read_text()
    for script in ("selftest.py", "usage.py"):
        text = (one / script).read_text()
        assert "INFERENCE_PRECISION_HINT" in text
    done = subprocess.run(
        [sys.executable, one / "selftest.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr
    asked = (
        "import numpy as np, usage; x = np.load('warmup/sample1-0-x.npy'); y = usage.Model()(x=x)"
    )
    asked += "; z = np.load('expected/sample1-0-y.npy'); print(float(np.abs(y['y'] - z).max()))"
    told = subprocess.run(
        [sys.executable, "-c", asked], cwd=one, capture_output=True, text=True, check=True
    )
    assert float(told.stdout) < 0.1
    assert _tells("import usage", one) == "openvino.tools.ovc.telemetry_stub"


def test_weights_of_four_bits_are_packed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {
        name: (rng.standard_normal(shape) / 16).astype(np.float32)
        for name, shape in {"w0": (256, 128), "w1": (128, 64)}.items()
    }
    path = written(
        tmp_path / "m.onnx",
        "m (float[batch, 256] x) => (float[batch, 64] y) { h = MatMul(x, w0) y = MatMul(h, w1) }",
        **weights,
    )
    line = ["convert", path, "--to", "openvino", "--precision", "int4-weights", "--no-bench"]
    command(*line, "--min-cosine", "0.97", "--out", tmp_path / "out", code=0)
    (item,) = json.loads((tmp_path / "out" / "report.json").read_text())["artifacts"]
    assert item["computes"] == {"float32": 1.0} and item["stored_share"] > 0.75
    made = tmp_path / "out" / "openvino" / "int4-weights" / "model.xml"
    stored = command("inspect", made, "--json", code=0).json["stored"]
    assert stored["int4"] == (256 * 128 + 128 * 64) / 2


# -- what OpenVINO has otherwise -------------------------------------------------------------


INF = "{-inf}"


@pytest.mark.parametrize(("text", "feeds"), [
    ("m (float[n,4] x) => (float[n,3] v, int64[n,3] i) <int64[1] k = {3}> { v, i = TopK(x, k) }",
     {"x": np.ones((2, 4), np.float32)}),
    ("m (int32[2,4] x) => (bool[2,3] y, int64[2,3] i) <int64[1] k = {3}>"
     " { v, i = TopK(x, k) y = Cast<to = 9>(v) }",
     {"x": np.arange(8, dtype=np.int32).reshape(2, 4)}),
    ("m (float[1,2,4] x, float[1,1,2] s) => (int64[c,3] y) <int64[1] k = {9}, float[1] t = {0.5}>"
     " { y = NonMaxSuppression(x, s, k, t) }",
     {"x": np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5]]], np.float32),
      "s": np.array([[[0.9, 0.8]]], np.float32)}),
    ("m (float[n,3] x) => (bool[n,1] y) <int64[1] a = {1}, float lowest = {-inf}>"
     " { h = ReduceMax(x, a) y = Equal(h, lowest) }",
     {"x": np.array([[-np.inf] * 3, [-np.inf, 1, 2], [np.finfo(np.float32).min] * 3], np.float32)}),
    ("m (float[2,3,4,5] x, int64[4] r) => (float[a,b,c,d] y) { y = Tile(x, r) }",
     {"x": np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5), "r": np.array([7, 6, 4, 2])}),
    ("m (float[n,2] x, float[n,5] unused) => (float[n,2] y) { y = Neg(x) }",
     {"x": np.ones((3, 2), np.float32), "unused": np.ones((3, 5), np.float32)}),
    ("m (float[1,1,5,5] x) => (float[1,1,7,7] y) <int64[8] p = {0,0,1,1,0,0,1,1}>"
     " { y = Pad<mode = \"wrap\">(x, p) }",
     {"x": np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)}),
    ("m (float[n,3,3] x) => (float[n] y) { y = Det(x) }",
     {"x": np.random.default_rng(0).standard_normal((4, 3, 3)).astype(np.float32)}),
])  # fmt: skip
def test_is_brought_to_what_onnx_says(text: str, feeds: dict[str, Any], tmp_path: Path) -> None:
    model = text_model(text)
    wanted, found = run(model, feeds), _outputs(model, tmp_path, feeds)
    assert list(found) == [spec.name for spec in model.outputs]
    for name, array in found.items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-5, atol=1e-6)
        assert array.dtype == wanted[name].dtype and array.shape == wanted[name].shape


@pytest.mark.parametrize(("text", "why"), [
    ("m (int64[n] x) => (int64[n] y) <int64 c = {1099511627776}> { y = Add(x, c) }", "32 bits"),
    ("m (string[n] x, string[n] z) => (bool[n] y) { y = Equal(x, z) }", "text"),
    ("m (int32[n] x, int32[n] z) => (int32[n] y) { y = Pow(x, z) }", "in float32"),
    ("m (float[1,1,4,4] x, float[1,1,3,3] w) => (float[1,1,a,b] y)"
     " <int64[8] p = {0,0,0,0,0,0,0,1}>"
     " { h = Pad(x, p) y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(h, w) }",
     "another size"),
    ("m (float[n] x) => (double[n] y) { y = Cast<to = 11>(x) }", "float64"),
    ("m (float[n] x) => (uint8[n] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
     "1 / y"),
    ("m (float[n,1,4,4] x) => (float[n,1,a,b] y) <int64[4] s = {1,1,7,8}>"
     " { y = Resize<keep_aspect_ratio_policy = \"not_larger\", mode = \"nearest\">(x, , , s) }",
     "aspect"),
    ("m (float[2,3,4,2] x) => (float[2,3,6,1] y) <int64 n = {6}, int64 a = {-2}>"
     " { y = DFT<inverse = 1, onesided = 1>(x, n, a) }", "first axis"),
    ("m (float[n] x) => (float[0] y, float[n] z) <float[0] y = {}> { z = Neg(x) }", "elements"),
])  # fmt: skip
def test_is_refused(text: str, why: str) -> None:
    items = OpenvinoEmitter().unsupported(text_model(text), REQUEST)
    assert items and all(why in item.reason and item.remedy for item in items), items


def test_all_that_it_does_not_convert_is_listed(tmp_path: Path) -> None:
    text = """m (string[n] s, float[n] x, int64[1] a) => (string[n] t, float[c,d] u, float[n] w) {
        [one] t = StringConcat(s, s) [two] u = Unsqueeze(x, a) [three] w = Nothing(x) }"""
    path = written(tmp_path / "m.onnx", text)
    said = command("convert", path, "--to", "openvino", "--out", tmp_path / "out", code=3)
    assert "one" in said.err and "Nothing" in said.err
    model = text_model("m (float[n] x, int64[1] a) => (float[c,d] u) { [two] u = Unsqueeze(x, a) }")
    with pytest.raises(UnsupportedError) as caught:
        OpenvinoEmitter().emit(model, tmp_path, "fp32", REQUEST)
    assert "number of axes" in caught.value.items[0].reason


@pytest.mark.parametrize("precision", ["bf16", "palettized", "int16x8", "int8-dynamic"])
def test_precisions_that_it_has_not(precision: str, tmp_path: Path) -> None:
    line = ("convert", _net(tmp_path), "--to", "openvino", "--precision", precision)
    assert f"openvino has no {precision}" in command(*line, "--out", tmp_path / "o", code=2).err


# -- the file --------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "inputs", "macs"), [
    ("y = MatMul(x, z)", "float[n,5,6] x, float[n,6,7] z", 2 * 5 * 6 * 7),
    ("t = Transpose<perm = [0,2,1]>(x) y = MatMul(t, z)", "float[n,6,5] x, float[n,6,7] z", 420),
    ("y = ConvTranspose(x, z)", "float[n,3,4,4] x, float[3,5,2,2] z", 2 * 48 * 20),
    ("y = Conv<group = 2>(x, z)", "float[n,4,4,4] x, float[6,2,3,3] z", 2 * 24 * 18),
    ("y, h, c = LSTM<hidden_size = 4>(x, w, r)", "float[7,n,3] x, float[1,16,3] w, float[1,16,4] r",
     7 * 2 * 16 * 7),
])  # fmt: skip
def test_multiply_adds(line: str, inputs: str, macs: int, tmp_path: Path) -> None:
    made = _artifact(text_model(f"m ({inputs}) => (float[] y) {{ {line} }}"), tmp_path)
    (product,) = OpenvinoEmitter().contents(made, REQUEST, {"n": 2}).products
    assert (product.computes, product.macs) == ("float32", macs)


@pytest.mark.parametrize(("given", "made"), [
    ("float", "bfloat16"), ("bfloat16", "float"), ("bfloat16", "bfloat16"),
])  # fmt: skip
def test_bfloat16_at_the_borders(given: str, made: str, tmp_path: Path) -> None:
    types = {"float": np.float32, "bfloat16": ml_dtypes.bfloat16}
    to = {"float": 1, "bfloat16": 16}[made]
    model = text_model(f"m ({given}[n] x) => ({made}[n] y) {{ y = Cast<to = {to}>(x) }}")
    x = np.array([1.296875, -2.6875, 100]).astype(types[given])
    found = _outputs(model, tmp_path, {"x": x})["y"]
    np.testing.assert_array_equal(found, x.astype(types[made]), strict=True)


def test_a_file_by_itself(tmp_path: Path) -> None:
    model = Model.load(_net(tmp_path))
    made = _artifact(model, tmp_path).path
    assert OpenvinoEmitter().sniff(made) and not OpenvinoEmitter().sniff(tmp_path / "m.onnx")
    told = command("inspect", made, "--json", code=0).json
    assert told["operators"]["Convolution"] == 2 and told["stored"]["float32"] > 0
    command("check", made, "--against", tmp_path / "m.onnx", code=0)
    made.write_text(made.read_text()[:2000])
    assert "OpenVINO refuses" in command("inspect", made, code=3).err


def test_nothing_is_sent() -> None:
    """``openvino`` finds no ``openvino_telemetry``, and takes its own that does nothing."""
    code = """
from emitters.openvino.engine import engine
engine()
"""
    assert _tells(code) == "openvino.tools.ovc.telemetry_stub"


def _tells(code: str, folder: Path | None = None) -> str:
    """What ``openvino`` tells its maker with, once code has run."""
    code += "\nfrom openvino.tools.ovc import telemetry_utils\nprint(telemetry_utils.tm.__name__)"
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def test_free_sizes_are_free(tmp_path: Path) -> None:
    model = Model.load(_net(tmp_path))
    session = OpenvinoEmitter().open(_artifact(model, tmp_path), REQUEST)
    for batch in (1, 3):
        feeds = noise(model, batch=batch)
        np.testing.assert_allclose(session.run(feeds)["y"], run(model, feeds)["y"], atol=1e-5)


def test_others_may_read_the_model_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO gets its large weights in a copy: a step beside it saves the model."""
    model = Model.load(_net(tmp_path))

    def beside(given: Model) -> Any:
        monkeypatch.undo()
        model.save(tmp_path / "other.onnx")
        return given.to_proto()

    monkeypatch.setattr(Model, "to_proto", beside)
    _artifact(model, tmp_path / "out")
    assert Model.load(tmp_path / "other.onnx").weight_bytes() == model.weight_bytes()
