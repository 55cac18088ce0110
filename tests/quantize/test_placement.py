"""Where Q and DQ go, and that ONNX Runtime puts its integer kernels there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from converter.errors import UsageError
from converter.ir import Model
from converter.quantize.insert import quantize
from converter.quantize.lowered import Lowered
from converter.quantize.placement import Placement, place, possible_tensors
from converter.quantize.scheme import ONNXRUNTIME_CPU, SCHEMES, TENSORRT, TFLITE, Scheme
from tests.passes.models import ops, run, text_model
from tests.quantize.cases import Net
from tests.quantize.minmax_limits import Measured, measure

W = {"w": (4, 4, 3, 3), "v": (4, 4, 1, 1)}
IMAGE = {"x": (1, 4, 8, 8)}


def net(*nodes: str, outputs: tuple[str, ...] = (), **constants: Any) -> Net:
    return Net(nodes, IMAGE, {**W, **constants}, outputs)


def lowered(what: Net, scheme: Scheme = ONNXRUNTIME_CPU, keep: tuple[str, ...] = ()) -> Lowered:
    measured = measure(what.proto(), [what.feeds()])
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


RESIDUAL = net(
    "a = Conv(x, w) pads=[1,1,1,1]",
    "b = Relu(a)",
    "c = Conv(b, w) pads=[1,1,1,1]",
    "d = Add(c, b)",
    "e = Relu(d)",
    "f = MaxPool(e) kernel_shape=[2,2]; strides=[2,2]",
    "y = Conv(f, v)",
)
SWISH = net("a = Conv(x, w)", "b = Sigmoid(a)", "c = Mul(a, b)", "y = Conv(c, v)")
BRANCHES = net(
    "a = Conv(x, v)",
    "b = Conv(x, v)",
    "c = Concat(a, b) axis=1",
    "d = AveragePool(c) kernel_shape=[2,2]",
    "e = GlobalAveragePool(d)",
    "f = Flatten(e)",
    "y = Gemm(f, m, n)",
    m=(8, 3),
    n=(3,),
)
LAYERS = Net(
    ("a = MatMul(x, w)", "b = Add(a, k)", "c = Softsign(b)", "y = MatMul(c, v)"),
    {"x": (2, 5, 8)},
    {"w": (8, 6), "k": (6,), "v": (6, 3)},
)
KERAS = Net(
    ("a = MatMul(x, w)", "b = Add(a, k)", "c = Relu(b)", "d = Softsign(c)", "e = MatMul(d, v)",
     "y = Add(e, n)"),
    {"x": (5, 8)},
    {"w": (8, 6), "k": (6,), "v": (6, 3), "n": (3,)},
)  # fmt: skip
PERCEPTRON = Net(
    ("a = Gemm(x, w, k)", "b = Relu(a)", "y = Gemm(b, v, n) transB=1"),
    {"x": (5, 8)},
    {"w": (8, 6), "k": (6,), "v": (3, 6), "n": (3,)},
)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (RESIDUAL, {"QLinearConv": 3, "QLinearAdd": 1}),
        (SWISH, {"QLinearConv": 2, "QLinearSigmoid": 1, "QLinearMul": 1}),
        (
            BRANCHES,
            {
                "QLinearConv": 2,
                "QLinearConcat": 1,
                "QLinearAveragePool": 1,
                "QLinearGlobalAveragePool": 1,
                "QGemm": 1,
            },
        ),
        (LAYERS, {"MatMulIntegerToFloat": 2}),
        (PERCEPTRON, {"QGemm": 2}),
        (KERAS, {"QGemm": 2}),
    ],
    ids=["residual", "swish", "branches", "layers", "perceptron", "keras"],
)
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


@pytest.mark.parametrize("op", ["Relu(t)", "Clip(t, zero, six)", "Clip(t, zero)"])
def test_a_clip_is_part_of_the_kernel(op: str, tmp_path: Path) -> None:
    bounds: dict[str, Any] = {"zero": np.array(0, np.float32), "six": np.array(6, np.float32)}
    what = net("t = Conv(x, w)", f"y = {op}", **bounds)
    assert names(place(what.model(), ONNXRUNTIME_CPU)) == ["x", "y"]
    found = kernels(lowered(what).model, tmp_path)
    assert found["QLinearConv"] == 1
    assert not found.keys() & {"Conv", "FusedConv", "Clip", "Relu"}


def test_a_clip_beside_other_readers_is_not() -> None:
    what = net("t = Conv(x, w)", "r = Relu(t)", "y = Add(t, r)", "z = Conv(y, v)")
    assert names(place(what.model(), ONNXRUNTIME_CPU)) == ["x", "t", "r", "y", "z"]


def test_a_tensor_is_quantized_once() -> None:
    what = net(
        "a = Conv(x, v)",
        "b = Conv(x, v)",
        "c = Add(a, b)",
        "y = Conv(c, v)",
        "z = Conv(c, v)",
        outputs=("y", "z"),
    )
    model = lowered(what).model
    assert ops(model)["QuantizeLinear"] == 6
    assert sum("v_quantized" in name for name in model.graph.graph.initializers) == 1


def test_float_readers_of_a_float_tensor_go_on_reading_it() -> None:
    what = Net(
        ("a = Softsign(x)", "b = MatMul(a, w)", "y = Softsign(a)"),
        {"x": (3, 8)},
        {"w": (8, 2)},
        ("b", "y"),
    )
    model = lowered(what).model
    readers = {node.name: node.inputs[0].name for node in model.graph.graph if node.inputs[0]}
    assert (readers["n_b"], readers["n_y"]) == ("a_dequantized", "a")


def test_everybody_reads_what_an_integer_kernel_writes() -> None:
    what = net("a = Conv(x, w)", "y = Softsign(a)", "z = Conv(a, v)", outputs=("a", "y", "z"))
    model = lowered(what).model
    assert [spec.name for spec in model.outputs] == ["a", "y", "z"]
    reader = next(node for node in model.graph.graph if node.name == "n_y")
    assert reader.inputs[0] is model.graph.graph.outputs[0]


def test_inputs_and_outputs_stay_float() -> None:
    what = net("a = Conv(x, w)", "y = Relu(a)")
    made = lowered(what, TFLITE).model
    before = what.model()
    assert made.inputs == before.inputs
    assert [(s.name, s.dtype, s.shape) for s in made.outputs] == [
        (s.name, s.dtype, s.shape) for s in before.outputs
    ]


def test_tensorrt_takes_a_residual_add_into_the_convolution() -> None:
    placement = place(RESIDUAL.model(), TENSORRT)
    add = next(unit for unit in placement.units if unit.node.op_type == "Add")
    assert [i for node, i in placement.read if node is add.node] == [1], "the skip connection only"
    assert names(placement) == ["x", "b", "e", "f"]


def test_a_shared_concat_has_one_scale() -> None:
    placement = place(BRANCHES.model(), TFLITE)
    group = next(members for members in placement.groups.values() if "c" in members)
    assert group == ("a", "b", "c")
    assert "c" not in placement.tensors


def test_carried_numbers_keep_their_scale() -> None:
    what = net(
        "a = Conv(x, v)", "b = Transpose(a) perm=[0,1,3,2]", "y = Conv(b, v)", outputs=("b", "y")
    )
    placement = place(what.model(), ONNXRUNTIME_CPU)
    assert placement.groups["a"] == ("a", "b")
    assert placement.tensors == ("x", "a", "y")


def test_q_moves_up_through_what_keeps_every_number_only() -> None:
    text = "p = {}; y = Conv(p, v)"
    for op, expected in (
        ("Transpose(x) perm=[0,1,3,2]", ["x", "p", "y"]),
        ("MaxPool(x) kernel_shape=[2,2]", ["p", "y"]),
    ):
        what = net(f"p = {op}", text.split("; ")[1])
        assert names(place(what.model(), ONNXRUNTIME_CPU)) == expected


def test_an_add_between_float_neighbours_stays_float() -> None:
    result = lowered(net("s = Softsign(x)", "a = Add(s, x)", "y = Conv(a, v)"))
    assert {kept.node: kept.reason for kept in result.kept} == {
        "n_s": "onnxruntime-u8s8 has no int8 Softsign",
        "n_a": "what it reads is computed in float32",
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
    assert reasons["n_m"] == "a mask in what a Softmax reads would take up the range"


def test_nodes_are_kept_on_request() -> None:
    result = lowered(RESIDUAL, keep=("n_c",))
    assert "n_c" not in result.lowered
    kept = next(item for item in result.kept if item.node == "n_c")
    assert kept.reason == "kept in float32 on request"
    assert kept.macs == 4 * 8 * 8 * 4 * 9
    assert result.macs - result.macs_lowered == kept.macs
    assert 0 < result.share < 1
    weights = {node.inputs[1].name for node in result.model.graph.graph if node.name == "n_c"}  # type: ignore[union-attr]
    assert weights == {"w"}


@pytest.mark.parametrize("op", ["Relu(s)", "Clip(s, zero, six)", "Identity(s)"])
def test_kept_nodes_stay_float_in_onnx_runtime(op: str, tmp_path: Path) -> None:
    bounds: dict[str, Any] = {"zero": np.array(0, np.float32), "six": np.array(6, np.float32)}
    what = net("a = Conv(x, v)", "s = Conv(a, v)", f"r = {op}", "y = Conv(r, v)", **bounds)
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


def test_an_unknown_node_to_keep_is_refused() -> None:
    with pytest.raises(UsageError, match="n_q"):
        place(RESIDUAL.model(), ONNXRUNTIME_CPU, ["n_q", "n_a"])


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


def test_other_floats_are_left_alone() -> None:
    model = text_model("""
        g (float16[1,2] x) => (float16[1,2] y)
        <float16[2,2] w = {1,0,0,1}> { [n_y] y = MatMul (x, w) }""")
    reasons = [kept.reason for kept in place(model, ONNXRUNTIME_CPU).kept]
    assert reasons == ["its numbers are float16"]


def test_branches_are_quantized_where_they_were_run() -> None:
    model = text_model("""
        g (float[1,2] x, bool c) => (float[1,2] y)
        <float[2,2] w = {1,0,0,1}> {
           [n_a] a = MatMul (x, w)
           [n_if] y = If (c) <
              then_branch = t () => (float[1,2] p) { [n_p] p = MatMul (a, w) },
              else_branch = e () => (float[1,2] q) { [n_q] q = Neg (a) }
           >
        }""")
    placement = place(model, ONNXRUNTIME_CPU)
    assert [unit.node.name for unit in placement.units] == ["n_a"]
    result = quantize(model, Measured({"x": (-1, 1), "a": (-1, 1)}), ONNXRUNTIME_CPU)
    assert result.lowered == ["n_p", "n_a"]
    found = run(result.model, {"x": np.ones((1, 2), np.float32), "c": np.array(True)})
    np.testing.assert_allclose(found["y"], 1, atol=0.02)


def test_a_quantized_model_is_left_as_it_is() -> None:
    once = lowered(RESIDUAL)
    again = quantize(once.model, Measured({}), ONNXRUNTIME_CPU)
    assert ops(again.model) == ops(once.model)
    assert again.share == 1.0
    assert any("held integers already" in line for line in again.decisions)
    feeds = RESIDUAL.feeds()
    np.testing.assert_array_equal(run(again.model, feeds)["y"], run(once.model, feeds)["y"])
