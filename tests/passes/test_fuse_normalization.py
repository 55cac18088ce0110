"""Normalizations as frameworks write them, and what is none of the operators."""

import numpy as np
import pytest

from converter.passes.fuse.normalization import FuseNormalization
from tests.passes.fusing import around, fused, kept, left, stays
from tests.passes.models import text_model

CONSTANTS = (
    "float e = {1e-5}, float two = {2}, float one = {1}, float mh = {-0.5}, float ph = {0.5}, "
    "int64[1] ax = {-1}, int64[1] a1 = {1}, int64[2] ax2 = {1, 2}, int64[2] hw = {2, 3}, "
    "float[4] s = {1, 2, 3, 4}, float[4] t = {4, 3, 2, 1}, float[3,1] c1 = {1, 2, 3}, "
    "float[3,1,1] c2 = {1, 2, 3}, float[1,1,4] s3 = {1, 2, 3, 4}, float[3,4] st = {1, 2, 3, 4, 5, "
    "6, 7, 8, 9, 10, 11, 12}, float zero = {0}, int64[1] bt = {0}"
)
SHAPE = "batch,3,4"
MEAN = "m = ReduceMean(a, ax) d = Sub(a, m)"
VARIANCE = f"{MEAN} q = Mul(d, d) v = ReduceMean(q, ax) w = Add(v, e)"
ROOT = f"{VARIANCE} r = Sqrt(w)"
TURNED = (
    "m = ReduceMean(a, ax) d = Sub(m, a) q = Mul(d, d) v = ReduceMean(q, ax) w = Add(v, e) "
    "r = Sqrt(w) i = Reciprocal(r)"
)

LAYER = [
    f"{ROOT} b = Div(d, r)",
    f"{ROOT} n = Div(d, r) o = Mul(n, s) b = Add(o, t)",
    f"{ROOT} n = Div(d, r) o = Mul(s3, n) b = Add(t, o)",
    f"{ROOT} i = Reciprocal(r) n = Mul(i, d) b = Mul(n, two)",
    f"{ROOT} i = Div(one, r) n = Mul(d, i) b = Sub(n, t)",
    f"{VARIANCE} i = Pow(w, mh) n = Mul(d, i) b = Div(n, s)",
    f"{VARIANCE} r = Pow(w, ph) b = Div(d, r)",
    f"{MEAN} q = Pow(d, two) v = ReduceMean(q, ax) w = Add(e, v) r = Sqrt(w) b = Div(d, r)",
    f"{ROOT} m2 = ReduceMean(a, ax) d2 = Sub(a, m2) b = Div(d2, r)",
    f"{ROOT.replace('ax)', 'ax2)')} n = Div(d, r) o = Mul(n, st) b = Add(o, t)",
    f"{TURNED} g = Mul(i, s) p = Mul(a, g) u = Mul(m, g) k = Sub(t, u) b = Add(p, k)",
    f"{TURNED} g = Mul(s, i) p = Mul(g, a) n = Neg(m) u = Mul(n, g) k = Add(u, t) b = Add(k, p)",
    f"{TURNED} p = Mul(a, i) u = Mul(m, i) k = Neg(u) b = Add(p, k)",
    f"{TURNED} p = Mul(a, i) u = Mul(m, i) b = Sub(p, u)",
]


INSTANCE = f"{ROOT} n = Div(d, r) o = Mul(n, {{0}}) b = Add(o, {{0}})"
SQUARE = "v = ReduceMean(q, ax) w = Add(v, e)"
RMS = [
    f"q = Pow(a, two) {SQUARE} r = Sqrt(w) i = Reciprocal(r) n = Mul(a, i) b = Mul(n, s)",
    f"q = Mul(a, a) {SQUARE} r = Sqrt(w) i = Div(one, r) n = Mul(i, a) b = Mul(n, s)",
    f"q = Pow(a, two) {SQUARE} i = Pow(w, mh) n = Mul(a, i) b = Mul(s, n)",
    f"q = Pow(a, two) {SQUARE} r = Sqrt(w) n = Div(a, r) b = Mul(s, n)",
    f"q = Mul(a, a) {SQUARE} r = Sqrt(w) n = Div(a, r) b = Mul(s, n)",
]


FORMS = [
    *((nodes, SHAPE, {"LayerNormalization": 1}) for nodes in LAYER),
    (INSTANCE.format("c1"), SHAPE, {"InstanceNormalization": 1}),
    (INSTANCE.format("c2").replace("ax)", "hw)"), "batch,3,4,5", {"InstanceNormalization": 1}),
    *((nodes, SHAPE, {"Mul": 2, "ReduceMean": 1, "Add": 1, "Sqrt": 1, "Div": 1}) for nodes in RMS),
]


@pytest.mark.parametrize(("nodes", "shape", "expected"), FORMS)
def test_has_one_form(nodes: str, shape: str, expected: dict[str, int]) -> None:
    model = fused(around(nodes, CONSTANTS, shape), FuseNormalization())
    assert left(model) == expected
    assert not FuseNormalization()(model.graph).modified


NEAR = [
    (f"{ROOT.replace('ax)', 'a1)')} b = Div(d, r)", "aren't the last ones"),
    (f"{ROOT} n = Div(d, r) b = Add(n, r)", "r is used elsewhere"),
    (f"{ROOT.replace('v, e', 'v, zero')} b = Div(d, r)", "isn't a positive constant"),
    (f"{ROOT.replace('v, e', 'v, s')} b = Div(d, r)", "isn't a positive constant"),
    (f"{TURNED} g = Mul(i, c1) p = Mul(a, g) u = Mul(m, g) k = Sub(c1, u) b = Add(p, k)",
     "c1 doesn't have"),
    (f"m = ReduceMean(a, a1) d = Sub(a, m) q = Mul(d, d) {SQUARE} r = Sqrt(w) b = Div(d, r)", None),
    (f"{MEAN} q = Mul(d, a) {SQUARE} r = Sqrt(w) b = Div(d, r)", None),
    (f"{MEAN} q = Abs(d) {SQUARE} r = Sqrt(w) b = Div(d, r)", None),
    (f"{ROOT} b = Div(a, r)", None),
    (f"{ROOT} b = Div(r, d)", None),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "reason"), NEAR)
def test_near_misses(nodes: str, reason: str | None) -> None:
    assert stays(around(nodes, CONSTANTS, SHAPE), FuseNormalization(), reason)


@pytest.mark.parametrize(("own", "constant", "other"), [
    ("LayerNormalization(a, s)", "s", "c1"),
    ("InstanceNormalization(a, three, three)", "c1", "s"),
    ("BatchNormalization(a, three, three, three, three)", "c1", "s"),
])  # fmt: skip
def test_scales_after(own: str, constant: str, other: str) -> None:
    constants = f"{CONSTANTS}, float[3] three = {{1, 2, 3}}"
    nodes = f"n = {own} o = Mul(n, {constant}) b = Sub({constant}, o)"
    model = fused(around(nodes, constants, SHAPE), FuseNormalization())
    assert left(model) == {own.partition("(")[0]: 1}
    model = around(f"n = {own} b = Mul(n, {other})", constants, SHAPE)
    assert len(kept(model, FuseNormalization())) == 1


def test_what_else_keeps_it_from_being_one() -> None:
    """Sizes that are not known; a mean in use."""
    model = around(f"{ROOT} b = Div(d, r)", CONSTANTS, "batch,3,n")
    assert kept(model, FuseNormalization()) == ["the sizes of its axes ['n'] aren't known"]
    model = text_model(f"""
        m (float[batch,3,4] x) => (float[batch,3,4] y, float[batch,3,1] k) <{CONSTANTS}> {{
            n, k = LayerNormalization(x, s)  y = Mul(n, s) }}""")
    assert kept(model, FuseNormalization()) == ["its mean or variance is used"]


def test_constant_rows() -> None:
    """Where the variance is nothing but rounding, epsilon alone decides."""
    for nodes in LAYER[:4]:
        model = around(nodes, CONSTANTS, SHAPE)
        fused(model, FuseNormalization(), {"x": np.full((2, 3, 4), 1.0, np.float32)})
