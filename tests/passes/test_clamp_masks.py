"""Masks that float16 doesn't hold: the same attention with smaller numbers."""

import numpy as np
import pytest

from converter.ir.model import Model
from converter.passes.fuse.clamp_masks import CLAMP, ClampMasks
from tests.passes.fusing import fused, stays
from tests.passes.models import Array, ops, run, text_model

LOWEST = "-3.4028234663852886e38"
TRIANGLE = ",".join("0" if column <= row else LOWEST for row in range(4) for column in range(4))
CONSTANTS = (
    f"float one = {{1}}, float zero = {{0}}, float low = {{{LOWEST}}}, float tf = {{-1e9}}, "
    f"float high = {{3.4028234663852886e38}}, float mid = {{-1e7}}, float bert = {{-1e5}}, "
    f"float three = {{3}}, float inf = {{-inf}}, int64[2] ax = {{1,2}}, "
    f"float[4,4] tri = {{{TRIANGLE}}}, "
    "int64[4] four = {4,2,4,4}, int64[4] reps = {1,2,4,1}, float[1,2,4,4] bias = {"
    + ",".join(str(i % 5) for i in range(32))
    + "}"
)
MASK = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 1], [1, 1, 1, 1]])
"""The second row is masked whole."""


def masked(nodes: str, dtype: str = "bool", outputs: str = "") -> Model:
    """Scores x and a tokenizer's mask m, up to the weights p; s is what Softmax sees."""
    return text_model(f"""
        m (float[batch,2,4,4] x, {dtype}[batch,4] m) => (float[batch,2,4,4] p{outputs})
        <{CONSTANTS}> {{ u = Unsqueeze(m, ax) {nodes} p = Softmax(s) }}""")


def feeds(dtype: str = "bool") -> dict[str, Array]:
    scores = np.random.default_rng(0).standard_normal((4, 2, 4, 4)) * 6
    return {"x": scores.astype(np.float32), "m": MASK.astype(dtype)}


def survives(model: Model) -> bool:
    """Whether no node takes a finite constant that float16 doesn't hold."""
    values = {value for node in model.nodes() for value in node.inputs if value}
    arrays = [value.const_value.numpy() for value in values if value.const_value is not None]
    floats = [a for a in arrays if a.dtype.kind == "f" and np.isfinite(a).all()]
    return all(np.abs(array).max() <= 65504 for array in floats)


FLOAT = "f = Cast<to = 1>(u) i = Sub(one, f)"
CLAMPED = [
    ("bool", f"{FLOAT} k = Mul(i, low) s = Add(x, k)", {"Where": 1, "Less": 1}),
    ("int64", f"{FLOAT} k = Mul(i, low) s = Add(k, x)", {"Where": 1, "Less": 1, "Add": 1}),
    ("float", "i = Sub(one, u) k = Mul(i, low) s = Add(x, k)", {"Where": 1, "Less": 1, "Add": 1}),
    ("bool", f"{FLOAT} k = Mul(tf, i) s = Add(x, k)", {"Where": 1, "Less": 1}),
    ("bool", "f = Cast<to = 1>(u) i = Sub(f, one) k = Mul(i, high) s = Add(x, k)",
     {"Where": 1, "Less": 1}),
    ("bool", "k = Where(u, zero, low) s = Add(x, k)", {"Where": 2, "Less": 1}),
    ("bool", "k = Where(u, zero, low) e = Expand(k, four) s = Add(x, e)", {"Where": 2, "Less": 1}),
    ("bool", "k = Where(u, zero, low) e = Tile(k, reps) s = Add(x, e)", {"Where": 2, "Less": 1}),
    ("bool", "s = Where(u, x, low)", {"Where": 1}),
    ("bool", "n = Not(u) r = Where(n, low, x) s = Identity(r)", {"Where": 1}),
    ("bool", "s = Add(x, tri)", {"Where": 1}),
    ("bool", "k = Where(u, tri, low) s = Add(x, k)", {"Where": 2, "Less": 1}),
    ("bool", "k0 = Where(u, zero, low) k = Add(k0, tri) s = Add(x, k)",
     {"Where": 2, "Less": 1, "Add": 1}),
    ("bool", "k0 = Where(u, zero, low) k = Add(k0, bias) s = Add(x, k)",
     {"Where": 2, "Less": 1, "Add": 2}),
    ("bool", "k = Where(u, zero, bert) s = Add(x, k)", {"Where": 1, "Add": 1}),
    ("bool", f"{FLOAT} k = Mul(i, low) y = Add(x, bias) s = Add(y, k)",
     {"Where": 1, "Less": 1, "Add": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "nodes", "expected"), CLAMPED)
def test_weights_stay_what_they_were(dtype: str, nodes: str, expected: dict[str, int]) -> None:
    name = "float32" if dtype == "float" else dtype
    model = masked(nodes, dtype)
    before = run(model, feeds(name))["p"]
    ClampMasks()(model.graph)
    assert survives(model)
    assert {op: ops(model)[op] for op in expected} == expected
    known = [value.shape for node in model.graph.graph for value in node.outputs]
    assert None not in known
    after = run(model, feeds(name))["p"]
    if "bert" in nodes:  # a score is still a score there, rounded to 1/128
        np.testing.assert_allclose(after, before, atol=1e-2)
        after, before = np.delete(after, 1, 0), np.delete(before, 1, 0)
    np.testing.assert_array_equal(after, before)
    assert not ClampMasks()(model.graph).modified


def test_a_mask_of_many_layers_is_made_once_and_stays_for_others() -> None:
    layers = " ".join(f"s{i} = Add(p{i}, k) p{i + 1} = Softmax(s{i})" for i in range(5))
    model = masked(f"{FLOAT} k = Mul(i, low) p0 = Neg(x) {layers} s = Add(p5, k)")
    counts = ops(fused(model, ClampMasks(), feeds(), rounding=0))
    assert (counts["Where"], counts["Less"], counts["Mul"], counts["Add"]) == (6, 1, 1, 0)
    nodes = f"{FLOAT} k = Mul(i, low) s = Add(x, k) z = Abs(k)"
    model = masked(nodes, outputs=", float[batch,1,1,4] z")
    assert not survives(fused(model, ClampMasks(), feeds(), rounding=0))


KEPT = [
    ("s = Where(u, x, low)", "an output"),
    (f"{FLOAT} k = Mul(i, low) s = Add(x, k) z = Neg(s)", "s is used elsewhere"),
    ("k = Where(u, zero, mid) s = Add(x, k)", "neither lost nor kept"),
    ("k = Where(u, zero, high) s = Add(x, k)", "positive"),
    (f"{FLOAT} k = Mul(i, high) s = Add(x, k)", "positive"),
    ("k0 = Where(u, zero, low) k = Where(u, k0, tf) s = Add(x, k)", "several large numbers"),
    ("r = Where(u, x, low) s = Add(r, tri)", "another mask"),
    ("k0 = Add(tri, tri) k1 = Where(u, zero, low) k = Add(k0, k1) s = Add(x, k)", "3 masks"),
    ("r = Where(u, x, low) s = Mul(r, three)", None),
    ("s = Where(u, x, inf)", None),
    ("k = Where(u, zero, inf) s = Add(x, k)", None),
]


@pytest.mark.parametrize(("nodes", "reason"), KEPT)
def test_near_misses(nodes: str, reason: str | None) -> None:
    outputs = ", float[batch,2,4,4] z" if " z = " in nodes else ""
    outputs = ", float[batch,2,4,4] s" if reason == "an output" else outputs
    assert stays(masked(nodes, outputs=outputs), ClampMasks(), reason)


def test_two_clamped_masks_fit_into_float16() -> None:
    assert np.isfinite(np.float16(-2 * CLAMP))
    assert not np.exp(np.float32(-CLAMP / 2))
