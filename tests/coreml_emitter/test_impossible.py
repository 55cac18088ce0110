"""Ifs of which only one branch can be: exporters' squeezes of sizes they don't know."""

from __future__ import annotations

from tests.coreml_emitter.running import lowered, parsed

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


def test_the_branch_that_a_gru_can_take_is_told() -> None:
    (told,) = lowered(parsed(SQUEEZED)).taken
    assert "then_branch alone" in told
