"""The numbers that Q and DQ hold."""

from typing import Any

import numpy as np
import onnx_ir
import pytest

from converter.errors import ModelError
from converter.ir.model import Model
from converter.precision.int8.activations import affine
from converter.precision.int8.insert import quantize
from converter.precision.int8.scheme import ONNXRUNTIME_CPU, Scheme
from converter.precision.int8.weights import BIAS_LIMIT, fit_bias, store_bias, weight_scales
from emitters.coreml.scheme import COREML
from emitters.tensorrt.scheme import TENSORRT
from emitters.tflite.scheme import TFLITE
from tests.passes.models import Array, noise, ops, run, text_model
from tests.quantize.cases import Net
from tests.quantize.minmax_limits import Measured, measured_on
from tests.schemes import SCHEMES


def floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def conv(w: Array, b: Array | None = None) -> Net:
    shape = (1, w.shape[1], 4, 4)
    if b is None:
        return Net(("y = Conv(x, w)",), {"x": shape}, {"w": w})
    return Net(("y = Conv(x, w, b)",), {"x": shape}, {"w": w, "b": b})


def lower(net: Net, scheme: Scheme = ONNXRUNTIME_CPU, **options: Any) -> Model:
    return quantize(net.model(), measured_on(net.model(), net.feeds()), scheme, **options).model


def content(model: Model) -> bytes:
    return model.to_proto().SerializeToString(deterministic=True)


def stored(model: Model, name: str) -> Array:
    return model.graph.graph.initializers[name].const_value.numpy()  # type: ignore[union-attr]


def reader(model: Model, name: str) -> onnx_ir.Node:
    return next(node for node in model.graph.graph if node.name == name)


def assert_near(model: Model, net: Net) -> None:
    found, expected = run(model, net.feeds())["y"], run(net.model(), net.feeds())["y"]
    np.testing.assert_allclose(found, expected, atol=0.1)


@pytest.mark.parametrize(
    "scheme", [TFLITE, ONNXRUNTIME_CPU, TENSORRT, COREML], ids=lambda scheme: scheme.name
)
def test_a_softmax_over_many_entries(scheme: Scheme) -> None:
    """1,000 probabilities of about a thousandth: steps of 1/256 would leave nothing of them."""
    rng = np.random.default_rng(5)
    net = Net(
        ("t = MatMul(x, k)", "s = Softmax(t) axis=-1", "y = MatMul(s, v)"),
        {"x": (4, 16)},
        {
            "k": (rng.standard_normal((16, 1000)) / 4).astype(np.float32),
            "v": rng.standard_normal((1000, 8)).astype(np.float32),
        },
    )
    made = quantize(net.model(), measured_on(net.model(), net.feeds()), scheme)
    expected, found = run(net.model(), net.feeds())["y"], run(made.model, net.feeds())["y"]
    cosine = np.sum(expected * found) / np.linalg.norm(expected) / np.linalg.norm(found)
    assert cosine > 0.98 and {"n_t", "n_y"} <= set(made.lowered)
    reasons = {item.node: item.reason for item in made.kept}
    if scheme is TFLITE:
        assert "the target's steps are 0.0039" in reasons["n_s"]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize(
    "limits", [(-1.3, 2.7), (0.0, 5.0), (0.5, 5.0), (-3.0, -1.0), (-1e-6, 1e6), (0.0, 0.0)]
)
def test_zero_is_exact_and_the_ends_are_reached(name: str, limits: tuple[float, float]) -> None:
    scheme, ends = SCHEMES[name], np.array([limits[0], 0.0, limits[1]])
    chosen = affine(*limits, scheme)
    real = (chosen.store(ends).astype(float) - chosen.zero_point) * chosen.scale
    assert real[1] == 0.0
    np.testing.assert_allclose(real, ends, atol=chosen.scale * 0.5001)
    if scheme.symmetric:
        assert chosen.zero_point == 0
    assert chosen.scale == float(np.float32(chosen.scale))


def test_a_range_too_small_for_a_scale_has_scale_one() -> None:
    assert affine(0.0, 1e-40, ONNXRUNTIME_CPU).scale == 1.0


def test_a_symmetric_range_is_asked_for_as_one() -> None:
    class Asked(Measured):
        def limits(self, name: str, method: str = "minmax", *, symmetric: bool = False) -> Any:
            asked.add(symmetric)
            return super().limits(name, method)

    net = conv(np.ones((2, 2, 1, 1), np.float32))
    for scheme, expected in ((TENSORRT, True), (TFLITE, False)):
        asked: set[bool] = set()
        quantize(net.model(), Asked(measured_on(net.model(), net.feeds()).ranges), scheme)
        assert asked == {expected}


def test_tensors_that_were_not_finite_stay_float() -> None:
    net = Net(
        ("a = Conv(x, w)", "b = Exp(a)", "y = Conv(b, v)"),
        {"x": (1, 2, 4, 4)},
        {"w": (2, 2, 1, 1), "v": (2, 2, 1, 1)},
    )
    ranges = measured_on(net.model(), net.feeds())
    ranges.nonfinite = {"b": (3, "photo.jpg")}
    result = quantize(net.model(), ranges, ONNXRUNTIME_CPU)
    assert result.lowered == ["n_a"]
    reasons = {kept.node: kept.reason for kept in result.kept}
    assert reasons["n_y"] == "its values hold NaN or infinity on the samples"


def test_a_channel_of_zeros() -> None:
    weight, bias = np.ones((3, 2, 1, 1), np.float32), floats(0.5, -0.123456, 0)
    weight[1] = 0
    net = conv(weight, bias)
    for scheme in (ONNXRUNTIME_CPU, TENSORRT):
        model = lower(net, scheme)
        found = run(model, {"x": np.zeros((1, 2, 4, 4), np.float32)})["y"]
        np.testing.assert_allclose(found[0, :, 0, 0], bias, atol=0.02)
    scales = stored(lower(net), "w_scale")
    assert scales[1] < 1e-4, "as small as the bias needs"
    assert (stored(lower(net), "w_quantized")[1] == 0).all()


def test_a_weight_is_stored_once_and_as_it_was_rounded() -> None:
    net = Net(
        ("a = Conv(x, w)", "b = Conv(a, w)", "c = Add(a, w)", "y = Conv(b, w)"),
        {"x": (1, 2, 1, 1)},
        {"w": (2, 2, 1, 1)},
        ("c", "y"),
    )
    model = lower(net)
    assert sum(name.startswith("w_quantized") for name in model.graph.graph.initializers) == 1
    assert "w" in model.graph.graph.initializers, "the Add reads it in float"
    net = conv(floats(0.4, 1.0).reshape(1, 2, 1, 1))
    given = np.array([50, 127], np.int8).reshape(1, 2, 1, 1)
    assert stored(lower(net), "w_quantized").ravel().tolist() == [51, 127]
    model = lower(net, rounded={"w": given})
    np.testing.assert_array_equal(stored(model, "w_quantized"), given)
    with pytest.raises(ModelError, match=r"rounded weight w is int8\[1, 2\]"):
        lower(net, rounded={"w": given.reshape(1, 2)})


def test_a_bias_too_large_for_int32_gets_a_larger_scale() -> None:
    weight = floats(1e-9, 1.0).reshape(2, 1, 1, 1)
    bias = floats(100.0, 100.0)
    scales = weight_scales(weight, 0)
    fitted = fit_bias(scales, weight, 0, bias, 0.05)
    assert fitted[0] > scales[0]
    assert fitted[1] == scales[1]
    assert abs(store_bias(bias, fitted, 0.05)[0][0]) <= BIAS_LIMIT + 1
    net = conv(weight, bias)
    result = quantize(net.model(), measured_on(net.model(), net.feeds()), ONNXRUNTIME_CPU)
    assert any("1 channels have a larger weight scale" in line for line in result.decisions)
    found = run(result.model, net.feeds())["y"]
    np.testing.assert_allclose(found[0, 0], 100, atol=0.5)


def test_a_gemms_factors_and_bias_go_into_the_numbers() -> None:
    net = Net(("y = Gemm(x, w, b) alpha=0.5; beta=2.0",), {"x": (3, 4)}, {"w": (4, 6), "b": (6,)})
    for scheme in SCHEMES.values():
        model = lower(net, scheme)
        factors = reader(model, "n_y").attributes
        assert factors.get_float("alpha", 1.0) == factors.get_float("beta", 1.0) == 1
        assert_near(model, net)
    net = Net(("y = Gemm(x, w, b)",), {"x": (3, 4)}, {"w": (4, 6), "b": floats(0.7)})
    assert stored(lower(net), "b_quantized").shape == (6,)
    assert_near(lower(net), net)


def test_the_model_given_is_left_alone_and_the_result_is_the_same_every_time() -> None:
    net = Net(
        ("t = MatMul(x, w)", "u = Add(t, k)", "y = Clip(u, zero)"),
        {"x": (3, 4)},
        {"w": (4, 6), "k": (6,), "zero": np.array(0, np.float32)},
    )
    model, ranges = net.model(), measured_on(net.model(), net.feeds())
    before = content(model)
    made = [content(quantize(model, ranges, ONNXRUNTIME_CPU).model) for _ in range(2)]
    assert made[0] == made[1]
    assert content(model) == before


def test_nothing_to_quantize_is_said_and_all_nodes_kept_is_the_float_model() -> None:
    net = Net(("y = Softsign(x)",), {"x": (3, 4)}, {})
    with pytest.raises(ModelError, match="1 nodes: onnxruntime-u8s8 has no int8 Softsign"):
        lower(net)
    net = conv(np.ones((2, 2, 1, 1), np.float32))
    result = quantize(net.model(), Measured({}), ONNXRUNTIME_CPU, keep=["n_y"])
    assert (result.lowered, result.share) == ([], 0.0)
    assert ops(result.model) == ops(net.model())


def test_constants_behind_nodes_are_weights_too() -> None:
    model = text_model("""m (float[1,2,4,4] x) => (float[1,1,4,4] y) {
        [n_w] w = Constant<value = float[1,2,1,1] {1, 1}>() [n_y] y = Conv(x, w) }""")
    made = quantize(model, measured_on(model, noise(model)), ONNXRUNTIME_CPU).model
    assert ops(made)["Constant"] == 0
    assert stored(made, "w_quantized").dtype == np.int8
