"""What exporters write around attention that nothing needs where nothing is masked."""

from collections import Counter
from pathlib import Path

import onnx
import pytest

import modelyard
from converter.ir.inference import infer
from converter.ir.model import Model
from converter.passes.fuse.attention import FuseAttention
from tests.passes.fusing import around, fused, kept, left, stays

CONSTANTS = (
    "float zero = {0}, float half = {0.5}, float low = {-10000}, float nothing = {0}, "
    "float[2,1] row = {7,7}, float[1,3] column = {1,2,3}, "
    "float[3,4] w = {1,2,3,4,5,6,7,8,9,1,2,3}, "
    "bool[1,1] seen = {1}, bool[1,1] hidden = {0}, bool[1,3] some = {1,0,1}, "
    "float[2,4] causal = {0,-inf,-inf,0,0,0,0,-inf}, "
    "int64[3] merged = {-1,2,3}, int64[4] apart = {-1,5,3,2}, int64[4] other = {5,-1,3,2}, "
    "int64[4] mixed = {-1,5,2,3}, int64[1] ends = {2}, int64[1] axis = {1}, "
    "int64[1] last = {-1}, float lowest = {-inf}, int64 first = {0}, int64 step = {1}, "
    "bool[3,3] lower = {1,0,0,1,1,0,1,1,1}, float[3,3] added = {0,-inf,-inf,0,0,-inf,0,0,0}"
)
SHAPE = "batch,5,2,3"

FUSED = [
    ("c = Add(a, row) b = Softmax(c)", SHAPE, {"Softmax": 1}),
    ("s = Shape(a) e = Expand(seen, s) m = Where(e, zero, low) c = Add(m, a) b = Softmax(c)",
     SHAPE, {"Softmax": 1}),
    ("s = Shape(a) e = Expand(hidden, s) m = Where(e, zero, half) c = Add(m, a) b = Softmax(c)",
     SHAPE, {"Softmax": 1}),
    ("m = MatMul(a, w) p = Softmax(m) n = IsNaN(p) b = Where(n, zero, p)", "batch,5,2,4",
     {"MatMul": 1, "Softmax": 1}),
    ("m = MatMul(a, w) h = Div(m, half) d = Sub(h, row) p = Softmax(d) n = IsNaN(p) "
     "b = Where(n, zero, p)", "batch,5,2,4", {"MatMul": 1, "Div": 1, "Sub": 1, "Softmax": 1}),
    ("m = MatMul(a, w) c = Add(causal, m) p = Softmax(c) n = IsNaN(p) b = Where(n, zero, p)",
     "batch,5,2,4", {"MatMul": 1, "Add": 1, "Softmax": 1}),
    ("m = MatMul(a, w) c = Add(m, causal) p = Softmax<axis = 2>(c) n = IsNaN(p) "
     "b = Where(n, zero, p)", "batch,5,2,4", {"MatMul": 1, "Add": 1, "Softmax": 1}),
    ("m = Reshape(a, merged) t = Transpose<perm = [0,2,1]>(m) b = Reshape(t, apart)",
     "batch,5,3,2", {"Transpose": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "expected"), FUSED)
def test_fewer(nodes: str, shape: str, expected: dict[str, int]) -> None:
    guarded = nodes if "Softmax" in nodes else f"{nodes} unused = Softmax(b)"
    model = around(guarded, CONSTANTS, SHAPE, shape)
    for value, known in infer(model.graph).items():  # sizes that are computed, too
        value.shape = known.shape or value.shape
    fused(model, FuseAttention())
    counts = left(model)
    counts["Softmax"] -= "unused" in guarded
    assert {op: count for op, count in counts.items() if count} == expected


def seen(mask: str, more: str = "") -> str:
    """Attention's result, or 0 where a row of the mask ``m`` lets nothing through."""
    largest = "c = Cast<to = 6>(m) r = ReduceMax(c, last) s = Cast<to = 9>(r)"
    return f"{more} m = {mask} {largest} b = Where(s, a, zero)"


COUNTED = "z = Shape(a) n = Gather(z, {index}) k = Range(first, n, step)"
PLACES = f"{COUNTED.format(index='three')} q = Reshape(k, upright)"
SEEING = [
    seen("Identity(lower)"),
    seen("Expand(lower, z)", "z = Shape(a)"),
    seen("Or(hide, lower)", "q = ReduceSum<keepdims = 0>(a, two) hide = Greater(q, zero)"),
    seen("LessOrEqual(k, q)", PLACES),
    seen("GreaterOrEqual(q, k)", PLACES),
    "r = ReduceMax(added, last) s = Greater(r, lowest) b = Where(s, a, zero)",
    "q = Greater(a, zero) n = Cast<to = 1>(q) o = Sub(half, n) m = Mul(o, low) "
    "r = ReduceMax(m, last) s = Greater(r, lowest) b = Where(s, a, zero)",
    "z = Shape<start = 3>(a) square = Concat<axis = 0>(z, z) e = Expand(lowest, square) "
    "m = Trilu<upper = 1>(e, step) r = ReduceMax(m, last) s = Greater(r, lowest) "
    "b = Where(s, a, zero)",
]
BLIND = [
    seen("Identity(blind3)"),
    seen("Cast<to = 9>(ints)"),  # 0 and 1 as integers, of which a row may be all 0
    seen("And(lower, hide)", "q = ReduceSum<keepdims = 0>(a, two) hide = Greater(q, zero)"),
    seen("Less(k, q)", PLACES),
    seen("LessOrEqual(q, k)", PLACES),
    seen("LessOrEqual(k, q)", PLACES.replace("first", "step")),  # places from 1 on
    "q = Greater(a, zero) m = Where(q, zero, lowest) r = ReduceMax(m, last) "
    "s = Greater(r, lowest) b = Where(s, a, zero)",
    "r = ReduceMax(added, first_axis) s = Greater(r, lowest) b = Where(s, a, zero)",
    "z = Shape<start = 3>(a) square = Concat<axis = 0>(z, z) e = Expand(lowest, square) "
    "m = Trilu<upper = 1>(e, first) r = ReduceMax(m, last) s = Greater(r, lowest) "
    "b = Where(s, a, zero)",
]
MORE = (
    f"{CONSTANTS}, int64 three = {{3}}, int64[1] first_axis = {{0}}, int64[2] upright = {{-1,1}}, "
    "int64[2] two = {0,1}, "
    "bool[3,3] blind3 = {0,0,0,1,1,0,1,1,1}, int64[3,3] ints = {0,0,0,1,1,0,1,1,1}"
)


@pytest.mark.parametrize("nodes", SEEING)
def test_rows_that_see_something(nodes: str) -> None:
    model = masked(nodes)
    fused(model, FuseAttention())
    assert "Where" not in left(model)


@pytest.mark.parametrize("nodes", BLIND)
def test_rows_that_may_see_nothing(nodes: str) -> None:
    assert all("masked wholly" in reason for reason in kept(masked(nodes), FuseAttention()))


def masked(nodes: str) -> Model:
    """A model with a Softmax besides, and the shapes that are known."""
    model = around(f"{nodes} unused = Softmax(b)", MORE, "batch,5,3,3", "batch,5,3,3")
    for value, known in infer(model.graph).items():
        value.shape = known.shape or value.shape
    return model


KEPT = [
    ("c = Add(a, column) b = Softmax(c)", SHAPE, None),
    ("l = Log(nothing) e = Expand(some, s) m = Where(e, zero, l) c = Add(m, a) b = Softmax(c)",
     SHAPE, None),
    ("c = Add(a, wide) b = Softmax(c)", SHAPE, "isn't known to be as large"),
    ("c = Add(a, inf) b = Softmax(c)", SHAPE, "the added number is -inf"),
    ("p = Softmax(a) n = IsNaN(p) b = Where(n, zero, p)", SHAPE, "masked wholly"),
    ("m = MatMul(a, w) c = Add(m, inf) p = Softmax(c) n = IsNaN(p) b = Where(n, zero, p)",
     "batch,5,2,4", "masked wholly"),
    *((f"m = MatMul(a, w) c = Add(m, {mask}) p = Softmax<axis = {axis}>(c) n = IsNaN(p) "
       "b = Where(n, zero, p)", "batch,5,2,4", "masked wholly")
      for mask, axis in (("causal", 1), ("blind", -1), ("nan", -1), ("high", -1))),
    ("m = Log(a) c = Add(m, causal3) p = Softmax(c) n = IsNaN(p) b = Where(n, zero, p)",
     SHAPE, "masked wholly"),
    ("m = MatMul(a, w) c = Div(m, zero) p = Softmax(c) n = IsNaN(p) b = Where(n, zero, p)",
     "batch,5,2,4", "masked wholly"),
    ("m = Reshape(a, merged) t = Transpose<perm = [0,2,1]>(m) b = Reshape(t, mixed) "
     "unused = Softmax(b)", "batch,5,2,3", "the last two axes"),
    ("m = Reshape(a, merged) t = Transpose<perm = [0,2,1]>(m) b = Reshape(t, other) "
     "unused = Softmax(b)", "5,batch,3,2", "the first axes"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "reason"), KEPT)
def test_what_stays(nodes: str, shape: str, reason: str | None) -> None:
    more = ", float[6,1,1,1] wide = {1,1,1,1,1,1}, float[1] inf = {-inf}"
    more += ", float[2,4] blind = {0,0,0,0,-inf,-inf,-inf,-inf}, float[4] nan = {nan,0,0,0}"
    more += ", float[4] high = {inf,0,0,0}, float[3] causal3 = {0,0,-inf}"
    expand = "s = Shape(a) " if "Expand" in nodes else ""
    assert stays(around(expand + nodes, CONSTANTS + more, SHAPE, shape), FuseAttention(), reason)


def test_values_have_the_shapes_that_they_had() -> None:
    """Names that are made up to tell sizes apart don't stay."""
    nodes = (
        "flat = Reshape(a, merged) t = Transpose<perm = [0,2,1]>(flat) d = Reshape(t, apart) "
        "k = Transpose<perm = [0,1,3,2]>(d) p = Softmax(k) b = Reshape(p, mixed)"
    )
    model = around(nodes, CONSTANTS, SHAPE, SHAPE)
    before = symbols(model)
    fused(model, FuseAttention())
    assert left(model)["Reshape"] == 1 and symbols(model) <= before


def symbols(model: Model) -> set[str]:
    values = [value for node in model.nodes() for value in node.outputs]
    return {str(dim) for value in values for dim in value.shape or ()}


VIT = """
import transformers

def vit():
    sizes = {"hidden_size": 32, "intermediate_size": 32, "image_size": 32, "patch_size": 8}
    heads = {"num_hidden_layers": 12, "num_attention_heads": 2}
    return transformers.ViTModel(transformers.ViTConfig(**sizes, **heads))
"""


@pytest.mark.slow
def test_patches_that_nothing_masks_have_no_mask(tmp_path: Path) -> None:
    """transformers expands to the batch a mask that hides nothing."""
    source, out = tmp_path / "net.py", tmp_path / "out"
    source.write_text(VIT)
    inputs = "pixel_values:batchx3x32x32"
    modelyard.convert(
        f"{source}:vit", inputs=inputs, samples="random:2", bench=False, out=str(out)
    )  # fmt: skip
    (path,) = out.rglob("model.onnx")
    operators = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert operators["Softmax"] and not {"Where", "ReduceMax"} & set(operators), operators
