"""What the ONNX target writes is computed as written by any session, default ones too: a Pad by
zeros before a pooling, and a float16 product of a transposed tensor and a matrix."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from converter import plugins
from converter.errors import ModelError
from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.runtime import ort_weights
from converter.runtime.ort import OrtSession
from emitters.onnx.emitter import OnnxEmitter
from emitters.onnx.pads import keep_pads
from emitters.onnx.products import ends, keep_products
from tests.acceptance import cli
from tests.passes.models import Array, noise, ops, run, text_model

ZEROS = "int64[8] p = {0,0,1,1,0,0,1,1}"
MATRIX = "float16[4,2] w = {15360,0,0,15360,15360,0,0,15360}"
SINGLE = "float[4,2] w = {1,2,3,4,5,6,7,8}"
MAX = "y = MaxPool<kernel_shape = [2,2]>(a)"
REQUEST = make_request({"source": "model.onnx"})


def padded(pool: str, constants: str = ZEROS) -> Model:
    """A Pad of ``x`` to ``a``, and what comes behind it."""
    return text_model(
        "m (float[batch,2,6,6] x) => (float[batch,2,c,d] y) "
        f"<{constants}, float[1,2,2,2] w = {{1,2,3,4,5,6,7,8}}> {{ a = Pad(x, p) {pool} }}"
    )


def product(text: str, given: str = "float16[n,5,4] x", constants: str = MATRIX,
            result: str = "float16[a,b,c] y") -> Model:  # fmt: skip
    return text_model(f"m ({given}) => ({result}) <{constants}> {{ {text} }}")


def written(model: Model, folder: Path, precision: str) -> tuple[Array, Array, dict[str, object]]:
    """What the file gives, what the model gives, and what is told of the file."""
    artifact, feeds = OnnxEmitter().emit(model, folder, precision, REQUEST), noise(model)
    session = OnnxEmitter().open(artifact, REQUEST)
    assert [spec.describe() for spec in session.outputs] == [s.describe() for s in model.outputs]
    return session.run(feeds)["y"], run(model, feeds)["y"], artifact.details


def test_onnx_runtime_does_it_wrong_by_default(tmp_path: Path) -> None:
    """Else all this can go."""
    model = padded(MAX)
    feeds = noise(model)
    stock = OrtSession(model.graph, stock=True).run(feeds)["y"]
    assert not np.array_equal(stock, run(model, feeds)["y"])
    np.testing.assert_array_equal(OrtSession(model.graph).run(feeds)["y"], run(model, feeds)["y"])
    ENDANGERED["left"].save(tmp_path / "model.onnx")
    assert ends(tmp_path / "model.onnx")


@pytest.mark.parametrize("behind", [
    MAX,
    "y = MaxPool<kernel_shape = [2,2], pads = [1,0,0,1]>(a)",
    "y = AveragePool<kernel_shape = [2,2], pads = [1,1,1,1], count_include_pad = 1>(a)",
    "b = Cast<to = 1>(a) y = MaxPool<kernel_shape = [2,2]>(b)",
])  # fmt: skip
def test_a_pad_is_safe(behind: str, tmp_path: Path) -> None:
    model = padded(behind)
    found, expected, _ = written(model, tmp_path, "fp32")
    np.testing.assert_array_equal(found, expected)
    assert all(len(node.inputs) < 4 for node in model.nodes())  # ours stays as it was


ENDANGERED = {
    "left": product("t = Transpose<perm = [1,0,2]>(x) y = MatMul(t, w)"),
    "turned": product("t = Transpose<perm = [1,2,0]>(x) y = MatMul(t, w)", "float16[4,n,3] x"),
    "right": product("t = Transpose<perm = [1,2,0]>(x) y = MatMul(w, t)", "float16[5,2,n] x"),
    "four axes": product("t = Transpose<perm = [1,2,0,3]>(x) y = MatMul(t, w)",
                         "float16[n,3,5,4] x", result="float16[a,b,c,d] y"),
    "cast": product("t = Transpose<perm = [1,0,2]>(x) r = Cast<to = 1>(t) y = MatMul(r, w)",
                    constants=SINGLE, result="float[a,b,c] y"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDANGERED)
def test_a_product_opens(name: str, tmp_path: Path) -> None:
    found, expected, details = written(ENDANGERED[name], tmp_path, "fp16")
    assert not ends(tmp_path / "model.onnx")
    assert "decisions" not in details
    np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_what_others_rewrite_is_said(tmp_path: Path) -> None:
    """ONNX Runtime moves the Transpose behind the Reshape, where it wasn't."""
    text = "t = Transpose<perm = [1,0,2]>(x) r = Reshape(t, s) y = MatMul(r, w)"
    model = product(text, "float16[3,5,4] x", MATRIX + ", int64[3] s = {0,0,-1}")
    found, expected, details = written(model, tmp_path, "fp16")
    assert ends(tmp_path / "model.onnx")
    assert "NchwcTransformer" in str(details["decisions"])
    np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_names_that_are_taken() -> None:
    pad = padded(MAX, ZEROS + ", int64[1] a_axes = {0}")
    two = product("t = Transpose<perm = [1,0,2]>(x) y_wide_axis = Relu(t) z = MatMul(t, w) "
                  "v = MatMul(y_wide_axis, w) y = Add(z, v)")  # fmt: skip
    for model, kept, rtol in ((pad, keep_pads(pad), 0), (two, keep_products(two), 2e-3)):
        feeds = noise(model)
        assert kept is not model
        np.testing.assert_allclose(run(kept, feeds)["y"], run(model, feeds)["y"], rtol=rtol)


@pytest.mark.parametrize("model", [
    padded("y = Conv(a, w)"),
    padded("y = Relu(a)"),
    product("t = Transpose<perm = [1,0,2]>(x) r = Relu(t) y = MatMul(r, w)"),
    product("t = Transpose<perm = [0,1,2]>(x) y = MatMul(t, w)"),
    product("y = MatMul(x, w)"),
    product("t = Transpose<perm = [1,0,2]>(x) y = MatMul(t, w)", "float[n,5,4] x", SINGLE,
            "float[a,b,c] y"),
])  # fmt: skip
def test_others_stay_as_they_are(model: Model) -> None:
    assert keep_pads(model) is model
    assert keep_products(model) is model
    OrtSession(model.graph, stock=True).close()


@pytest.mark.parametrize("name", ["ort-basic", "onnxsim"])
def test_libraries_leave_it_alone(name: str) -> None:
    model = padded(MAX)
    feeds = noise(model)
    before = run(model, feeds)["y"]
    plugins.load("passes", name)(model.graph)
    assert ops(model)["Pad"] == 1
    np.testing.assert_array_equal(run(model, feeds)["y"], before)


def test_a_file_is_read_as_protobuf_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where weights stay inside a large file: a place that is off by one float is refused."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((1024, 1024)).astype(np.float32)}
    text = "g (float[1, 1024] x) => (float[1, 1024] y) { y = MatMul(x, w) }"
    file = cli.written(tmp_path / "m.onnx", text, **weights)
    feeds = {"x": np.ones((1, 1024), np.float32)}
    found = OrtSession(file, mapped=True).run(feeds)["y"]
    np.testing.assert_allclose(found, feeds["x"] @ weights["w"], atol=1e-3)
    read = ort_weights.read_outline

    def off(path: Path) -> onnx.ModelProto:
        made = read(path)
        (weight,) = made.graph.initializer
        (offset,) = (item for item in weight.external_data if item.key == "offset")
        offset.value = str(int(offset.value) - 4)
        return made

    monkeypatch.setattr(ort_weights, "read_outline", off)
    with pytest.raises(ModelError, match="was read back differently"):
        OrtSession(file, mapped=True)
