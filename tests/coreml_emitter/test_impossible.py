"""Ifs of which only one branch can be: exporters' squeezes of sizes they don't know."""

from __future__ import annotations

import pytest

from tests.coreml_emitter.running import agree, lowered, numbers, parsed, refusals, with_weights

SQUEEZED = """g (float[b, 4, n] x, float[1, 9, 4] w, float[1, 9, 3] r) => (float[s, 1, b, 3] y)
    <int64[1] last = {2}, int64[1] one = {1}, int64[1] first = {0}> {
    s = Shape(x)
    d = Gather(s, last)
    c = Equal(d, one)
    z = If (c) <then_branch = t () => (p) { p = Squeeze(x, last) },
                else_branch = e () => (q) { q = Identity(x) }>
    u = Unsqueeze(z, first)
    y, h = GRU<hidden_size = 3>(u, w, r)
}"""


def test_the_branch_that_a_gru_can_take() -> None:
    model = with_weights(parsed(SQUEEZED), w=numbers(1, 9, 4), r=numbers(1, 9, 3))
    agree(model, [{"x": numbers(b, 4, 1)} for b in (1, 3)])
    (told,) = lowered(model).taken
    assert "then_branch alone" in told


def test_nodes_of_another_graph_prove_nothing() -> None:
    """The GRU isn't always run."""
    model = parsed("""g (float[b, 4, n] x, bool run, float[1, 9, 4] w, float[1, 9, 3] r)
        => (float[m] y, float[k] o)
        <int64[1] last = {2}, int64[1] one = {1}, int64[1] first = {0}, int64[1] all = {-1}> {
        s = Shape(x)
        d = Gather(s, last)
        c = Equal(d, one)
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, last) },
                    else_branch = e () => (q) { q = Identity(x) }>
        y = Reshape(z, all)
        o = If (run) <then_branch = tt () => (f) {
                          u = Unsqueeze(z, first) v, h = GRU<hidden_size = 3>(u, w, r)
                          f = Reshape(v, all) },
                      else_branch = ee () => (g) { g = Neg(y) }>
    }""")
    model = with_weights(model, w=numbers(1, 9, 4), r=numbers(1, 9, 3))
    assert any("2 axes in one graph, and 3 in the other" in item.reason for item in refusals(model))


@pytest.mark.parametrize("use", ["ReduceMax(z)", "Relu(z)"])
def test_either_branch_can_be(use: str) -> None:
    model = parsed(f"""g (float[b, n] x) => (y) <int64[1] last = {{1}}, int64[1] one = {{1}}> {{
        s = Shape(x)
        d = Gather(s, last)
        c = Equal(d, one)
        z = If (c) <then_branch = t () => (p) {{ p = Squeeze(x, last) }},
                    else_branch = e () => (q) {{ q = Identity(x) }}>
        y = {use}
    }}""")
    assert refusals(model)
