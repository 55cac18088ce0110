"""A float16 product of a transposed tensor and a matrix opens in any session, default ones too."""

from pathlib import Path

import numpy as np
import pytest

from converter.ir import Model
from converter.ort import OrtSession
from converter.recipe import make_request
from emitters.onnx import OnnxEmitter
from emitters.onnx_products import ends, keep_products
from tests.passes.models import noise, run, text_model

REQUEST = make_request({"source": "model.onnx"})
MATRIX = "float16[4,2] w = {15360,0,0,15360,15360,0,0,15360}"


def model_of(text: str, given: str = "float16[n,5,4] x", constants: str = MATRIX) -> Model:
    return text_model(f"m ({given}) => (float16[a,b,c] y) <{constants}> {{ {text} }}")


ENDANGERED = {
    "left": model_of("t = Transpose<perm = [1,0,2]>(x) y = MatMul(t, w)"),
    "turned": model_of("t = Transpose<perm = [1,2,0]>(x) y = MatMul(t, w)", "float16[4,n,3] x"),
    "right": model_of("t = Transpose<perm = [1,2,0]>(x) y = MatMul(w, t)", "float16[5,2,n] x"),
    "four axes": text_model(
        "m (float16[n,3,5,4] x) => (float16[a,b,c,d] y) "
        f"<{MATRIX}> {{ t = Transpose<perm = [1,2,0,3]>(x) y = MatMul(t, w) }}"
    ),
    "cast": text_model(
        "m (float16[n,5,4] x) => (float[a,b,c] y) <float[4,2] w = {1,2,3,4,5,6,7,8}> "
        "{ t = Transpose<perm = [1,0,2]>(x) r = Cast<to = 1>(t) y = MatMul(r, w) }"
    ),
}


def test_onnx_runtime_ends_by_default(tmp_path: Path) -> None:
    """Else all this can go."""
    ENDANGERED["left"].save(tmp_path / "model.onnx")
    assert ends(tmp_path / "model.onnx")


@pytest.mark.parametrize("name", ENDANGERED)
def test_what_is_written_opens(name: str, tmp_path: Path) -> None:
    model = ENDANGERED[name]
    written = OnnxEmitter().emit(model, tmp_path, "fp16", REQUEST)
    assert not ends(tmp_path / "model.onnx")
    assert "decisions" not in written.details
    feeds = noise(model)
    session = OnnxEmitter().open(written, REQUEST)
    assert [spec.describe() for spec in session.outputs] == [s.describe() for s in model.outputs]
    np.testing.assert_allclose(session.run(feeds)["y"], run(model, feeds)["y"], rtol=2e-3)


def test_what_others_rewrite_is_said(tmp_path: Path) -> None:
    """ONNX Runtime moves the Transpose behind the Reshape, where it wasn't."""
    model = model_of(
        "t = Transpose<perm = [1,0,2]>(x) r = Reshape(t, s) y = MatMul(r, w)",
        "float16[3,5,4] x",
        MATRIX + ", int64[3] s = {0,0,-1}",
    )
    written = OnnxEmitter().emit(model, tmp_path, "fp16", REQUEST)
    assert ends(tmp_path / "model.onnx")
    assert "NchwcTransformer" in written.details["decisions"][0]
    feeds = noise(model)
    found = OnnxEmitter().open(written, REQUEST).run(feeds)["y"]
    np.testing.assert_allclose(found, run(model, feeds)["y"], rtol=2e-3)


def test_names_that_are_taken() -> None:
    model = model_of(
        "t = Transpose<perm = [1,0,2]>(x) y_wide_axis = Relu(t) z = MatMul(t, w) "
        "v = MatMul(y_wide_axis, w) y = Add(z, v)"
    )
    kept = keep_products(model)
    feeds = noise(model)
    assert kept is not model
    np.testing.assert_allclose(run(kept, feeds)["y"], run(model, feeds)["y"], rtol=2e-3)


SINGLE = text_model(
    "m (float[n,5,4] x) => (float[a,b,c] y) <float[4,2] w = {1,2,3,4,5,6,7,8}> "
    "{ t = Transpose<perm = [1,0,2]>(x) y = MatMul(t, w) }"
)


@pytest.mark.parametrize("model", [
    model_of("t = Transpose<perm = [1,0,2]>(x) r = Relu(t) y = MatMul(r, w)"),
    model_of("t = Transpose<perm = [0,1,2]>(x) y = MatMul(t, w)"),
    model_of("y = MatMul(x, w)"),
    SINGLE,
])  # fmt: skip
def test_others_stay_as_they_are(model: Model) -> None:
    assert keep_products(model) is model
    OrtSession(model.graph, stock=True).close()
