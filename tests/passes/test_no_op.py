"""What counts as doing nothing, and what only looks like it."""

import numpy as np
import pytest

from converter.passes.cleanup.no_op import RemoveNoOps
from tests.passes.models import noise, ops, run, text_model

# The middle node is between two others, so that it touches neither input nor output.
AROUND = """
m (float[batch,4] x) => (float[batch,4] y)
<{constants}>
{{ a = Abs(x)  b = {node}  y = Abs(b) }}
"""

NOTHING = [
    *((f"{plain}(a)", "") for plain in ("Identity", "Dropout", "Cast<to: int = 1>", "Flatten",
      "Transpose<perm: ints = [0, 1]>", "Concat<axis: int = 0>", "Sum", "Max", "Clip")),
    *(("Reshape(a, s)", f"int64[2] s = {{{s}}}") for s in ("0, 4", "-1, 4", "0, -1")),
    *((f"{op}(a, s)", "int64[2] s = {1, 1}") for op in ("Expand", "Tile")),
    ("CastLike(a, x)", ""),
    ("Dropout(a, r, t)", "float r = {0.5}, bool t = {0}"),
    ("Slice(a, s, e)", "int64[2] s = {0, 0}, int64[2] e = {9223372036854775807, 4}"),
    ("Slice(a, s, e, d, p)", "int64[1] s={0}, int64[1] e={9}, int64[1] d={-1}, int64[1] p={1}"),
    ("Slice(a, s, e, d)", "int64[1] s = {-4}, int64[1] e = {9}, int64[1] d = {1}"),
    ("Pad(a, p)", "int64[4] p = {0, 0, 0, 0}"),
    *(("Mul(a, c)", "float c = {1}"), ("Div(a, c)", "float[1] c = {1}")),
    ("Sub(a, c)", "float c = {0}"),
]  # fmt: skip

SOMETHING = [
    ("Add(a, c)", "float c = {1e-10}"),
    ("Add(a, c)", "float c = {0}"),  # -0.0 becomes 0.0
    ("Sub(a, c)", "float c = {1e-9}"),
    ("Mul(a, c)", "float c = {1.000001}"),
    ("Mul(a, c)", "float[1,1,1] c = {1}"),  # one dimension more
    ("Transpose<perm: ints = [1, 0]>(a)", ""),
    ("Cast<to: int = 10>(a)", ""),
    ("Slice(a, s, e)", "int64[1] s = {0}, int64[1] e = {3}"),
    ("Slice(a, s, e)", "int64[1] s = {-4}, int64[1] e = {9}"),  # of a batch of any size
    ("Slice(a, s, e, d)", "int64[1] s = {-3}, int64[1] e = {9}, int64[1] d = {1}"),
    ("Slice(a, s, e, d, p)", "int64[1] s={0}, int64[1] e={9}, int64[1] d={1}, int64[1] p={2}"),
    ("Pad(a, p)", "int64[4] p = {0, 0, 0, 1}"),
    ("Dropout(a, r, t)", "float r = {0.5}, bool t = {1}"),
    ("Reshape(a, s)", "int64[2] s = {4, -1}"),
    ("Expand(a, s)", "int64[3] s = {1, 1, 1}"),
    ("Clip(a, c)", "float c = {-1}"),
]


@pytest.mark.parametrize(("node", "constants"), NOTHING)
def test_drops_what_does_nothing(node: str, constants: str) -> None:
    model = text_model(AROUND.format(node=node, constants=constants))
    feeds = noise(model)
    before = run(model, feeds)["y"]
    RemoveNoOps()(model.graph)
    assert ops(model) == {"Abs": 2}
    np.testing.assert_array_equal(run(model, feeds)["y"], before)


@pytest.mark.parametrize(("node", "constants"), SOMETHING)
def test_leaves_what_does_something(node: str, constants: str) -> None:
    text = AROUND.replace("float[batch,4] y", "y").format(node=node, constants=constants)
    model = text_model(text.replace("(y)", "(float y)"))
    assert not RemoveNoOps()(model.graph).modified
    assert sum(ops(model).values()) == 3


def test_an_output_keeps_its_name() -> None:
    model = text_model("m (float[2] x) => (float[2] y) { a = Abs(x) y = Identity(a) }")
    RemoveNoOps()(model.graph)
    assert ops(model) == {"Abs": 1}
    assert [spec.name for spec in model.outputs] == ["y"]


NEEDED = {
    "an input that is an output": "(float[2] x) => (float[2] y) { y = Identity(x) }",
    "two outputs of one value": """(float[2] x) => (float[2] y, float[2] z)
        { y = Abs(x) z = Identity(y) }""",
    "a branch that gives an outer value": """(float[2] x, bool c) => (float[2] y) {
        a = Abs(x) y = If(c) <then_branch = t () => (float[2] p) { p = Identity(a) },
                              else_branch = e () => (float[2] q) { q = Neg(a) }> }""",
    "a mask in use": """(float[2] x) => (float[2] y, bool[2] k)
        { a = Abs(x) b, k = Dropout(a) y = Abs(b) }""",
}


@pytest.mark.parametrize("name", NEEDED)
def test_nodes_that_are_needed_stay(name: str) -> None:
    model = text_model("m " + NEEDED[name])
    assert not RemoveNoOps()(model.graph).modified
    run(model, noise(model))
