"""Activations however they are written, and what only looks like one."""

from itertools import permutations

import numpy as np
import pytest

from converter.passes.fuse.activation import FuseActivation
from tests.passes.fusing import around, fused, left, stays
from tests.passes.models import run, text_model

CONSTANTS = (
    "float r = {1.4142135}, float r2 = {0.70710677}, float rn = {-0.70710677}, float one = {1}, "
    "float half = {0.5}, float six = {6}, float three = {3}, float zero = {0}, float two = {2}, "
    "float sixth = {0.16666667}, float c = {0.7978846}, float k = {0.044715}, "
    "float a1 = {0.2}, float[4] ps = {0.1, 0.2, 0.3, -0.4}, float[4,1] col = {0.1, 0.2, 0.3, 0.4}"
)
FEEDS = {"x": np.linspace(-9, 9, 400, dtype=np.float32).reshape(-1, 4)}
ERF = "d = Div(a, r) e = Erf(d) f = Add(e, one)"
CUBE = "d = Pow(a, three) e = Mul(k, d) f = Add(a, e) g = Mul(c, f) h = Tanh(g) i = Add(h, one)"
RELU6 = "d = Add(a, three) e = Clip(d, zero, six)"
SOFTPLUS = "d = Exp(a) e = Add(d, one) f = Log(e)"
LOGISTIC = "d = Neg(a) e = Exp(d) f = Add(one, e)"

FORMS = [
    (f"{ERF} g = Mul(a, f) b = Mul(g, half)", {"Gelu": 1}),
    (f"{ERF} g = Mul(half, f) b = Mul(g, a)", {"Gelu": 1}),
    ("h = Mul(a, half) d = Mul(a, r2) e = Erf(d) f = Add(one, e) b = Mul(h, f)", {"Gelu": 1}),
    ("d = Mul(a, rn) e = Erf(d) f = Sub(one, e) g = Mul(a, f) b = Div(g, two)", {"Gelu": 1}),
    (f"{ERF} n = Neg(f) g = Mul(a, n) h = Neg(half) b = Mul(g, h)", {"Gelu": 1}),
    (f"{CUBE} j = Mul(half, a) b = Mul(i, j)", {"Gelu": 1}),
    ("d = Mul(a, a) q = Mul(d, a) e = Mul(k, q) f = Add(a, e) g = Mul(c, f) h = Tanh(g)"
     " i = Add(h, one) j = Mul(half, i) b = Mul(a, j)", {"Gelu": 1}),
    ("d = Mul(a, a) e = Mul(k, d) f = Add(one, e) l = Mul(c, a) g = Mul(l, f) h = Tanh(g)"
     " i = Add(h, one) j = Mul(i, half) b = Mul(a, j)", {"Gelu": 1}),
    (f"{RELU6} f = Mul(a, e) b = Div(f, six)", {"HardSwish": 1}),
    (f"{RELU6} f = Div(e, six) b = Mul(f, a)", {"HardSwish": 1}),
    ("d = Add(a, three) e = Relu(d) f = Min(six, e) g = Mul(f, sixth) b = Mul(a, g)",
     {"HardSwish": 1}),
    ("d = Add(a, three) e = Min(d, six) f = Max(e, zero) g = Mul(f, a) b = Mul(g, sixth)",
     {"HardSwish": 1}),
    ("d = HardSigmoid<alpha = 0.16666667>(a) b = Mul(d, a)", {"HardSwish": 1}),
    ("d = Mul(a, sixth) e = Add(d, half) f = Clip(e, zero, one) b = Mul(a, f)", {"HardSwish": 1}),
    (f"{RELU6} b = Div(e, six)", {"HardSigmoid": 1}),
    ("d = Mul(a, a1) e = Add(d, half) b = Clip(e, zero, one)", {"HardSigmoid": 1}),
    ("d = Softplus(a) e = Tanh(d) b = Mul(a, e)", {"Mish": 1}),
    (f"{SOFTPLUS} g = Tanh(f) b = Mul(a, g)", {"Mish": 1}),
    (f"{LOGISTIC} b = Div(one, f)", {"Sigmoid": 1}),
    (f"{LOGISTIC} b = Reciprocal(f)", {"Sigmoid": 1}),
    (f"{LOGISTIC} b = Div(a, f)", {"Sigmoid": 1, "Mul": 1}),
    (f"{LOGISTIC} g = Reciprocal(f) b = Mul(g, a)", {"Sigmoid": 1, "Mul": 1}),
    ("d = Mul(a1, a) b = Max(d, a)", {"LeakyRelu": 1}),
    ("d = Relu(a) e = Neg(a) f = Relu(e) g = Mul(f, ps) b = Sub(d, g)", {"PRelu": 1}),
    ("d = Relu(a) e = Neg(a) f = Relu(e) n = Neg(f) g = Mul(n, ps) b = Add(g, d)", {"PRelu": 1}),
    ("d = Relu(a) b = Clip(d, zero, six)", {"Clip": 1}),
    ("d = Clip(a, zero, six) e = Clip(d, three, six) b = Relu(e)", {"Clip": 1}),
    ("d = Min(a, three) e = Max(d, zero) b = Min(six, e)", {"Clip": 1}),
    ("d = Clip(a, zero, one) b = Clip(d, three, six)", {"Clip": 1}),
    ("d = Relu(a) b = Relu(d)", {"Relu": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "expected"), FORMS)
def test_spelled_out(nodes: str, expected: dict[str, int]) -> None:
    assert left(fused(around(nodes, CONSTANTS), FuseActivation(), FEEDS)) == expected


NEAR = [
    (ERF.replace("r)", "two)") + " g = Mul(a, f) b = Mul(g, half)", "Gelu: its constants"),
    (f"{ERF} g = Mul(a, f) b = Mul(g, three)", "Gelu: its constants"),
    (f"{CUBE.replace('k,', 'half,')} j = Mul(half, a) b = Mul(i, j)", "Gelu: its constants"),
    (f"{RELU6} f = Mul(a, e) b = Div(f, three)", "HardSwish: its constants"),
    ("d = HardSigmoid(a) b = Mul(d, a)", "HardSwish: its constants"),
    (f"{ERF} g = Mul(a, f) h = Mul(g, half) b = Add(h, e)", "Gelu: e is used elsewhere"),
    (f"{SOFTPLUS} b = Identity(f)", "overflows"),
    ("d = Mul(three, a) b = Max(d, a)", "slope is 3"),
    ("d = Mul(a1, a) m = Max(d, a) b = Add(m, d)", "d is used elsewhere"),
    ("d = Neg(a1) e = Mul(d, a) b = Max(e, a)", None),
    ("d = Tanh(a) b = Mul(a, d)", None),
    ("d = Clip(a, six, zero) b = Relu(d)", "lower limit is above"),
    ("d = Add(a, one) e = Erf(a) f = Add(e, one) g = Mul(d, f) b = Mul(g, half)", None),
    ("d = Div(a, r) e = Erf(d) f = Add(e, ps) g = Mul(a, f) b = Mul(g, half)", None),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "reason"), NEAR)
def test_near_misses(nodes: str, reason: str | None) -> None:
    assert stays(around(nodes, CONSTANTS), FuseActivation(), reason)


def test_what_would_add_dimensions_or_is_an_output_stays() -> None:
    model = around(
        "d = Relu(a) e = Neg(a) f = Relu(e) g = Mul(f, col) b = Sub(d, g)", CONSTANTS, "4", "4,4"
    )
    assert "PRelu" not in left(fused(model, FuseActivation()))
    model = text_model(f"""
        m (float[batch,4] x) => (float[batch,4] y, float[batch,4] f) <{CONSTANTS}> {{
            d = Div(x, r) e = Erf(d) f = Add(e, one) g = Mul(x, f) y = Mul(g, half) }}""")
    assert stays(model, FuseActivation(), "Gelu: f is an output")


def test_the_input_of_a_formula_may_be_one_itself() -> None:
    gelu = f"{ERF} g = Mul(a, f) h = Mul(g, half)".replace("(a, ", "(t, ")
    model = around(f"s = Mul(a, three) t = Add(s, s) {gelu} b = Add(h, t)", CONSTANTS)
    assert left(fused(model, FuseActivation(), FEEDS)) == {"Mul": 1, "Add": 2, "Gelu": 1}


def test_in_a_branch() -> None:
    model = text_model(f"""
        m (float[batch,4] x, bool t) => (float[batch,4] y) <{CONSTANTS}> {{
            y = If(t) <then_branch = g () => (float[batch,4] p) {{
                            d = Div(x, r) e = Erf(d) f = Add(e, one) g = Mul(x, f)
                            p = Mul(g, half) }},
                       else_branch = e () => (float[batch,4] q) {{ q = Relu(x) }}> }}""")
    fused(model, FuseActivation(), {**FEEDS, "t": np.array(True)})
    assert [node.op_type for node in model.nodes()] == ["If", "Gelu", "Relu"]


def test_every_order_of_factors() -> None:
    """x, 1 + erf and 1/2 in every order and association."""
    for first, second, third in permutations(["a", "f", "half"]):
        for last in (f"g, {third}", f"{third}, g"):
            model = around(f"{ERF} g = Mul({first}, {second}) b = Mul({last})", CONSTANTS)
            assert left(fused(model, FuseActivation(), FEEDS)) == {"Gelu": 1}


def test_extremes_stay_what_they_were() -> None:
    """Where exp overflows and tanh is 1, the operator is the same as its parts."""
    feeds = {"x": np.array([[-1e30, -1e4, -100, -0.0], [1e-30, 100, 1e4, 1e30]], np.float32)}
    for nodes, _ in FORMS:
        model = around(nodes, CONSTANTS)
        before = run(model, feeds)["y"]
        FuseActivation()(model.graph)
        after = run(model, feeds)["y"]
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6, err_msg=nodes)
