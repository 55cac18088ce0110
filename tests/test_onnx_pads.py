"""A Pad by zeros before a pooling is computed as written, by any session, default ones too."""

from pathlib import Path

import numpy as np
import pytest

from converter import plugins
from converter.ir import Model
from converter.ort import OrtSession
from converter.recipe import make_request
from emitters.onnx import OnnxEmitter
from emitters.onnx_pads import keep_pads
from tests.passes.models import noise, ops, run, text_model

ZEROS = "int64[8] p = {0,0,1,1,0,0,1,1}"
REQUEST = make_request({"source": "model.onnx"})


def padded(pool: str, constants: str = ZEROS) -> Model:
    """A Pad of ``x`` to ``a``, and what comes behind it."""
    return text_model(
        "m (float[batch,2,6,6] x) => (float[batch,2,c,d] y) "
        f"<{constants}, float[1,2,2,2] w = {{1,2,3,4,5,6,7,8}}> {{ a = Pad(x, p) {pool} }}"
    )


MAX = "y = MaxPool<kernel_shape = [2,2]>(a)"


def test_onnx_runtime_does_it_wrong_by_default() -> None:
    model = padded(MAX)
    feeds = noise(model)
    stock = OrtSession(model.graph, stock=True).run(feeds)["y"]
    assert not np.array_equal(stock, run(model, feeds)["y"])  # else all this can go
    np.testing.assert_array_equal(OrtSession(model.graph).run(feeds)["y"], run(model, feeds)["y"])


@pytest.mark.parametrize("behind", [
    MAX,
    "y = MaxPool<kernel_shape = [2,2], pads = [1,0,0,1]>(a)",
    "y = AveragePool<kernel_shape = [2,2], pads = [1,1,1,1], count_include_pad = 1>(a)",
    "b = Cast<to = 1>(a) y = MaxPool<kernel_shape = [2,2]>(b)",
])  # fmt: skip
def test_what_is_written_is_safe_in_any_session(behind: str, tmp_path: Path) -> None:
    model = padded(behind)
    feeds = noise(model)
    emitter = OnnxEmitter()
    session = emitter.open(emitter.emit(model, tmp_path, "fp32", REQUEST), REQUEST)
    np.testing.assert_array_equal(session.run(feeds)["y"], run(model, feeds)["y"])
    assert all(len(node.inputs) < 4 for node in model.nodes())  # ours stays as it was


def test_a_name_that_is_taken() -> None:
    model = padded(MAX, ZEROS + ", int64[1] a_axes = {0}")
    kept = keep_pads(model)
    feeds = noise(model)
    np.testing.assert_array_equal(run(kept, feeds)["y"], run(model, feeds)["y"])


def test_others_stay_as_they_are() -> None:
    for model in (padded("y = Conv(a, w)"), padded("y = Relu(a)")):
        assert keep_pads(model) is model


@pytest.mark.parametrize("name", ["ort-basic", "onnxsim"])
def test_libraries_leave_it_alone(name: str) -> None:
    model = padded(MAX)
    feeds = noise(model)
    before = run(model, feeds)["y"]
    plugins.load("passes", name)(model.graph)
    assert ops(model)["Pad"] == 1
    np.testing.assert_array_equal(run(model, feeds)["y"], before)
