"""Scales and shifts that go into weights, and those that may not."""

from itertools import product

import numpy as np
import onnx_ir
import pytest

from converter.ir.model import Model
from converter.passes.fuse.convolution import FuseConvolution
from converter.passes.fuse.patterns import Edit
from tests.passes.fusing import around, fused, kept, left, stays
from tests.passes.models import noise, ops, text_model

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

S5, B5 = f"float[5] s = {numbers(5, low=0.2)}", f"float[5] c = {numbers(5)}"
W45, W54 = f"float[4,5] w = {numbers(4, 5)}", f"float[5,4] w = {numbers(5, 4)}"
T4, T14 = f"float[4] t = {numbers(4)}", f"float[1,4] t = {numbers(1, 4)}"
V5 = f"float[5] v = {numbers(5, low=0.1)}"
UP = f"float[4,6,1,1] w = {numbers(4, 6)}"
FIVE, THREE, FLAT = "batch,6,5,5", "batch,6,3,3", ("batch,4", "batch,5")
ONE_CONV, ONE_GEMM, POOL = {"Conv": 1}, {"Gemm": 1}, {"GlobalAveragePool": 1}
WIDE = "batch,4,5,7"
MEANS = (
    "int64[2] hw = {2,3}, int64[2] back = {-1,-2}, int64[2] nhwc = {1,2}, int64[1] w = {3}, "
    "int64[3] all = {1,2,3}, float[4,2] f = {1,2,3,4,5,6,7,8}"
)

FOLDED = [
    # after a convolution
    (f"{CONV} b = Mul(k, s)", f"{W}, {S6}", (IMAGE, FIVE), ONE_CONV),
    (f"{CONV} b = Mul(s, k)", f"{W}, {ONE}", (IMAGE, FIVE), ONE_CONV),
    (f"{CONV} b = Div(k, s)", f"{W}, {S6}", (IMAGE, FIVE), ONE_CONV),
    (f"{CONV} b = Add(s, k)", f"{W}, {S6}", (IMAGE, FIVE), ONE_CONV),
    (f"{CONV} b = Sub(k, s)", f"{W}, {S6}", (IMAGE, FIVE), ONE_CONV),
    (f"{CONV} b = Sub(s, k)", f"{W}, {S6}", (IMAGE, FIVE), ONE_CONV),
    (f"{CONV} b = Neg(k)", W, (IMAGE, FIVE), ONE_CONV),
    (f"{CONV} b = BatchNormalization<epsilon: float = 0.01>(k, g, h, mu, va)", f"{W}, {NORM}",
     (IMAGE, FIVE), ONE_CONV),
    ("k = Conv(a, w, c) l = Mul(k, s) b = Add(l, s)", f"{W}, {BIAS}, {S6}", (IMAGE, THREE),
     ONE_CONV),
    ("k = Conv(a, w, c) r = Relu(k) t = GlobalAveragePool(r) b = Mul(t, s)",
     f"{W}, {BIAS}, {ONE}", (IMAGE, "batch,6,1,1"), {"Conv": 1, "Relu": 1, "GlobalAveragePool": 1}),
    # before one
    ("k = Mul(a, s) b = Conv<pads: ints = [1,1,1,1]>(k, w)", f"{W}, {S4}", (IMAGE, FIVE), ONE_CONV),
    ('k = Mul(a, s) b = Conv<auto_pad = "SAME_UPPER">(k, w)', f"{W}, {S4}", (IMAGE, FIVE),
     ONE_CONV),
    ("k = Add(a, s) b = Conv<pads: ints = [0,0,0,0]>(k, w)", f"{W}, {S4}", (IMAGE, THREE),
     ONE_CONV),
    ('k = Sub(s, a) b = Conv<auto_pad = "VALID">(k, w, c)', f"{W}, {S4}, {BIAS}", (IMAGE, THREE),
     ONE_CONV),
    ("l = Mul(a, s) k = Sub(l, s) b = Conv(k, w)", f"{POINT}, {S4}", (IMAGE, FIVE), ONE_CONV),
    # a scale passes a shift that stays
    ("k = Mul(a, s) l = Add(k, s) b = Conv<pads = [1,1,1,1]>(l, w)", f"{W}, {S4}", (IMAGE, FIVE),
     {"Add": 1, "Conv": 1}),
    ("k = Div(a, s) l = Sub(k, s) b = Conv<pads = [1,1,1,1]>(l, w, c)", f"{W}, {BIAS}, {ONE}",
     (IMAGE, FIVE), {"Add": 1, "Conv": 1}),
    ("k = Mul(a, s) l = Add(s, k) b = ConvTranspose(l, w)", f"{S4}, {UP}", (IMAGE, FIVE),
     {"Add": 1, "ConvTranspose": 1}),
    # matrices; a batched product takes a scale and no bias
    ("k = MatMul(a, w) l = Mul(k, s) b = Add(l, s)", f"{W45}, {S5}", FLAT, ONE_GEMM),
    ("k = Gemm<alpha = 0.5, beta = 2.0>(a, w, c) l = Mul(k, s) b = Sub(l, s)",
     f"{W45}, {S5}, {B5}", FLAT, ONE_GEMM),
    ("k = Gemm<transB: int = 1>(a, w, c) b = Mul(k, s)", f"{W54}, {S5}, {B5}", FLAT, ONE_GEMM),
    ("k = Mul(a, t) l = Add(k, t) b = Gemm<alpha = 0.5, transB: int = 1>(l, w, c)",
     f"{W54}, {B5}, {T4}", FLAT, ONE_GEMM),
    ("k = Sub(a, t) b = MatMul(k, w)", f"{W45}, {T14}", FLAT, ONE_GEMM),
    ("k = MatMul(a, w) b = BatchNormalization(k, s, s, s, v)", f"{W45}, {S5}, {V5}", FLAT,
     ONE_GEMM),
    ("k = MatMul(a, w) l = Mul(k, s) b = Add(l, s)", f"{W45}, {S5}", ("batch,3,4", "batch,3,5"),
     {"MatMul": 1, "Add": 1}),
    # a mean becomes a pool
    ("b = ReduceMean(a, hw)", MEANS, (WIDE, "batch,4,1,1"), POOL),
    ("b = ReduceMean(a, back)", MEANS, (WIDE, "batch,4,1,1"), POOL),
    ("b = ReduceMean<keepdims = 0>(a, hw)", MEANS, (WIDE, "batch,4"), {**POOL, "Flatten": 1}),
    ("b = ReduceMean<keepdims = 0>(a, back)", MEANS, (WIDE, "batch,4"), {**POOL, "Flatten": 1}),
    # the end of a classifier: the batch has a name that nothing else has, the inner shape is
    # right, height and width are unknown
    ("r = Relu(a) m = ReduceMean<keepdims = 0>(r, hw) b = Gemm(m, f)", MEANS,
     ("batch,4,high,wide", "batch,2"), {**POOL, "Relu": 1, "Flatten": 1, "Gemm": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants", "shapes", "expected"), FOLDED)
def test_folded(
    nodes: str, constants: str, shapes: tuple[str, str], expected: dict[str, int]
) -> None:
    assert left(fused(around(nodes, constants, *shapes), FuseConvolution())) == expected


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


NEAR = [
    ("k = Add(a, s) b = Conv<pads: ints = [1,1,1,1]>(k, w)", f"{W}, {S4}", "aren't shifted", 5),
    ("k = Add(a, s) b = Conv<auto_pad = \"SAME_UPPER\">(k, w)", f"{W}, {S4}", "aren't shifted", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float[5] s = {numbers(5)}", "6 channels", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float[1,6,5,1] s = {numbers(1, 6, 5, 1)}", "6 channels", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float[1,1,6,1,1] s = {numbers(1, 1, 6, 1, 1)}", "more dim", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float[1,1,1,1,1] s = {{2}}", "more dim", 5),
    (f"{CONV} b = Div(k, s)", f"{W}, float s = {{0}}", "finite", 5),
    (f"{CONV} b = Mul(k, s)", f"{W}, float s = {{3e38}}", "finite", 5),
    ("k = Mul(a, s) l = Add(k, t) b = Conv<pads = [1,1,1,1]>(l, w)",
     f"{W}, {S4.replace(' s ', ' t ')}, float[4,1,1] s = {{1,0,2,3}}", "finite", 5),
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
    assert stays(model, FuseConvolution(), reason)


def test_what_else_stays() -> None:
    """Training, which normalizes by the batch; an output between; a weight that is fed."""
    image, three = "float[batch,4,5,5] x", "float[batch,6,3,3]"
    texts = (
        f"""m ({image}) => (float[batch,6,5,5] y, float[6] p, float[6] q) <{W}, {NORM}> {{
            k = Conv<pads: ints = [1,1,1,1]>(x, w)
            y, p, q = BatchNormalization<training_mode: int = 1>(k, g, h, mu, va) }}""",
        f"m ({image}) => ({three} y, {three} k) <{W}, {S6}> {{ k = Conv(x, w)  y = Mul(k, s) }}",
        f"""m ({image}, float[6,4,3,3] w) => ({three} y) <float s = {{2}}> {{
            k = Conv(x, w)  y = Mul(k, s) }}""",
    )  # fmt: skip
    _, between, fed = (kept(text_model(text), FuseConvolution()) for text in texts)
    assert between == ["k is an output"] and "its weight isn't constant" in fed


def test_shared_constants_are_copied() -> None:
    model = text_model(f"""
        m (float[batch,4,5,5] x) => (float[batch,6,3,3] y, float[batch,6,3,3] z)
        <{W}, {BIAS}, {S6}> {{
            k = Conv(x, w, c)  y = Mul(k, s)  z = Conv(x, w, c) }}""")
    fused(model, FuseConvolution())
    assert ops(model) == {"Conv": 2}
    assert len(model.graph.graph.initializers) == 4  # both weights twice; nobody uses the scale


def test_constants_are_made_once_and_never_changed_for_two() -> None:
    model = text_model("m (float[2] x) => (float[2] y) <float[2] a = {1,2}> { y = Add(x, a) }")
    edit = Edit(model.graph)
    first, again = (edit.constant(np.ones(2, np.float32), "a") for _ in range(2))
    assert first is again and first.name == "a_1"
    own = model.graph.graph.initializers["a"]
    assert edit.with_contents(own, np.zeros(2, np.float32)) is own
    node = next(iter(model.graph.graph))
    node.replace_input_with(0, own)  # two uses now
    assert edit.with_contents(own, np.ones(2, np.float32)) is first


def test_a_convolution_in_a_branch() -> None:
    model = text_model(f"""
        m (float[batch,4,5,5] x, bool t) => (float[batch,6,3,3] y) <{W}, {S6}> {{
            y = If(t) <then_branch = g () => (float[batch,6,3,3] p)
                            {{ k = Conv(x, w) p = Mul(k, s) }},
                       else_branch = e () => (float[batch,6,3,3] q) {{ q = Conv(x, w) }}> }}""")
    for chosen in (True, False):
        feeds = {**noise(model), "t": np.array(chosen)}
        assert "Mul" not in ops(fused(model.copy(), FuseConvolution(), feeds))


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


@pytest.mark.parametrize(("between", "factor", "gone"), [
    ("GatherElements<axis = 1>(k, i)", -0.5, True),
    ("CumSum(k, one)", -0.5, True),
    ("Trilu(k)", -0.5, True),
    ("Abs(k)", 0.5, True),
    ("Abs(k)", -0.5, False),
    ("ReduceL2(k, last)", 0.5, True),
    ("ReduceLogSumExp(k, last)", 0.5, False),
    ("Exp(k)", 0.5, False),
])  # fmt: skip
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


def test_bytes_stay_mapped_where_nothing_is_folded() -> None:
    model = around("b = Conv(a, w)", W, IMAGE, "batch,6,3,3")
    weight = model.graph.graph.initializers["w"].const_value
    FuseConvolution()(model.graph)
    assert isinstance(weight, onnx_ir.TensorProtocol)
    assert model.graph.graph.initializers["w"].const_value is weight


NO_POOL = [
    ("b = ReduceMean(a, w)", WIDE, "batch,4,5,1", "it is over the axes [3], a pool over [2, 3]"),
    ("b = ReduceMean(a, all)", WIDE, "batch,1,1,1", "it is over the axes [1, 2, 3]"),
    ("c = Cast<to = 16>(a) d = ReduceMean(c, hw) b = Cast<to = 1>(d)", WIDE, "batch,4,1,1",
     "GlobalAveragePool takes no BFLOAT16"),
    ("b = ReduceMean(a, nhwc)", WIDE, "batch,1,1,7", None),  # channels last
    ("b = ReduceMean(a, w)", "batch,4,5,7,2", "batch,4,5,1,2", None),
    ("b = ReduceMean(a, back)", "batch,4,5", "batch,1,1", None),
    ("b = ReduceMean(a)", WIDE, "1,1,1,1", None),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "result", "reason"), NO_POOL)
def test_a_mean_that_stays(nodes: str, shape: str, result: str, reason: str | None) -> None:
    assert stays(around(nodes, MEANS, shape, result), FuseConvolution(), reason)
