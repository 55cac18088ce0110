"""Paddings that a window can do itself, and those that it can't."""

import pytest

from converter.passes.fuse.padding import FusePadding
from tests.passes.fusing import around, fused, left, stays
from tests.passes.models import text_model

LOW = "-3.4028234663852886e38"
CONSTANTS = (
    "int64[8] p = {0,0,1,0, 0,0,1,2}, int64[4] sp = {1,0,1,2}, int64[2] hw = {2,-1}, "
    "int64[8] all = {0,1,1,0, 0,0,1,2}, int64[8] cut = {0,0,-1,0, 0,0,1,2}, "
    "int64[4] bt = {1,0,0,0}, int64[4] image = {1,1,6,6}, int64[8] wide = {0,0,3,0, 0,0,3,0}, "
    f"float zero = {{0}}, float one = {{1}}, float low = {{{LOW}}}, "
    "float[2,4,3,3] w = {" + ",".join(str(i % 7 - 3) for i in range(72)) + "}"
)
SHAPE = "batch,4,6,6"
POOL = "AveragePool<kernel_shape = [3,3]"
MAX = "MaxPool<kernel_shape = [3,3]"

FUSED = [
    ("q = Pad(a, p) b = Conv(q, w)", "2,6,6", {"Conv": 1}),
    ('q = Pad(a, p, zero) b = Conv<auto_pad = "VALID">(q, w)', "2,6,6", {"Conv": 1}),
    ("q = Pad(a, sp, zero, hw) b = Conv<pads = [1,0,0,2], strides = [2,1]>(q, w)", "2,4,8",
     {"Conv": 1}),
    (f"q = Pad(a, p) b = {POOL}>(q)", "4,6,6", {"AveragePool": 1}),
    (f"q = Pad(a, p) b = {POOL}, pads = [1,0,0,0], count_include_pad = 1>(q)", "4,7,6",
     {"AveragePool": 1}),
    (f"q = Pad(a, p, low) b = {MAX}, strides = [2,2]>(q)", "4,3,3", {"MaxPool": 1}),
    (f"r = Relu(a) q = Pad(r, p, zero) b = {MAX}>(q)", "4,6,6", {"Relu": 1, "MaxPool": 1}),
    (f"r = Clip(a, zero, one) s = MaxPool<kernel_shape = [2,2]>(r) q = Pad(s, p) b = {MAX}>(q)",
     "4,5,5", {"Clip": 1, "MaxPool": 2}),
    (f"h = Hardmax(a) s = ReduceMax(h, hw) t = Expand(s, image) q = Pad(t, p) b = {MAX}>(q)",
     "4,6,6", {"Hardmax": 1, "ReduceMax": 1, "Expand": 1, "MaxPool": 1}),
    ("q = Pad(a, p) r = Pad(q, sp, zero, hw) b = Conv(r, w)", "2,8,8", {"Conv": 1}),
    ("q = Pad(a, p, one) b = Pad(q, sp, one, hw)", "4,10,10", {"Pad": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "expected"), FUSED)
def test_goes_into_the_window(nodes: str, shape: str, expected: dict[str, int]) -> None:
    model = fused(around(nodes, CONSTANTS, SHAPE, f"batch,{shape}"), FusePadding())
    assert left(model) == expected


NEAR = [
    ("q = Pad(a, p, one) b = Conv(q, w)", "a Conv with 0"),
    ('q = Pad<mode = "reflect">(a, p) b = Conv(q, w)', "doesn't pad with a constant"),
    ("q = Pad(a, cut) b = Conv(q, w)", "cuts something off"),
    ("q = Pad(a, bt, zero, hw0) b = Conv(q, w)", "the batch or the channels"),
    ('q = Pad(a, p) b = Conv<auto_pad = "SAME_UPPER">(q, w)', "sizes itself"),
    ("q = Pad(a, p) c = Conv(q, w) d = Conv(q, w) b = Add(c, d)", "used elsewhere"),
    ("n = Neg(one) q = Pad(a, p, n) b = Conv(q, w)", "isn't constant"),
    (f"q = Pad(a, p) b = {POOL}, pads = [1,0,0,0]>(q)", "not its own"),
    (f"q = Pad(a, p, low) b = {POOL}>(q)", "an AveragePool with 0"),
    (f"q = Pad(a, p) b = {POOL}, strides = [2,2], ceil_mode = 1>(q)", "ceil_mode"),
    (f"q = Pad(a, wide) b = {POOL}>(q)", "nothing but padding"),
    (f"q = Pad(a, p, zero) b = {MAX}>(q)", "may be the largest"),
    (f"r = Clip(a, low, one) q = Pad(r, p, zero) b = {MAX}>(q)", "may be the largest"),
    (f"r = Relu(a) q = Pad(r, wide, zero) b = {MAX}>(q)", "nothing but padding"),
    (f"r = Relu(a) q = Pad(r, p, zero) b = {MAX}, dilations = [2,2]>(q)", "dilated"),
    (f"q = Pad(a, p, low) b, i = {MAX}>(q)", "its indices count"),
    ("q = Pad(a, p, one) b = Pad(q, p, zero)", "one pads with 1"),
]


@pytest.mark.parametrize(("nodes", "reason"), NEAR)
def test_near_misses(nodes: str, reason: str) -> None:
    model = around(nodes, f"{CONSTANTS}, int64[2] hw0 = {{0,1}}", SHAPE)
    model.graph.graph.outputs[0].shape = None
    assert stays(model, FusePadding(), reason)


SOUND = (
    "int64[6] ps = {0,0,3, 0,0,2}, int64[4] t = {-1,4,1,17}, int64[1] two = {2}, "
    "int64[4] odd = {-1,2,2,17}, "
    "float[2,4,1,3] w = {" + ",".join(map(str, range(24))) + "}"
)


@pytest.mark.parametrize("between", ["Reshape(q, t)", "Unsqueeze(q, two)"])
def test_through_an_axis_of_size_1(between: str) -> None:
    nodes = f"q = Pad(a, ps) r = {between} b = Conv(r, w)"
    model = fused(around(nodes, SOUND, "batch,4,12", "batch,2,1,15"), FusePadding())
    assert left(model) == {"Reshape": 1, "Conv": 1}


def test_what_else_stays() -> None:
    """An output between; axes that are cut up."""
    model = text_model(f"""
        m (float[batch,4,6,6] x) => (float[batch,2,6,6] y, float[batch,4,8,8] q) <{CONSTANTS}> {{
            q = Pad(x, p) y = Conv(q, w) }}""")
    assert stays(model, FusePadding(), "q is an output")
    nodes = "q = Pad(a, ps) r = Reshape(q, odd) s = Conv(r, w2) b = Identity(s)"
    model = around(nodes, f"{SOUND}, float[1,2,1,1] w2 = {{1,2}}", "batch,4,12", "batch,1,2,17")
    assert stays(model, FusePadding(), "more than axes of size 1")
