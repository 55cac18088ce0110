"""Rows that are written over become a Concat, and what only looks like such rows stays."""

import numpy as np
import pytest

from converter.ir.model import Model
from converter.passes.cleanup.cleanup import Cleanup
from converter.passes.cleanup.rows import JoinRows
from tests.passes.fusing import fused
from tests.passes.models import noise, ops, run, text_model

NUMBERS = (
    "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, "
    "int64[1] back = {-2}, int64[1] end = {9223372036854775807}, "
    "int64 no = {0}, int64 each = {1}, int64 other = {2}, "
    "int64[2,1] first = {0,1}, int64[2,1] mid = {1,2}, int64[2,1] last = {3,4}, "
    "int64[5,1] all = {0,1,2,3,4}"
)
FRONT = "Transpose<perm: ints = [1,0,2]>"
COUNTED = "s = Shape(x) n = Gather(s, {}) r = Range(no, n, {}) q = Slice(r, {}, {}, zero, one) "
PART = {"Slice": 2, "Concat": 1}


def _model(nodes: str, x: str, u: str) -> Model:
    return text_model(
        f"m (float[{x}] x, float[{u}] u) => (float[{x}] y) <{NUMBERS}> "
        f"{{ a = Neg(x) v = Neg(u) {nodes} y = Neg(b) }}"
    )


def _left(model: Model) -> dict[str, int]:
    counts = ops(fused(model, Cleanup(), rounding=0))
    return {op: count for op, count in counts.items() if op != "Neg"}


FIRST = [
    ("b = ScatterND(a, mid, v)", PART),
    ('b = ScatterND<reduction: string = "none">(a, first, v)', {"Slice": 1, "Concat": 1}),
    ("b = ScatterND(a, last, v)", {"Slice": 1, "Concat": 1}),
    ("w = Exp(a) b = ScatterND(a, all, w)", {"Exp": 1}),
    ("c = ScatterND(a, mid, v) b = ScatterND(c, last, v)", {"Slice": 3, "Concat": 2}),
    ("p = Slice(a, one, three, zero) b = ScatterND(a, mid, p)", {}),
    ("p = Slice(a, back, end, zero, one) b = ScatterND(a, last, p)", {}),
    ("p = Slice(a, zero, two, zero) b = ScatterND(a, mid, p)", {"Slice": 3, "Concat": 1}),
    ("e = Exp(a) p = Slice(e, one, three, zero) b = ScatterND(a, mid, p)",
     {"Exp": 1, "Slice": 3, "Concat": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "expected"), FIRST)
def test_rows_of_the_first_axis(nodes: str, expected: dict[str, int]) -> None:
    assert _left(_model(nodes, "5,batch,2", "2,batch,2")) == expected


BETWEEN = [
    (f"w = {FRONT}(v) c = ScatterND(t, mid, w) b = {FRONT}(c)", PART),
    (f"p = {FRONT}(v) w = Exp(p) c = ScatterND(t, mid, w) b = {FRONT}(c)",
     {"Transpose": 2, "Exp": 1, **PART}),
    ("o = Transpose<perm: ints = [1,2,0]>(a) w = Transpose<perm: ints = [1,2,0]>(v) "
     "c = ScatterND(o, mid, w) b = Transpose<perm: ints = [2,1,0]>(c)", {"Transpose": 1, **PART}),
    (f"w = {FRONT}(v) c = ScatterND(t, mid, w) d = Exp(c) b = {FRONT}(d)",
     {"Transpose": 2, "Exp": 1, **PART}),
    (f"w = {FRONT}(v) c = ScatterND(t, mid, w) d = Exp(c) e = {FRONT}(d) f = {FRONT}(c) "
     "b = Add(e, f)", {"Transpose": 2, "Exp": 1, "Add": 1, **PART}),
    (f"w = {FRONT}(v) e = Exp(w) c = ScatterND(t, mid, e) d = Exp(c) b = {FRONT}(d)",
     {"Transpose": 3, "Exp": 2, **PART}),
    (f"p = Slice(t, one, three, zero) c = ScatterND(t, mid, p) b = {FRONT}(c)", {}),
    (f"p = Slice(a, one, three, one) w = {FRONT}(p) c = ScatterND(t, mid, w) b = {FRONT}(c)", {}),
    (f"p = Slice(a, one, three, two) o = Transpose<perm: ints = [2,0,1]>(p) "
     f"c = ScatterND(t, mid, o) b = {FRONT}(c)", {"Transpose": 1, "Slice": 3, "Concat": 1}),
    (f"{COUNTED.format('each', 'each', 'back', 'end')} i = Unsqueeze(q, one) "
     f"w = {FRONT}(v) c = ScatterND(t, i, w) b = {FRONT}(c)", {"Slice": 1, "Concat": 1}),
    (f"{COUNTED.format('each', 'each', 'one', 'three')} i = Unsqueeze(q, one) "
     f"w = {FRONT}(v) c = ScatterND(t, i, w) b = {FRONT}(c)", PART),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "expected"), BETWEEN)
def test_rows_between_transposes(nodes: str, expected: dict[str, int]) -> None:
    """And those that PyTorch computes of a size."""
    model = _model(f"t = {FRONT}(a) {nodes}", "batch,5,5", "batch,2,5")
    assert _left(model) == expected


NEAR = [
    ("b = ScatterND(a, i, v)", "int64[2,1] i = {1,3}", "5,3,2"),
    ("b = ScatterND(a, i, v)", "int64[2,1] i = {2,1}", "5,3,2"),
    ("b = ScatterND(a, i, v)", "int64[2,1] i = {1,1}", "5,3,2"),
    ("b = ScatterND(a, i, v)", "int64[2,1] i = {-2,-1}", "5,3,2"),
    ("b = ScatterND(a, i, v)", "int64[2,1] i = {4,5}", "5,3,2"),
    *((f'b = ScatterND<reduction: string = "{how}">(a, mid, v)', "int64 j = {0}", "5,3,2")
      for how in ("add", "mul", "max", "min")),
    ("b = ScatterND(a, mid, v)", "int64 j = {0}", "n,3,2"),
    ("w = Gather(v, no) b = ScatterND(a, i, w)", "int64[3,2] i = {0,0, 0,1, 0,2}", "5,3,2"),
    ("w = Unsqueeze(v, zero) b = ScatterND(a, i, w)", "int64[1,2,1] i = {1,2}", "5,3,2"),
    ("z = Slice(k, zero, one, zero) i = Transpose(z) b = ScatterND(a, i, v)",
     "int64[1,2] k = {1,2}", "5,3,2"),
    ("z = Slice(k, zero, one, zero) i = Reshape(z, j) b = ScatterND(a, i, v)",
     "int64[1,2] k = {1,2}, int64[2] j = {2,1}", "5,3,2"),
    (COUNTED.format("no", "other", "zero", "two") + "i = Unsqueeze(q, one) b = ScatterND(a, i, v)",
     "int64 j = {0}", "5,3,2"),
    (COUNTED.format("no", "each", "one", "three") + "i = Unsqueeze(q, one) b = ScatterND(a, i, v)",
     "int64 j = {0}", "n,3,2"),
    ("s = Shape<start: int = 1>(x) n = Gather(s, no) r = Range(no, n, each) "
     "q = Slice(r, back, end, zero) i = Unsqueeze(q, one) b = ScatterND(a, i, v)", "int64 j = {0}",
     "5,3,2"),
    (COUNTED.format("no", "each", "one", "three") + "k = Mul(q, one) i = Unsqueeze(k, one) "
     "b = ScatterND(a, i, v)", "int64 j = {0}", "5,3,2"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants", "x"), NEAR)
def test_near_misses(nodes: str, constants: str, x: str) -> None:
    model = text_model(
        f"m (float[{x}] x, float[2,3,2] u) => (float[{x}] y) <{NUMBERS}, {constants}> "
        f"{{ a = Neg(x) v = Neg(u) {nodes} y = Neg(b) }}"
    )
    assert not JoinRows()(model.graph).modified


def test_rows_that_a_caller_gives_stay() -> None:
    model = text_model("""
        m (float[5,3] x, int64[2,1] i, float[2,3] u) => (float[5,3] y) {
            a = Neg(x) y = ScatterND(a, i, u) }""")
    assert not JoinRows()(model.graph).modified


BITS = np.random.default_rng(0).integers(0, 2**63, 28)
VALUES = {
    **{kind: BITS.view(kind)[:28] for kind in ("float16", "float32", "double", "int8", "int64")},
    "bool": BITS % 2 == 1,
    "string": BITS.astype(str).astype(object),
}


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_bit_for_bit(kind: str) -> None:
    name, values = kind.replace("float32", "float"), VALUES[kind]
    model = text_model(f"""
        m ({name}[batch,5,2] x, {name}[batch,2,2] u) => ({name}[batch,5,2] y) <{NUMBERS}> {{
            t = {FRONT}(x) w = {FRONT}(u) c = ScatterND(t, mid, w) y = {FRONT}(c) }}""")
    feeds = {"x": values[:20].reshape(2, 5, 2), "u": values[20:].reshape(2, 2, 2)}
    expected = feeds["x"].copy()
    expected[:, 1:3] = feeds["u"]
    Cleanup()(model.graph)
    assert ops(model) == PART
    after = run(model, feeds)["y"]
    assert after.tobytes() == expected.tobytes() or after.tolist() == expected.tolist()


def test_in_a_branch_and_as_an_output() -> None:
    """Rows written in a branch, there to a value of the outer graph; all rows, by an input."""
    model = text_model(f"""
        m (float[5,batch] x, float[2,batch] u, bool c) => (float[5,batch] y) <{NUMBERS}> {{
            a = Neg(x) y = If(c) <
                then_branch = t () => (float[5,batch] p) {{ p = ScatterND(a, mid, u) }},
                else_branch = e () => (float[5,batch] q) {{
                    r = Slice(a, one, three, zero) q = ScatterND(a, mid, r) }}> }}""")
    for chosen in (True, False):
        feeds = {**noise(model), "c": np.array(chosen)}
        counts = ops(fused(model, Cleanup(), feeds, rounding=0))
        assert counts == {"Neg": 1, "If": 1, "Identity": 1, **PART}
    model = text_model(f"""
        m (float[5,batch] x, float[5,batch] u) => (float[5,batch] y) <{NUMBERS}> {{
            y = ScatterND(x, all, u) }}""")
    assert ops(fused(model, Cleanup(), rounding=0)) == {"Identity": 1}
    assert not Cleanup()(model.graph).modified
