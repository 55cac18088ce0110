"""Scales and shifts that go into weights, and those that may not."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir
import pytest

from converter.ir import Model
from converter.passes.fuse_convolution import FuseConvolution
from tests.passes.fusing import around, fused, kept, left
from tests.passes.models import noise, ops, run, text_model

RNG = np.random.default_rng(7)


def numbers(*shape: int, low: float = -2.0) -> str:
    """Seeded constants in onnx's text format, away from zero where ``low`` is positive."""
    values = RNG.uniform(low, 2.0, shape).astype(np.float32).ravel()
    return "{" + ",".join(f"{value:.9g}" for value in values) + "}"


IMAGE = "batch,4,5,5"
W = f"float[6,4,3,3] w = {numbers(6, 4, 3, 3)}"
POINT = f"float[6,4,1,1] w = {numbers(6, 4, 1, 1)}"
BIAS = f"float[6] c = {numbers(6)}"
NORM = ", ".join(f"float[6] {n} = {numbers(6, low=0.1)}" for n in ("g", "h", "mu", "va"))
S6 = f"float[6,1,1] s = {numbers(6, 1, 1, low=0.2)}"
S4 = f"float[4,1,1] s = {numbers(4, 1, 1, low=0.2)}"
ONE = "float s = {1.7}"
HALF = "float s = {0.5}"
CONV = "k = Conv<pads: ints = [1,1,1,1]>(a, w)"

AFTER = [
    (f"{CONV} b = Mul(k, s)", f"{W}, {S6}"),
    (f"{CONV} b = Mul(s, k)", f"{W}, {ONE}"),
    (f"{CONV} b = Div(k, s)", f"{W}, {S6}"),
    (f"{CONV} b = Add(s, k)", f"{W}, {S6}"),
    (f"{CONV} b = Sub(k, s)", f"{W}, {S6}"),
    (f"{CONV} b = Sub(s, k)", f"{W}, {S6}"),
    (f"{CONV} b = Neg(k)", W),
    (f"{CONV} b = BatchNormalization<epsilon: float = 0.01>(k, g, h, mu, va)", f"{W}, {NORM}"),
    ("k = Conv(a, w, c) l = Mul(k, s) b = Add(l, s)", f"{W}, {BIAS}, {S6}"),
    ("k = Conv(a, w, c) r = Relu(k) t = GlobalAveragePool(r) b = Mul(t, s)", f"{W}, {BIAS}, {ONE}"),
]


@pytest.mark.parametrize(("nodes", "constants"), AFTER)
def test_after_a_convolution(nodes: str, constants: str) -> None:
    size = "1" if "Pool" in nodes else "3" if "pads" not in nodes else "5"
    model = fused(around(nodes, constants, IMAGE, f"batch,6,{size},{size}"), FuseConvolution())
    assert left(model)["Conv"] == 1
    assert not {"Mul", "Add", "Sub", "Div", "BatchNormalization"} & set(left(model))


BEFORE = [
    ("k = Mul(a, s) b = Conv<pads: ints = [1,1,1,1]>(k, w)", f"{W}, {S4}"),
    ('k = Mul(a, s) b = Conv<auto_pad = "SAME_UPPER">(k, w)', f"{W}, {S4}"),
    ("k = Add(a, s) b = Conv<pads: ints = [0,0,0,0]>(k, w)", f"{W}, {S4}"),
    ('k = Sub(s, a) b = Conv<auto_pad = "VALID">(k, w, c)', f"{W}, {S4}, {BIAS}"),
    ("l = Mul(a, s) k = Sub(l, s) b = Conv(k, w)", f"{POINT}, {S4}"),
]


@pytest.mark.parametrize(("nodes", "constants"), BEFORE)
def test_before_a_convolution(nodes: str, constants: str) -> None:
    size = "3" if "[0," in nodes or "VALID" in nodes else "5"
    model = fused(around(nodes, constants, IMAGE, f"batch,6,{size},{size}"), FuseConvolution())
    assert left(model) == {"Conv": 1}


NORMALIZED = "BatchNormalization(l, g, g, g, v)"


@pytest.mark.parametrize(("kind", "group"), list(product(["Conv", "ConvTranspose"], [1, 2, 4])))
def test_groups(kind: str, group: int) -> None:
    shape = (8, 4 // group, 2, 2) if kind == "Conv" else (4, 8 // group, 2, 2)
    dims = ",".join(map(str, shape))
    constants = (
        f"float[{dims}] w = {numbers(*shape)}, float[4,1,1] s = {numbers(4, 1, 1)}, "
        f"float[8] g = {numbers(8)}, float[8] v = {numbers(8, low=0.1)}"
    )
    nodes = f"k = Mul(a, s) l = {kind}<group: int = {group}>(k, w) b = {NORMALIZED}"
    size = "4,4" if kind == "Conv" else "6,6"
    model = fused(around(nodes, constants, IMAGE, f"batch,8,{size}"), FuseConvolution())
    assert left(model) == {kind: 1}


KEEPS_SHIFT = [
    ("k = Mul(a, s) l = Add(k, s) b = Conv<pads = [1,1,1,1]>(l, w)", f"{W}, {S4}"),
    ("k = Div(a, s) l = Sub(k, s) b = Conv<pads = [1,1,1,1]>(l, w, c)", f"{W}, {BIAS}, {ONE}"),
    (
        "k = Mul(a, s) l = Add(s, k) b = ConvTranspose(l, w)",
        f"{S4}, float[4,6,1,1] w = {numbers(4, 6)}",
    ),
]


@pytest.mark.parametrize(("nodes", "constants"), KEEPS_SHIFT)
def test_a_scale_passes_a_shift_that_stays(nodes: str, constants: str) -> None:
    model = fused(around(nodes, constants, IMAGE, "batch,6,5,5"), FuseConvolution())
    kind = "ConvTranspose" if "Transpose" in nodes else "Conv"
    assert left(model) == {"Add": 1, kind: 1}


def test_a_scale_of_zero_stays_before_a_shift() -> None:
    constants = f"{W}, {S4.replace(' s ', ' t ')}, float[4,1,1] s = {{1,0,2,3}}"
    nodes = "k = Mul(a, s) l = Add(k, t) b = Conv<pads = [1,1,1,1]>(l, w)"
    model = around(nodes, constants, IMAGE, "batch,6,5,5")
    assert any("finite" in item for item in kept(model, FuseConvolution()))


S5, B5 = f"float[5] s = {numbers(5, low=0.2)}", f"float[5] c = {numbers(5)}"
W45, W54 = f"float[4,5] w = {numbers(4, 5)}", f"float[5,4] w = {numbers(5, 4)}"
FLAT = [
    ("k = MatMul(a, w) l = Mul(k, s) b = Add(l, s)", f"{W45}, {S5}", {"Gemm": 1}),
    ("k = Gemm<alpha = 0.5, beta = 2.0>(a, w, c) l = Mul(k, s) b = Sub(l, s)",
     f"{W45}, {S5}, {B5}", {"Gemm": 1}),
    ("k = Gemm<transB: int = 1>(a, w, c) b = Mul(k, s)", f"{W54}, {S5}, {B5}", {"Gemm": 1}),
    ("k = Mul(a, t) l = Add(k, t) b = Gemm<alpha = 0.5, transB: int = 1>(l, w, c)",
     f"{W54}, {B5}, float[4] t = {numbers(4)}", {"Gemm": 1}),
    ("k = Sub(a, t) b = MatMul(k, w)", f"{W45}, float[1,4] t = {numbers(1, 4)}", {"Gemm": 1}),
    ("k = MatMul(a, w) b = BatchNormalization(k, s, s, s, v)",
     f"{W45}, {S5}, float[5] v = {numbers(5, low=0.1)}", {"Gemm": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants", "expected"), FLAT)
def test_matrices(nodes: str, constants: str, expected: dict[str, int]) -> None:
    assert (
        left(fused(around(nodes, constants, "batch,4", "batch,5"), FuseConvolution())) == expected
    )


def test_a_batched_matmul_takes_a_scale_and_no_bias() -> None:
    nodes = "k = MatMul(a, w) l = Mul(k, s) b = Add(l, s)"
    model = around(nodes, f"{W45}, {S5}", "batch,3,4", "batch,3,5")
    assert left(fused(model, FuseConvolution())) == {"MatMul": 1, "Add": 1}


NEAR = [
    ("k = Add(a, s) b = Conv<pads: ints = [1,1,1,1]>(k, w)", f"{W}, {S4}", "aren't shifted", 5),
    ("k = Add(a, s) b = Conv<auto_pad = \"SAME_UPPER\">(k, w)", f"{W}, {S4}", "aren't shifted", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float[5] s = {numbers(5)}", "6 channels", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float[1,6,5,1] s = {numbers(1, 6, 5, 1)}", "6 channels", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float[1,1,6,1,1] s = {numbers(1, 1, 6, 1, 1)}", "more dim", 5),
    (f"{CONV} b = Div(k, s)", f"{W}, float s = {{0}}", "finite", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float s = {{3e38}}", "finite", 5),
    (f"{CONV} l = Mul(k, s) b = Add(l, k)", f"{W}, {S6}", "used elsewhere", 5),
    ("v = Exp(w) k = Conv(a, v) b = Mul(k, s)", f"{W}, {S6}", "isn't constant", 3),
    ("v = Exp(c) k = Conv(a, w, v) b = Mul(k, s)", f"{W}, {S6}, {BIAS}", "isn't constant", 3),
    ("k = Relu(a) l = Mul(k, s) r = Sigmoid(l) b = Conv(r, w)",
     f"{W}, float s={{2}}", "no weights", 3),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants", "reason", "size"), NEAR)
def test_near_misses(nodes: str, constants: str, reason: str, size: int) -> None:
    model = around(nodes, constants, IMAGE, f"batch,6,{size},{size}")
    model.graph.graph.outputs[0].shape = None
    assert any(reason in item for item in kept(model, FuseConvolution()))


def test_training_normalizes_by_the_batch() -> None:
    model = text_model(f"""
        m (float[batch,4,5,5] x) => (float[batch,6,5,5] y, float[6] p, float[6] q) <{W}, {NORM}> {{
            k = Conv<pads: ints = [1,1,1,1]>(x, w)
            y, p, q = BatchNormalization<training_mode: int = 1>(k, g, h, mu, va) }}""")
    assert not FuseConvolution()(model.graph).modified


def test_an_output_between_stays() -> None:
    model = text_model(f"""
        m (float[batch,4,5,5] x) => (float[batch,6,3,3] y, float[batch,6,3,3] k) <{W}, {S6}> {{
            k = Conv(x, w)  y = Mul(k, s) }}""")
    assert kept(model, FuseConvolution()) == ["k is an output"]


def test_a_fed_weight_stays() -> None:
    model = text_model("""
        m (float[batch,4,5,5] x, float[6,4,3,3] w) => (float[batch,6,3,3] y) <float s = {2}> {
            k = Conv(x, w)  y = Mul(k, s) }""")
    assert "its weight isn't constant" in kept(model, FuseConvolution())


def test_shared_constants_are_copied() -> None:
    model = text_model(f"""
        m (float[batch,4,5,5] x) => (float[batch,6,3,3] y, float[batch,6,3,3] z)
        <{W}, {BIAS}, {S6}> {{
            k = Conv(x, w, c)  y = Mul(k, s)  z = Conv(x, w, c) }}""")
    fused(model, FuseConvolution())
    assert ops(model) == {"Conv": 2}
    assert len(model.graph.graph.initializers) == 4  # both weights twice; nobody uses the scale


def test_a_convolution_in_a_branch() -> None:
    model = text_model(f"""
        m (float[batch,4,5,5] x, bool t) => (float[batch,6,3,3] y) <{W}, {S6}> {{
            y = If(t) <then_branch = g () => (float[batch,6,3,3] p)
                            {{ k = Conv(x, w) p = Mul(k, s) }},
                       else_branch = e () => (float[batch,6,3,3] q) {{ q = Conv(x, w) }}> }}""")
    for chosen in (True, False):
        feeds = {**noise(model), "t": np.array(chosen)}
        before = run(model, feeds)["y"]
        folded = model.copy()
        FuseConvolution()(folded.graph)
        assert "Mul" not in ops(folded)
        np.testing.assert_allclose(run(folded, feeds)["y"], before, rtol=1e-5, atol=1e-5)


def attention(scale_after: str) -> Model:
    """One head's scores from two projections, scaled where ``scale_after`` says."""
    weights = ", ".join(f"float[8,8] {n} = {numbers(8, 8)}" for n in ("wq", "wk"))
    lines = [
        "q0 = MatMul(a, wq) q = Add(q0, bq)", "k = MatMul(a, wk)", "q1 = Reshape(q, t)",
        "q2 = Transpose<perm: ints = [0,2,1,3]>(q1)", "k1 = Reshape(k, t)",
        "k2 = Transpose<perm: ints = [0,2,3,1]>(k1)", "b = MatMul(q2, k2)",
    ]  # fmt: skip
    text = " ".join(lines).replace(f"{scale_after} = ", "raw = ")
    end = text.index(")", text.index("raw = ")) + 1
    text = f"{text[:end]} {scale_after} = Mul(raw, s) {text[end:]}"
    constants = f"{weights}, float[8] bq = {numbers(8)}, int64[4] t = {{0,-1,2,4}}, {HALF}"
    return around(text, constants, "batch,3,8", "batch,2,3,3")


@pytest.mark.parametrize("where", ["q", "q1", "q2", "k2", "b"])
def test_attentions_scale_goes_into_the_weights(where: str) -> None:
    model = fused(attention(where), FuseConvolution())
    assert "Mul" not in left(model)
    assert left(model)["MatMul"] == 3


@pytest.mark.parametrize(
    ("between", "factor", "gone"),
    [
        ("GatherElements<axis = 1>(k, i)", -0.5, True),
        ("CumSum(k, one)", -0.5, True),
        ("Trilu(k)", -0.5, True),
        ("Abs(k)", 0.5, True),
        ("Abs(k)", -0.5, False),
        ("ReduceL2(k, last)", 0.5, True),
        ("ReduceLogSumExp(k, last)", 0.5, False),
        ("Exp(k)", 0.5, False),
    ],
)
def test_a_factor_passes_what_is_linear(between: str, factor: float, gone: bool) -> None:
    """For negative numbers too, or for positive ones alone."""
    places = ",".join("120120210120120121021202")
    constants = (
        f"float[8,8] w = {numbers(8, 8)}, int64[1,3,8] i = {{{places}}}, int64 one = {{1}}, "
        f"int64[1] last = {{2}}, float s = {{{factor}}}"
    )
    nodes, size = f"k = MatMul(a, w) l = {between} b = Mul(l, s)", 1 if "last" in between else 8
    model = around(nodes, constants, "1,3,8", f"1,3,{size}")
    step = FuseConvolution()
    if gone:
        assert "Mul" not in left(fused(model, step))
    else:
        kept(model, step)


def test_every_constant_shape_on_every_side() -> None:
    """Seeded combinations of operator, side, shape of the constant and padding."""
    rng = np.random.default_rng(0)
    folds = 0
    for _ in range(60):
        op = rng.choice(["Mul", "Add", "Sub", "Div"])
        before, swapped = rng.random() < 0.5, rng.random() < 0.5 and op != "Div"
        channels = 4 if before else 6
        dims = [(), (1,), (channels, 1, 1), (1, channels, 1, 1), (1, 1, 5), (channels, 5, 1)]
        shape = dims[rng.integers(len(dims))]
        pad = int(rng.integers(2))
        pair = "(s, {0})" if swapped else "({0}, s)"
        conv = f"Conv<pads: ints = [{pad},{pad},{pad},{pad}]>"
        constant = f"float[{','.join(map(str, shape))}] s = " if shape else "float s = "
        text = (
            f"k = {op}{pair.format('a')} b = {conv}(k, w)"
            if before
            else f"k = {conv}(a, w) b = {op}{pair.format('k')}"
        )
        size = 3 + 2 * pad
        if not before and not pad and 5 in shape:
            continue
        model = around(
            text, f"{W}, {constant}{numbers(*shape, low=0.3)}", IMAGE, f"batch,6,{size},{size}"
        )
        fused(model, FuseConvolution())
        folds += left(model) == {"Conv": 1}
        if 5 in shape or (before and op in ("Add", "Sub") and pad):
            assert left(model) != {"Conv": 1}
    assert folds > 20


def test_bytes_stay_mapped_where_nothing_is_folded() -> None:
    model = around("b = Conv(a, w)", W, IMAGE, "batch,6,3,3")
    weight = model.graph.graph.initializers["w"].const_value
    FuseConvolution()(model.graph)
    assert isinstance(weight, onnx_ir.TensorProtocol)
    assert model.graph.graph.initializers["w"].const_value is weight
