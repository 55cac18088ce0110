"""Nodes that move elements about: what one node or none can do as well."""

import numpy as np
import pytest

from converter.ir.model import Model
from converter.passes.fuse.shapes import FuseShapes, target_of
from tests.passes.fusing import around, fused, kept, left, stays
from tests.passes.models import run, text_model

CONSTANTS = (
    "int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] m1 = {-1}, "
    "int64[1] four = {4}, int64[1] six = {6}, int64[2] t = {-1,12}, int64[3] same = {0,3,4}, "
    "int64[4] heads = {0,-1,2,2}, int64[3] z3 = {0,-1,4}, int64[1] zero = {0}, int64[1] big = {9}, "
    "int64[1] three = {3}, int64[2] pair = {2,3}, int64[2] u4 = {1,3}, int64[1,3] ids = {1,0,1}, "
    "int64[3] flat = {1,0,1}, float[2,4] table = {1,2,3,4,5,6,7,8}, float[1,3,1] col = {1,2,3}, "
    "float[1,3,4] full = {1,2,3,4,5,6,7,8,9,10,11,12}"
)
SHAPE = "batch,3,4"
EXPANDED = "s = Shape(a) n = Gather(s, i0) l = Concat<axis = 0>(n, three) e = Expand(ids, l)"

FUSED = [
    ("s = Shape(a) n = Gather(s, i0) t2 = Concat<axis = 0>(n, m1) b = Reshape(a, t2)",
     "batch,12", {"Reshape": 1}),
    ("b0 = Unsqueeze(a, i1) b = Unsqueeze(b0, i1)", "batch,1,1,3,4", {"Reshape": 1}),
    ("c = Reshape(a, t) b = Reshape(c, same)", SHAPE, {}),
    ("c = Unsqueeze(a, i2) d = Flatten(c) b = Reshape(d, z3)", SHAPE, {}),
    ("c = Unsqueeze(a, i1) d = Transpose<perm = [0,2,1,3]>(c) b = Flatten<axis = 1>(d)",
     "batch,12", {"Reshape": 1}),
    ("c = Slice(a, i1, big, i1) b = Slice(c, i0, i2, i2)", "batch,2,2", {"Slice": 1}),
    ("c = Slice(a, i1, big, m1) d = Slice(c, m1, i0, i1, m1) b = Slice(d, i0, big, i0)",
     "batch,2,3", {"Slice": 1}),
    ("s = Shape(a) c = Expand(col, s) b = Add(a, c)", SHAPE, {"Add": 1}),
    ("s = Shape(a) c = Expand(full, s) b = Mul(c, a)", SHAPE, {"Mul": 1}),
    ("s = Shape(a) c = Expand(col, s) b = Max(a, c, full)", SHAPE, {"Max": 1}),
    ("s = Shape(a) c = Expand(col, s) l = LessOrEqual(a, c) b = Where(l, a, full)", SHAPE,
     {"LessOrEqual": 1, "Where": 1}),
    (f"{EXPANDED} g = Gather(table, e) b = Add(a, g)", SHAPE, {"Gather": 1, "Add": 1}),
    (f"{EXPANDED.replace('ids', 'flat')} g = Gather(table, e) b = Mul(g, a)", SHAPE,
     {"Gather": 1, "Mul": 1}),
    ("e = Expand(i2, three) g = Gather<axis = 1>(full, e) b = Add(a, g)", SHAPE,
     {"Gather": 1, "Add": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "expected"), FUSED)
def test_fewer(nodes: str, shape: str, expected: dict[str, int]) -> None:
    model = fused(undeclared(around(nodes, CONSTANTS, SHAPE, shape)), FuseShapes())
    assert left(model) == expected


def undeclared(model: Model) -> Model:
    """The model without inner shapes, which the pass then infers through computed targets."""
    for node in model.nodes():
        for value in node.outputs:
            value.shape = value.shape if value.is_graph_output() else None
    return model


def test_a_symbol_in_its_place_is_copied() -> None:
    """Two free dimensions, which no single -1 says."""
    model = text_model(f"""
        m (float[batch,time,8] x) => (float[batch,time,2,4] y) <{CONSTANTS}> {{
            s = Shape(x) n = Gather(s, i0) l = Gather(s, i1)
            t2 = Concat<axis = 0>(n, l, i2, four)  a = Neg(x)  y = Reshape(a, t2) }}""")
    fused(model, FuseShapes(), {"x": np.ones((2, 5, 8), np.float32)})
    assert [node.op_type for node in model.nodes()] == ["Neg", "Reshape"]
    assert run(model, {"x": np.ones((3, 7, 8), np.float32)})["y"].shape == (3, 7, 2, 4)


@pytest.mark.parametrize(("source", "result", "target"), [
    (["n", 3, 4], ["n", 12], [0, 12]),
    ([3, "n"], ["n", 3], [-1, 3]),
    (["n", "m"], ["n", "m", 1], [0, 0, 1]),
    (["n", "m"], ["m", "n"], None),
    (["n", 4], [None, 2], [-1, 2]),
    ([2, 3], [6], [6]),
    ([0, 3], [3, 0], None),
    (["n", "m", 6], ["n", "k", 6], [0, -1, 6]),
])  # fmt: skip
def test_target(source: list[int | str], result: list[int | str], target: list[int] | None) -> None:
    assert target_of([*source], [*result]) == target


NEAR = [
    ("c = Slice(a, i1, big, i1) b = Slice(c, i0, i1, i1)", "batch,1,4", "slice one axis"),
    ("s = Shape(a) g = Gather(s, i2) c = Slice(a, i0, g, i1) b = Slice(c, i0, i1, i2)",
     "batch,k,1", "isn't constant"),
    (f"{EXPANDED} g = Gather(table, e) f = Cast<to = 1>(e) h = ReduceSum<keepdims = 0>(f) "
     "c = Add(a, g) b = Add(c, h)", SHAPE, "e is used elsewhere"),
    (f"{EXPANDED} g = Gather(table, e) u = Unsqueeze(a, i1) c = Expand(i0, u4) "
     "d = Gather<axis = 2>(u, c) b = Add(u, d)", "batch,1,3,4", "its shapes aren't known"),
    ("e = Expand(ids, pair) g = Gather(table, e) b = Add(col, g)", "2,3,4", "isn't known to be"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "reason"), NEAR)
def test_near_misses(nodes: str, shape: str, reason: str) -> None:
    assert stays(around(nodes, CONSTANTS, SHAPE, shape), FuseShapes(), reason)


def test_what_else_stays() -> None:
    """An Expand that enlarges; a middle value in use; a Transpose that moves something."""
    constants = "int64[3] five = {5,1,1}, float one = {1}"
    model = around("c = Expand(a, five) b = Add(c, one)", constants, "1,3,4", "5,3,4")
    assert stays(model, FuseShapes(), "isn't known to be")
    chain = """m (float[batch,3,4] x) => (float[batch,3,4] y{}) <{}> {{
        z = Reshape(x, t) y = Reshape(z, same) }}"""
    model = text_model(chain.format(", float[batch,12] z", CONSTANTS))
    assert kept(model, FuseShapes()) == []
    model = text_model(chain.format("", CONSTANTS))  # between an input and an output
    fused(model, FuseShapes())
    assert [node.op_type for node in model.nodes()] == ["Identity"]
    nodes = "c = Unsqueeze(a, i1) d = Transpose<perm = [0,1,3,2]>(c) b = Flatten<axis = 1>(d)"
    model = around(nodes, CONSTANTS, SHAPE, "batch,12")
    assert left(fused(model, FuseShapes()))["Transpose"] == 1
