"""If, Loop and Scan through TFLite's IF and WHILE, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emitters.tflite.lowering import lower
from tests.tflite_emitter.running import agree, kinds, lowered, numbers, parsed, with_weights

IF = """g (float[N, 4] x, bool c) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> {
    a = Mul(x, w)
    y = If (c) <then_branch = t () => (float[N, 4] p) { p = Add(a, w) },
                else_branch = e () => (float[N, 4] q) { b = Neg(a)  q = Sub(b, x) }>
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_branches_capture_outer_values(tmp_path: Path, condition: bool) -> None:
    agree(parsed(IF), {"x": numbers(3, 4), "c": np.asarray(condition)}, tmp_path)


def test_branches_of_different_sizes_nested_in_one_another(tmp_path: Path) -> None:
    model = parsed("""g (float[5, 2] x, bool c, bool d) => (float[M, 2] y) {
        y = If (c) <then_branch = t () => (float[3, 2] p) {
                        s = Constant<value_ints = [0]>()  n = Constant<value_ints = [3]>()
                        z = Slice(x, s, n)
                        p = If (d) <then_branch = tt () => (float[3, 2] r) { r = Relu(z) },
                                    else_branch = te () => (float[3, 2] r) { r = Neg(z) }> },
                    else_branch = e () => (float[5, 2] q) { q = Identity(x) }>
    }""")
    for c in (True, False):
        for d in (True, False):
            agree(model, {"x": numbers(5, 2), "c": np.asarray(c), "d": np.asarray(d)}, tmp_path)


def test_convolutions_in_a_branch_have_their_channels_last(tmp_path: Path) -> None:
    model = parsed("""g (float[1, 3, 8, 8] x, float[3, 3, 3, 3] w, bool c)
        => (float[1, 3, 4, 4] y) {
        y = If (c) <then_branch = t () => (float[1, 3, 4, 4] p) {
                        a = Conv(x, w) b = Relu(a) p = Conv(b, w) },
                    else_branch = e () => (float[1, 3, 4, 4] q) { d = Conv(x, w) q = Conv(d, w) }>
    }""")
    model = with_weights(model, w=numbers(3, 3, 3, 3, seed=1))
    then = [operator.op for operator in lowered(model).model.subgraphs[1].operators]
    assert then == ["TRANSPOSE", "CONV_2D", "CONV_2D", "TRANSPOSE"]
    for c in (True, False):
        agree(model, {"x": numbers(1, 3, 8, 8), "c": np.asarray(c)}, tmp_path, atol=1e-4)


def test_integers_in_a_branch(tmp_path: Path) -> None:
    """Q and DQ around an Add inside: it computes in int8 there."""
    model = parsed("""g (float[N, 4] x, bool c, float s, int8 z) => (float[N, 4] y) {
        y = If (c) <then_branch = t () => (float[N, 4] p) {
                        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
                        d = Add(b, b)
                        e = QuantizeLinear(d, s, z)  p = DequantizeLinear(e, s, z) },
                    else_branch = e () => (float[N, 4] q) { q = Neg(x) }>
    }""")
    model = with_weights(model, s=np.asarray(0.05, np.float32), z=np.asarray(3, np.int8))
    then = [operator.op for operator in lowered(model).model.subgraphs[1].operators]
    assert then == ["QUANTIZE", "ADD", "DEQUANTIZE"]
    for c in (True, False):
        agree(model, {"x": numbers(3, 4), "c": np.asarray(c)}, tmp_path, atol=0.051)


def test_known_branch_stands_in_place(tmp_path: Path) -> None:
    """Which one follows from a shape of which another axis is free."""
    model = parsed("""g (float[N, 4, 1] x) => (float[N, 4] y)
        <int64[1] at = {2}, int64[1] one = {1}> {
        s = Shape(x)  d = Gather(s, at)  c = Equal(d, one)
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, at) },
                    else_branch = e () => (q) { q = Identity(x) }>
        y = Relu(z)
    }""")
    assert "IF" not in kinds(model)
    agree(model, {"x": numbers(2, 4, 1)}, tmp_path)


LOOP = """g (int64 m, bool c, float[N] a, float[N] b) => (float[N] last, float[K, N] all) {
    last, all = Loop (m, c, a) <body = body (int64 i, bool go, float[N] s)
        => (bool more, float[N] t, float[N] out) <float limit = {20}> {
        t = Add(s, b)
        out = Mul(t, b)
        total = ReduceSum <keepdims = 0> (t)
        more = Less(total, limit)
    }>
}"""


@pytest.mark.parametrize("most", [0, 3, 100])
def test_loop_of_a_computed_end(tmp_path: Path, most: int) -> None:
    feeds = {
        "m": np.asarray(most, np.int64),
        "c": np.asarray(True),
        "a": np.zeros(3, np.float32),
        "b": np.asarray([1, 2, 0.5], np.float32),
    }
    text = LOOP if most else LOOP.replace("N", "3")  # of no rounds ONNX Runtime makes (0, 0)
    agree(parsed(text), feeds, tmp_path)
    fixed = with_weights(parsed(text), m=feeds.pop("m"), c=feeds.pop("c"))
    agree(fixed, feeds, tmp_path)


def test_loop_of_so_many_rounds(tmp_path: Path) -> None:
    model = parsed("""g (float[N, 2] x) => (float[N, 2] y, float[4, N, 2] all)
        <int64 m = {4}, bool yes = {1}> {
        y, all = Loop (m, yes, x) <body = body (int64 i, bool go, s)
            => (bool same, t, out) {
            same = Identity(go)
            f = Cast<to = 1>(i)
            t = Add(s, f)
            out = Mul(t, x)
        }>
    }""")
    made = lowered(model).model.subgraphs
    assert any(operator.op == "DYNAMIC_UPDATE_SLICE" for g in made for operator in g.operators)
    agree(model, {"x": numbers(3, 2)}, tmp_path)


def test_loop_of_a_number_of_rounds_fed(tmp_path: Path) -> None:
    model = parsed("""g (float[2] x, int64 m) => (float[2] y, float[K, 2] all)
        <bool yes = {1}> {
        y, all = Loop (m, yes, x) <body = body (int64 i, bool go, float[2] s)
            => (bool same, float[2] t, float[2] out) {
            same = Identity(go)
            t = Add(s, x)
            out = Neg(t)
        }>
    }""")
    for rounds in (0, 1, 4):
        agree(model, {"x": numbers(2), "m": np.asarray(rounds, np.int64)}, tmp_path)


def test_loop_whose_state_grows(tmp_path: Path) -> None:
    model = parsed("""g (float[1, 2] x) => (float[K, 2] y) <int64 m = {3}, bool yes = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, s) => (bool same, t) {
            same = Identity(go)
            t = Concat<axis = 0>(s, x)
        }>
    }""")
    agree(model, {"x": numbers(1, 2)}, tmp_path)


@pytest.mark.parametrize("back", [0, 1])
def test_scan_along_other_axes(tmp_path: Path, back: int) -> None:
    model = parsed(f"""g (float[2] h, float[2, N, 3] x, float[N, 2] z)
        => (float[2] y, float[2, N] all) {{
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
    for steps in (1, 5):
        feeds = {"h": numbers(2), "x": numbers(2, steps, 3), "z": numbers(steps, 2, seed=2)}
        agree(model, feeds, tmp_path)


def test_refusals_inside_are_all_listed() -> None:
    model = parsed("""g (float[2] x, bool c) => (float[2] y, float[2] z) {
        y = If (c) <then_branch = t () => (float[2] p) { p = RandomUniformLike(x) },
                    else_branch = e () => (float[2] q) { r = RandomNormalLike(x) q = Neg(r) }>
        z = Relu(y)
    }""")
    found = lower(model).refusals
    assert [item.op for item in found] == ["RandomUniformLike", "RandomNormalLike"]
    assert all("can't be checked" in item.reason for item in found)


def test_another_number_of_axes_is_refused() -> None:
    model = parsed("""g (float[N, 1] x, bool c) => (float[M] y) <int64[1] at = {1}> {
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, at) },
                    else_branch = e () => (q) { q = Identity(x) }>
        y = ReduceMax(z)
    }""")
    (found,) = lower(model).refusals
    assert "1 axes in one graph, and 2 in the other" in found.reason


def test_sequences_are_refused() -> None:
    model = parsed("""g (float[2] x, bool c) => (float[2] y) <int64 at = {0}> {
        s = If (c) <then_branch = t () => (seq(float[2]) p) { p = SequenceConstruct(x) },
                    else_branch = e () => (seq(float[2]) q) { q = SequenceConstruct(x, x) }>
        y = SequenceAt(s, at)
    }""")
    found = lower(model).refusals
    assert [item.op for item in found] == ["If"]
    assert "sequence" in found[0].reason
