"""If, Loop and Scan through MIL's cond and while_loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.running import (
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    refusals,
    with_weights,
)

BOTH = (np.asarray(True), np.asarray(False))


def test_branches_capture_outer_values() -> None:
    model = parsed("""g (float[n, 4] x, bool c) => (float[n, 4] y, float[n, 4] z)
        <float[4] w = {1, 2, 3, 4}> {
        y, z = If (c) <then_branch = t () => (float[n, 4] p, float[n, 4] o)
                           { p = Add(x, w) o = Identity(x) },
                       else_branch = e () => (float[n, 4] q, float[n, 4] r)
                           { b = Neg(x)  q = Mul(b, x) r = Mul(x, w) }>
    }""")
    agree(model, [{"x": numbers(3, 4), "c": c} for c in BOTH])


def test_branches_of_different_sizes_nested_in_one_another() -> None:
    model = parsed("""g (float[5, 2] x, bool[1] c, bool d) => (float[m, 2] y, float[m, 2] a) {
        y = If (c) <then_branch = t () => (float[3, 2] p) {
                        s = Constant<value_ints = [0]>()  n = Constant<value_ints = [3]>()
                        z = Slice(x, s, n)
                        p = If (d) <then_branch = tt () => (float[3, 2] r) { r = Relu(z) },
                                    else_branch = te () => (float[3, 2] r) { r = Neg(z) }> },
                    else_branch = e () => (float[5, 2] q) { q = Identity(x) }>
        a = Abs(y)
    }""")
    feeds = [{"x": numbers(5, 2), "c": c.reshape(1), "d": d} for c in BOTH for d in BOTH]
    agree(model, feeds)


def test_constant_branches() -> None:
    model = parsed("""g (bool c) => (float[2] y, int64 n, bool b) {
        y, n, b = If (c) <then_branch = t () => (float[2] p, int64 k, bool f)
                <float[2] p = {1, 2}, int64 k = {3}, bool f = {1}> { },
            else_branch = e () => (float[2] q, int64 l, bool h)
                <float[2] q = {3, 4}, int64 l = {5}, bool h = {0}> { }>
    }""")
    agree(model, [{"c": c} for c in BOTH])


def test_known_branch_stands_in_place(tmp_path: Path) -> None:
    """Which one follows from a shape of which another axis is free."""
    model = parsed("""g (float[n, 4, 1] x) => (float[n, 4] y)
        <int64[1] at = {2}, int64[1] one = {1}> {
        s = Shape(x)  d = Gather(s, at)  c = Equal(d, one)
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, at) },
                    else_branch = e () => (q) { q = Identity(x) }>
        y = Relu(z)
    }""")
    agree(model, {"x": numbers(2, 4, 1)}, tmp_path)
    assert "cond" not in kinds(tmp_path / "model.mlpackage")


# -- Loop --------------------------------------------------------------------------------


LOOP = """g (int64 m, bool c, float[n] a, float[n] b) => (float[n] last, float[k, n] all) {
    last, all = Loop (m, c, a) <body = body (int64 i, bool go, float[n] s)
        => (bool more, float[n] t, float[n] out) <float limit = {20}> {
        t = Add(s, b)
        out = Mul(t, b)
        total = ReduceSum <keepdims = 0> (t)
        more = Less(total, limit)
    }>
}"""


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_loop_of_a_computed_end(most: int, fixed: bool) -> None:
    given = {"m": np.asarray(most, np.int64), "c": np.asarray(True)}
    feeds = {"a": np.zeros(3, np.float32), "b": np.asarray([1, 2, 0.5], np.float32)}
    model = parsed(LOOP)
    agree(with_weights(model, **given) if fixed else model, feeds if fixed else {**given, **feeds})


def test_loop_without_a_limit() -> None:
    text = LOOP.replace("int64 m, ", "").replace("Loop (m, ", 'Loop ("", ')
    feeds = {"a": np.zeros(3, np.float32), "b": np.asarray([1, 2, 0.5], np.float32)}
    agree(parsed(text), {"c": np.asarray(True), **feeds})


EVERY = """g (float[2] x, MORE) => (float[2] y, float[k, 2] all) <bool yes = {1}> {
    TRIPS
    y, all = Loop (m, yes, x) <body = body (int64 i, bool go, float[2] s)
        => (bool same, float[2] t, float[2] out) {
        same = Identity(go)
        t = Add(s, x)
        out = Neg(t)
    }>
}"""


@pytest.mark.parametrize("ends", [False, True])
def test_what_no_round_puts_together_has_no_elements(ends: bool) -> None:
    """Not even a row of the room that is made for at least one round."""
    fixed = LOOP.replace("float[n]", "float[2]").replace("[k, n]", "[k, 2]")
    text = fixed if ends else EVERY.replace("MORE", "int64 m").replace("TRIPS", "")
    for rounds in (0, -1, 2):
        m = np.asarray(rounds, np.int64)
        feeds = {"m": m, "x": numbers(2)}
        if ends:
            feeds = {"m": m, "c": np.asarray(True), "a": np.zeros(2, np.float32), "b": numbers(2)}
        found = agree(parsed(text), feeds)
        assert len(found["all"]) == max(rounds, 0)


def test_rounds_for_each_row_leave_nothing_to_cut(tmp_path: Path) -> None:
    """A size is never 0 in Core ML; one less may be."""
    count = "one = Constant<value_ints = [1]>() size = Shape<end = 1>(z) m = Identity(size)"
    rows = parsed(EVERY.replace("MORE", "float[n, 3] z").replace("TRIPS", count))
    less = parsed(EVERY.replace("MORE", "float[n, 3] z").replace(
        "TRIPS", count.replace("Identity(size)", "Sub(size, one)")))  # fmt: skip
    feeds = [{"x": numbers(2), "z": numbers(n, 3)} for n in (2, 5)]
    for model, cuts in ((rows, 0), (less, 1)):
        agree(model, feeds, tmp_path)
        assert kinds(tmp_path / "model.mlpackage").count("slice_by_index") == cuts


def test_a_loop_that_never_runs_is_refused() -> None:
    model = with_weights(
        parsed(EVERY.replace("MORE", "int64 m").replace("TRIPS", "")), m=np.asarray(0, np.int64)
    )
    (found,) = refusals(model)
    assert found.reason == "Core ML has no tensors without elements"


@pytest.mark.parametrize("rounds", [3, 12])
def test_loop_of_so_many_rounds(rounds: int, tmp_path: Path) -> None:
    """Few are written out."""
    model = parsed(f"""g (float[n, 2] x) => (float[n, 2] y, float[k, n, 2] all, bool[k] odd)
        <int64 m = {{{rounds}}}, bool yes = {{1}}, int64 two = {{2}}> {{
        y, all, odd = Loop (m, yes, x) <body = body (int64 i, bool go, s)
            => (bool same, t, out, flag) {{
            same = Identity(go)
            f = Cast<to = 1>(i)
            t = Add(s, f)
            out = Mul(t, x)
            h = Mod(i, two)
            flag = Cast<to = 9>(h)
        }}>
    }}""")
    agree(model, {"x": numbers(3, 2)}, tmp_path)
    assert ("while_loop" in kinds(tmp_path / "model.mlpackage")) == (rounds == 12)


def test_loop_of_a_number_of_rounds_fed() -> None:
    model = parsed("""g (float[2] x, int64 m) => (float[2] y, float[k, 2] all, int64[k] count)
        <bool yes = {1}> {
        y, all, count = Loop (m, yes, x) <body = body (int64 i, bool go, float[2] s)
            => (bool same, float[2] t, float[2] out, int64 n) {
            same = Identity(go)
            t = Add(s, x)
            out = Neg(t)
            n = Mul(i, i)
        }>
    }""")
    agree(model, [{"x": numbers(2), "m": np.asarray(m, np.int64)} for m in (1, 4)])


def test_loop_whose_state_grows() -> None:
    model = parsed("""g (float[1, 2] x, int64 m) => (float[k, 2] y) <bool yes = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, s) => (bool same, t) {
            same = Identity(go)
            t = Concat<axis = 0>(s, x)
        }>
    }""")
    agree(model, [{"x": numbers(1, 2), "m": np.asarray(m, np.int64)} for m in (0, 5)])


def test_states_that_take_each_others_values() -> None:
    """Fibonacci's numbers: the first round makes a state that begins as a constant the same
    constant. And a state that is another value from outside after the first round."""
    model = parsed("""g (int64 m, float[2] x) => (int64 a, int64 b, float[2] s)
        <bool yes = {1}, int64 zero = {0}, int64 one = {1}, float[2] start = {7, 8}> {
        a, b, s = Loop (m, yes, zero, one, start) <body =
            body (int64 i, bool go, int64 p, int64 q, float[2] r)
            => (bool same, int64 n, int64 o, float[2] t) {
            same = Identity(go)
            n = Identity(q)
            o = Add(p, q)
            t = Identity(x)
        }>
    }""")
    agree(model, [{"x": numbers(2), "m": np.asarray(m, np.int64)} for m in (0, 1, 10)])


def test_elements_whose_size_only_the_body_knows() -> None:
    model = parsed("""g (float[n] x, int64 m) => (float[n] y, float[k, j] all)
        <bool yes = {1}, int64[1] zero = {0}, int64[1] step = {2}> {
        y, all = Loop (m, yes, x) <body = body (int64 i, bool go, float[n] s)
            => (bool same, float[n] t, float[j] out) {
            same = Identity(go)
            t = Add(s, x)
            size = Shape(x)
            half = Div(size, step)
            out = Slice(t, zero, half)
        }>
    }""")
    agree(model, [{"x": numbers(n), "m": np.asarray(3, np.int64)} for n in (4, 6)])


# -- Scan --------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("steps", ["n", "5", "11"])
def test_scan_along_other_axes(back: int, steps: str) -> None:
    model = parsed(f"""g (float[2] h, float[2, {steps}, 3] x, float[{steps}, 2] z)
        => (float[2] y, float[2, {steps}] all) {{
        y, all = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_output_axes = [1],
            scan_input_directions = [{back}, 0], scan_output_directions = [{back}],
            body = body (float[2] s, float[2, 3] e, float[2] f) => (float[2] t, float[2] out) {{
                one = Constant<value_ints = [1]>()
                r = ReduceMax<keepdims = 0>(e, one)
                g1 = Tanh(r)
                u = Add(s, g1)
                t = Add(u, f)
                out = Mul(t, f)
            }}> (h, x, z)
    }}""")
    counts = (1, 6) if steps == "n" else (int(steps),)
    agree(model, [{"h": numbers(2), "x": numbers(2, n, 3), "z": numbers(n, 2)} for n in counts])


# -- what can't be -----------------------------------------------------------------------


def test_refusals_inside_are_all_listed() -> None:
    model = parsed("""g (float[2] x, bool c) => (float[2] y, float[2] z) {
        y = If (c) <then_branch = t () => (float[2] p) { p = RandomUniformLike(x) },
                    else_branch = e () => (float[2] q) { r = RandomNormalLike(x) q = Neg(r) }>
        z = Relu(y)
    }""")
    found = refusals(model)
    assert [item.op for item in found] == ["RandomUniformLike", "RandomNormalLike"]
    assert all(item.reason.startswith("Core ML has no") for item in found)


def test_refusals_in_a_loop_are_told() -> None:
    model = parsed("""g (float[2] x, int64 m) => (float[2] y) <bool yes = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, float[2] s) => (bool same, float[2] t)
            { same = Identity(go) r = RandomUniformLike(s) t = Add(r, s) }>
    }""")
    assert [item.op for item in refusals(model)] == ["RandomUniformLike"]


def test_another_number_of_axes_is_refused() -> None:
    model = parsed("""g (float[n, 1] x, bool c) => (float[m] y) <int64[1] at = {1}> {
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, at) },
                    else_branch = e () => (q) { q = Identity(x) }>
        y = ReduceMax(z)
    }""")
    (found,) = refusals(model)
    assert "1 axes in one graph, and 2 in the other" in found.reason


def test_sequences_are_refused() -> None:
    model = parsed("""g (float[2] x, bool c) => (float[2] y) <int64 at = {0}> {
        s = If (c) <then_branch = t () => (seq(float[2]) p) { p = SequenceConstruct(x) },
                    else_branch = e () => (seq(float[2]) q) { q = SequenceConstruct(x, x) }>
        y = SequenceAt(s, at)
    }""")
    found = refusals(model)
    assert [item.op for item in found] == ["If"]
    assert "no sequences" in found[0].reason


def test_a_weight_is_stored_once_whichever_branch_has_it(tmp_path: Path) -> None:
    model = parsed("""g (float[2, 64] x, float[64, 64] w, bool c) => (float[2, 64] y) {
        y = If (c) <then_branch = t () => (float[2, 64] p) { a = MatMul(x, w) p = MatMul(a, w) },
                    else_branch = e () => (float[2, 64] q) { q = MatMul(x, w) }>
    }""")
    path = emitted(with_weights(model, w=numbers(64, 64)), tmp_path)
    weights = path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    assert weights.stat().st_size < 1.5 * 64 * 64 * 4
