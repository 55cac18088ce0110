"""Weights that are withheld from a tool come back as they were."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.errors import ModelError
from converter.ir.model import Model
from converter.ir.weight_placeholders import without_weights
from converter.runtime.ort import OrtSession
from converter.runtime.ort_integers import saturates
from tests.passes.models import noise, run, text_model


def _built() -> Model:
    rng = np.random.default_rng(0)
    return text_model(
        """
        m (float[batch,8] x, bool c, float[8,8] w, float[8] small) => (float[batch,8] y) {
            a = MatMul(x, w) b = Add(a, small) y = If(c) <
                then_branch = t () => (float[batch,8] p) { p = MatMul(b, w) },
                else_branch = e () => (float[batch,8] q) {
                    k = Constant<value = float[8] {1,2,3,4,5,6,7,8}>()  q = Mul(b, k) }>
        }""",
        w=rng.standard_normal((8, 8)).astype(np.float32),
        small=rng.standard_normal(8).astype(np.float32),
    )


@pytest.mark.parametrize("min_bytes", [1, 33, 10_000])
def test_comes_back_equal(min_bytes: int) -> None:
    model = _built()
    before = onnx_ir.to_proto(model.graph).SerializeToString()
    light, restore = without_weights(model.graph, min_bytes)
    proto = onnx_ir.to_proto(light)
    onnx.checker.check_model(proto, full_check=True)
    back = Model(restore(onnx_ir.from_proto(proto)))
    assert [spec.name for spec in back.inputs] == ["x", "c"]
    assert onnx_ir.to_proto(model.graph).SerializeToString() == before
    feeds = noise(model)
    for condition in (True, False):
        feeds["c"] = np.array(condition)
        np.testing.assert_array_equal(run(back, feeds)["y"], run(model, feeds)["y"])


def test_the_light_model_is_light_and_restored_tensors_are_the_same_objects() -> None:
    model = _built()
    light, restore = without_weights(model.graph, 1)
    assert not any(graph.initializers for graph in light.graphs())
    assert [value.name for value in light.graph.inputs][2:] == ["w", "small", "k_weight"]
    back = restore(onnx_ir.from_proto(onnx_ir.to_proto(light)))
    mine, theirs = model.graph.graph.initializers["w"], back.graph.initializers["w"]
    assert mine.const_value is theirs.const_value


def test_mapped_weights_stay_mapped_whatever_their_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = text_model("m (float[2,99] x) => (float[2,99] y) <float[1] v = {1}> { y = Mul(x, v) }")
    for name, width in (("small", 400), ("large", 990)):
        tensor = onnx_ir.tensor(rng.standard_normal(width).astype(np.float32), name=name)
        value = onnx_ir.Value(name=name, const_value=tensor)
        model.graph.graph.register_initializer(value)
    model.save(tmp_path / "m.onnx", external=True)
    loaded = Model.load(tmp_path / "m.onnx")
    light, restore = without_weights(loaded.graph, 2000)
    back = restore(onnx_ir.from_proto(onnx_ir.to_proto(light)))
    assert [value.name for value in light.graph.inputs] == ["x", "large"]
    assert isinstance(light.graph.initializers["small"].const_value, onnx_ir.Tensor)
    for name in ("small", "large"):
        assert isinstance(back.graph.initializers[name].const_value, onnx_ir.ExternalTensor)


def test_a_dropped_weight_stays_dropped_and_a_changed_one_is_refused() -> None:
    light, restore = without_weights(_built().graph, 100)
    stand_in = next(value for value in light.graph.inputs if value.name == "w")
    stand_in.dtype = onnx_ir.DataType.DOUBLE
    with pytest.raises(ModelError, match="the weight w was"):
        restore(light)
    model = text_model("m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    light, restore = without_weights(model.graph, 1)
    node = light.graph[0]
    node.replace_input_with(1, node.inputs[0])
    light.graph.inputs.pop()
    assert not restore(light).graph.initializers


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32", "bool"])
def test_a_plain_session_uses_weights_where_they_lie(dtype: str) -> None:
    """Lent, not copied: what is written there afterwards is what it computes with."""
    weight = (np.arange(1 << 17) % 100).reshape(2, -1).astype(dtype)
    text = "m (int64[batch] i) => (float[batch,n] y) { g = Gather(w, i)  y = Cast<to: int = 1>(g) }"
    model = text_model(text, w=weight, unused=weight)
    session = OrtSession(model.graph, plain=True)
    before = onnx_ir.to_proto(model.graph).SerializeToString(deterministic=True)
    feeds = {"i": np.array([1, 0])}
    np.testing.assert_array_equal(session.run(feeds)["y"], weight[[1, 0]].astype(np.float32))
    assert onnx_ir.to_proto(model.graph).SerializeToString(deterministic=True) == before
    weight[:] = 3
    lent = dtype != "bool" and not (dtype == "int8" and saturates())  # else ours are replaced
    np.testing.assert_array_equal((session.run(feeds)["y"] == 3).all(), lent)
