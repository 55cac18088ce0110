"""Where Q and DQ go, and that ONNX Runtime puts its integer kernels there, in real models too."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest

from bench.precision_checks import cosine
from converter.errors import UsageError
from converter.ir.model import Model
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.insert import quantize
from converter.precision.int8.placement import Placement, place, possible_tensors
from converter.precision.int8.scheme import ONNXRUNTIME_CPU, Scheme
from converter.precision.quantized import Quantized
from converter.runtime.ort import OrtSession
from emitters.tflite.scheme import TFLITE
from tests.passes.models import ops, run, text_model
from tests.passes.real import real_model, real_samples
from tests.quantize.cases import Net
from tests.quantize.minmax_limits import Measured, measured_on
from tests.schemes import SCHEMES

W = {"w": (4, 4, 3, 3), "v": (4, 4, 1, 1)}
IMAGE = {"x": (1, 4, 8, 8)}


def net(*nodes: str, outputs: tuple[str, ...] = (), **constants: Any) -> Net:
    return Net(nodes, IMAGE, {**W, **constants}, outputs)


def lowered(what: Net, scheme: Scheme = ONNXRUNTIME_CPU, keep: tuple[str, ...] = ()) -> Quantized:
    measured = measured_on(what.model(), what.feeds())
    return quantize(what.model(), measured, scheme, keep=keep)


def names(placement: Placement) -> list[str]:
    return [value.name or "" for value in placement.quantized]


def kernels(model: Model, folder: Path) -> Counter[str]:
    """The operators that ONNX Runtime really runs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    content = model.to_proto().SerializeToString()
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    graph = onnx.load(folder / "optimized.onnx").graph
    return Counter(node.op_type for node in graph.node)


RESIDUAL = net("a = Conv(x, w) pads=[1,1,1,1]", "b = Relu(a)", "c = Conv(b, w) pads=[1,1,1,1]",
               "d = Add(c, b)", "e = Relu(d)", "f = MaxPool(e) kernel_shape=[2,2]; strides=[2,2]",
               "y = Conv(f, v)")  # fmt: skip
SWISH = net("a = Conv(x, w)", "b = Sigmoid(a)", "c = Mul(a, b)", "y = Conv(c, v)")
BRANCHES = net("a = Conv(x, v)", "b = Conv(x, v)", "c = Concat(a, b) axis=1",
               "d = AveragePool(c) kernel_shape=[2,2]", "e = GlobalAveragePool(d)",
               "f = Flatten(e)", "y = Gemm(f, m, n)", m=(8, 3), n=(3,))  # fmt: skip
LAYERS = Net(("a = MatMul(x, w)", "b = Add(a, k)", "c = Softsign(b)", "y = MatMul(c, v)"),
             {"x": (2, 5, 8)}, {"w": (8, 6), "k": (6,), "v": (6, 3)})  # fmt: skip
KERAS = Net(("a = MatMul(x, w)", "b = Add(a, k)", "c = Relu(b)", "d = Softsign(c)",
             "e = MatMul(d, v)", "y = Add(e, n)"),
            {"x": (5, 8)}, {"w": (8, 6), "k": (6,), "v": (6, 3), "n": (3,)})  # fmt: skip
PERCEPTRON = Net(("a = Gemm(x, w, k)", "b = Relu(a)", "y = Gemm(b, v, n) transB=1"),
                 {"x": (5, 8)}, {"w": (8, 6), "k": (6,), "v": (3, 6), "n": (3,)})  # fmt: skip


@pytest.mark.parametrize(("what", "expected"), [
    (RESIDUAL, {"QLinearConv": 3, "QLinearAdd": 1}),
    (SWISH, {"QLinearConv": 2, "QLinearSigmoid": 1, "QLinearMul": 1}),
    (BRANCHES, {"QLinearConv": 2, "QLinearConcat": 1, "QLinearAveragePool": 1,
                "QLinearGlobalAveragePool": 1, "QGemm": 1}),
    (LAYERS, {"MatMulIntegerToFloat": 2}),
    (PERCEPTRON, {"QGemm": 2}),
    (KERAS, {"QGemm": 2}),
], ids=["residual", "swish", "branches", "layers", "perceptron", "keras"])  # fmt: skip
def test_onnx_runtime_takes_its_integer_kernels(
    what: Net, expected: dict[str, int], tmp_path: Path
) -> None:
    found = kernels(lowered(what).model, tmp_path)
    assert {op: found[op] for op in expected} == expected
    floats = {"Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "Relu", "Mul"}
    assert not found.keys() & floats
    between = 1 if "Softsign" in found else 0
    assert found["QuantizeLinear"] == 1 + between, "what enters from float, and nothing else"
    assert found["DequantizeLinear"] <= 1 + between


BOUNDS: dict[str, Any] = {"zero": np.array(0, np.float32), "six": np.array(6, np.float32)}


@pytest.mark.parametrize("op", ["Relu(t)", "Clip(t, zero, six)", "Clip(t, zero)"])
def test_a_clip_is_part_of_the_kernel(op: str, tmp_path: Path) -> None:
    what = net("t = Conv(x, w)", f"y = {op}", **BOUNDS)
    assert names(place(what.model(), ONNXRUNTIME_CPU)) == ["x", "y"]
    found = kernels(lowered(what).model, tmp_path)
    assert found["QLinearConv"] == 1
    assert not found.keys() & {"Conv", "FusedConv", "Clip", "Relu"}


def test_a_tensor_of_several_readers_is_quantized_once() -> None:
    what = net("t = Conv(x, w)", "r = Relu(t)", "y = Add(t, r)", "z = Conv(y, v)")
    assert names(place(what.model(), ONNXRUNTIME_CPU)) == ["x", "t", "r", "y", "z"]
    nodes = "a = Conv(x, v)", "b = Conv(x, v)", "c = Add(a, b)", "y = Conv(c, v)", "z = Conv(c, v)"
    what = net(*nodes, outputs=("y", "z"))
    model = lowered(what).model
    assert ops(model)["QuantizeLinear"] == 6
    assert sum("v_quantized" in name for name in model.graph.graph.initializers) == 1


def test_who_reads_floats_and_who_what_an_integer_kernel_writes() -> None:
    nodes = "a = Softsign(x)", "b = MatMul(a, w)", "y = Softsign(a)"
    what = Net(nodes, {"x": (3, 8)}, {"w": (8, 2)}, ("b", "y"))
    model = lowered(what).model
    readers = {node.name: node.inputs[0].name for node in model.graph.graph if node.inputs[0]}
    assert (readers["n_b"], readers["n_y"]) == ("a_dequantized", "a")
    what = net("a = Conv(x, w)", "y = Softsign(a)", "z = Conv(a, v)", outputs=("a", "y", "z"))
    model = lowered(what).model
    assert [spec.name for spec in model.outputs] == ["a", "y", "z"]
    reader = next(node for node in model.graph.graph if node.name == "n_y")
    assert reader.inputs[0] is model.graph.graph.outputs[0]


def test_q_moves_up_through_what_keeps_every_number_only() -> None:
    for op, expected in (
        ("Transpose(x) perm=[0,1,3,2]", ["x", "p", "y"]),
        ("MaxPool(x) kernel_shape=[2,2]", ["p", "y"]),
    ):
        what = net(f"p = {op}", "y = Conv(p, v)")
        assert names(place(what.model(), ONNXRUNTIME_CPU)) == expected


def test_q_moves_up_to_a_scale_of_the_model_s_own_and_no_further() -> None:
    model = text_model("""g (float[1, 4, 8, 8] x, float s, uint8 z) => (float[1, 4, 8, 8] y) {
        q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
        [n_p] p = Transpose<perm = [0, 1, 3, 2]>(d)  [n_y] y = Conv(p, v) }""",
        s=np.array(0.05, np.float32), z=np.array(128, np.uint8), v=np.eye(4, dtype=np.float32)
        .reshape(4, 4, 1, 1))  # fmt: skip
    feeds = net("y = Relu(x)").feeds()
    made = quantize(model, measured_on(model, feeds), ONNXRUNTIME_CPU)
    assert made.lowered == ["n_y"]
    np.testing.assert_allclose(run(made.model, feeds)["y"], run(model, feeds)["y"], atol=0.05)


def test_an_add_between_float_neighbours_stays_float() -> None:
    result = lowered(net("s = Softsign(x)", "a = Add(s, x)", "y = Conv(a, v)"))
    assert {kept.node: kept.reason for kept in result.kept} == {
        "n_s": "onnxruntime-u8s8 has no int8 Softsign",
        "n_a": "its input is computed in float32",
    }
    assert result.lowered == ["n_y"]


def test_a_mask_does_not_take_the_range() -> None:
    what = Net(
        ("t = MatMul(x, z)", "m = Add(t, k)", "s = Softmax(m) axis=-1", "y = MatMul(s, v)"),
        {"x": (2, 3, 8), "z": (2, 8, 5), "v": (2, 5, 4)},
        {"k": np.array([0, 0, 0, -3e38, 0], np.float32).reshape(1, 1, 5)},
    )
    for scheme in (ONNXRUNTIME_CPU, TFLITE):
        placement = place(what.model(), scheme)
        assert "m" not in names(placement)
        assert placement.bounds == {"s": (0.0, 1.0)}
    reasons = {kept.node: kept.reason for kept in place(what.model(), TFLITE).kept}
    assert reasons["n_m"] == "a mask before a Softmax would use up the range"


@pytest.mark.parametrize("read", [False, True])
def test_a_sum_that_only_a_normalization_reads_stays_float(read: bool) -> None:
    nodes = ["t = MatMul(x, w)", "a = Add(t, x)", "n = LayerNormalization(a, g) axis=-1",
             "y = MatMul(n, w)"]  # fmt: skip
    what = Net(
        tuple([*nodes, "z = MatMul(a, w)"] if read else nodes),
        {"x": (2, 3, 8), "w": (8, 8)},
        {"g": np.ones(8, np.float32)},
        outputs=("y", "z") if read else (),
    )
    placement = place(what.model(), TFLITE)
    assert ("a" in names(placement)) == read
    reasons = {kept.node: kept.reason for kept in placement.kept}
    few = "a few large channels before a normalization would use up the range"
    assert reasons.get("n_a") == (None if read else few)


def test_what_is_divided_by_stays_float() -> None:
    nodes = ["t = MatMul(x, w)", "m = ReduceMean(t, a)", "d = Sub(t, m)", "q = Mul(d, d)",
             "v = ReduceMean(q, a)", "e = Add(v, c)", "s = Sqrt(e)", "n = Div(d, s)",
             "y = MatMul(n, w)"]  # fmt: skip
    constants = {"a": np.array([-1]), "c": np.array(1e-3, np.float32)}
    what = Net(tuple(nodes), {"x": (4, 8), "w": (8, 8)}, constants, outputs=("y", "q"))
    model, feeds = what.model(), what.feeds()
    rows = [[0.01], [1], [1], [3]]  # squares of the first are below a step
    feeds["x"] *= np.array(rows, np.float32)
    result = quantize(model, measured_on(model, feeds), TFLITE)
    kept = {item.node for item in result.kept if "divisor" in item.reason}
    assert kept == {"n_q", "n_v", "n_e"} and {"n_d", "n_m"} <= set(result.lowered)
    found, wanted = (run(each, feeds)["y"] for each in (result.model, model))
    assert np.isfinite(found).all() and cosine(wanted[1:], found[1:]) > 0.99


def test_nodes_are_kept_on_request_and_unknown_ones_refused() -> None:
    result = lowered(RESIDUAL, keep=("n_c",))
    assert "n_c" not in result.lowered
    kept = next(item for item in result.kept if item.node == "n_c")
    assert kept.reason == "kept in float32 on request"
    assert kept.macs == 4 * 8 * 8 * 4 * 9
    assert result.macs - result.macs_lowered == kept.macs
    assert 0 < result.share < 1
    weights = {node.inputs[1].name for node in result.model.graph.graph if node.name == "n_c"}  # type: ignore[union-attr]
    assert weights == {"w"}
    with pytest.raises(UsageError, match="n_q"):
        place(RESIDUAL.model(), ONNXRUNTIME_CPU, ["n_q", "n_a"])


@pytest.mark.parametrize("op", ["Relu(s)", "Clip(s, zero, six)", "Identity(s)"])
def test_kept_nodes_stay_float_in_onnx_runtime(op: str, tmp_path: Path) -> None:
    what = net("a = Conv(x, v)", "s = Conv(a, v)", f"r = {op}", "y = Conv(r, v)", **BOUNDS)
    result = lowered(what, keep=("n_s",))
    found = kernels(result.model, tmp_path)
    assert found["QLinearConv"] == 2
    assert found["Conv"] + found["FusedConv"] == 1
    assert not found["LeakyRelu"], "it is part of the convolution"


def test_a_transposed_convolution_keeps_its_float_weights(tmp_path: Path) -> None:
    what = net("a = Conv(x, v)", "s = ConvTranspose(a, w)", "y = Conv(s, v)")
    kernels(lowered(what).model, tmp_path)
    graph = onnx.load(tmp_path / "optimized.onnx").graph
    node = next(node for node in graph.node if node.op_type == "ConvTranspose")
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    assert types.get(node.input[1]) == onnx.TensorProto.FLOAT


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=list(SCHEMES))
@pytest.mark.parametrize("what", [RESIDUAL, SWISH, BRANCHES, LAYERS, PERCEPTRON, KERAS])
def test_possible_tensors_are_enough_for_every_choice(what: Net, scheme: Scheme) -> None:
    model, rng = what.model(), np.random.default_rng(0)
    known = set(possible_tensors(model, scheme))
    nodes = [node.name or "" for node in model.graph.graph]
    choices = [{name} for name in nodes]
    choices += [{name for name in nodes if rng.random() < 0.5} for _ in range(10)]
    for keep in (set[str](), *choices):
        assert known.issuperset(place(model, scheme, keep).tensors), keep


def test_what_cannot_be_int8_says_why() -> None:
    what = Net(
        ("a = Conv(x, q)", "b = Conv(x, bad)", "c = Gemm(g, h) transA=1", "d = Gemm(g2, h, e)"),
        {"x": (1, 2, 4, 4), "q": (2, 2, 1, 1), "g": (8, 3), "g2": (3, 8)},
        {"bad": np.full((2, 2, 1, 1), np.nan, np.float32), "h": (8, 5), "e": (3, 5)},
        ("a", "b", "c", "d"),
    )
    reasons = {kept.node: kept.reason for kept in place(what.model(), ONNXRUNTIME_CPU).kept}
    assert reasons == {
        "n_a": "its weights are computed",
        "n_b": "its weights hold NaN or infinity",
        "n_c": "its input is transposed",
        "n_d": "its bias isn't one number for each output",
    }
    model = text_model("""g (float16[1,2] x) => (float16[1,2] y)
        <float16[2,2] w = {1,0,0,1}> { [n_y] y = MatMul (x, w) }""")
    (kept,) = place(model, ONNXRUNTIME_CPU).kept
    assert kept.reason == "its numbers are float16"


def test_a_quantized_model_is_left_as_it_is() -> None:
    once = lowered(RESIDUAL)
    again = quantize(once.model, Measured({}), ONNXRUNTIME_CPU)
    assert ops(again.model) == ops(once.model)
    assert again.share == 1.0
    assert any("held integers already" in line for line in again.decisions)
    feeds = RESIDUAL.feeds()
    np.testing.assert_array_equal(run(again.model, feeds)["y"], run(once.model, feeds)["y"])


INTEGER = {"QLinearConv", "QGemm", "QLinearMatMul", "MatMulIntegerToFloat"}


def typed(name: str) -> Model:
    """A real model with the types of all its values."""
    proto = onnx_ir.to_proto(real_model(name).graph)
    for value in (*proto.graph.input, *proto.graph.output):
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value < 0:  # as some exporters write a free dimension
                dim.dim_param = f"{value.name}_{i}"
    proto = onnx.shape_inference.infer_shapes(proto)
    return Model(onnx_ir.from_proto(proto))


@pytest.mark.parametrize(
    ("name", "least"), [("ocr-cls", 0.99), ("ocr-rec", 0.85), ("silero-sequence", 0.98)]
)
def test_all_arithmetic_is_in_integer_kernels(name: str, least: float, tmp_path: Path) -> None:
    model, samples = typed(name), real_samples(name, 4)
    ranges = collect(model, samples, place(model, ONNXRUNTIME_CPU).tensors, few=True)
    result = quantize(model, ranges, ONNXRUNTIME_CPU)
    wanted = {"Conv", "Gemm", "MatMul"}
    count = sum(node.op_type in wanted for node in model.graph.graph)
    found = kernels(result.model, tmp_path)
    assert sum(found[op] for op in INTEGER) == count
    assert not found.keys() & (wanted | {"FusedConv", "FusedGemm", "FusedMatMul"})
    assert {kept.op for kept in result.kept}.isdisjoint(wanted)
    feeds = next(iter(samples)).feeds
    before, after = run(model, feeds), OrtSession(result.model.graph).run(feeds)
    for output, array in before.items():
        assert cosine(array, after[output]) > least, output


def test_weights_that_are_computed_stay_as_they_are() -> None:
    """This file holds its weights as int8 behind a Cast and a Mul."""
    model = typed("minilm-int8")
    reasons = {kept.reason for kept in place(model, ONNXRUNTIME_CPU).kept if kept.op == "MatMul"}
    assert reasons == {"it computes with something that depends on no input"}
