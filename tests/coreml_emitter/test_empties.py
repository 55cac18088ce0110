"""Parts without elements that models split off and join again."""

from __future__ import annotations

from tests.coreml_emitter.running import agree, numbers, parsed, refusals


def test_a_rest_that_is_nothing() -> None:
    """As a rotary embedding of all of a head's elements has it."""
    model = parsed("""g (float[n, 6] x) => (float[n, 6] y) <int64[2] sizes = {6, 0}> {
        a, rest = Split<axis = -1>(x, sizes)
        b = Neg(a)
        y = Concat<axis = -1>(b, rest)
    }""")
    agree(model, {"x": numbers(3, 6)})


def test_several_parts() -> None:
    model = parsed("""g (float[n, 6] x) => (float[n, 4] y, float[n, 6] z)
        <int64[4] sizes = {4, 0, 2, 0}, int64[1] end = {6}, int64[1] far = {9}, int64[1] at = {1}> {
        a, b, c, d = Split<axis = 1>(x, sizes)
        none = Slice(x, end, far, at)
        less = Neg(none)
        y = Concat<axis = 1>(b, a, less)
        z = Concat<axis = 1>(c, d, y)
    }""")
    agree(model, {"x": numbers(3, 6)})


def test_what_is_left_without_elements_is_refused() -> None:
    model = parsed("""g (float[n, 6] x) => (float[n, 6] y, float[n, 0] z)
        <int64[2] sizes = {6, 0}> { y, z = Split<axis = 1>(x, sizes) }""")
    assert any("without elements" in item.reason for item in refusals(model))
