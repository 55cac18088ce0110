"""If, Loop and Scan: as TFLite's IF and WHILE, MIL's cond and while_loop, or written out."""

import pytest

from emitters.lowering.loops import settle_loops
from tests.operators.cases import Case, Emits, Only, Refused, numbers
from tests.operators.running import TARGETS, check

BOTH = ({"c": True}, {"c": False})
GRU_WEIGHTS = {"w": numbers(1, 9, 4), "r": numbers(1, 9, 3)}
ONES = {"a": [0, 0, 0], "b": [1, 2, 0.5]}
NOT_RUN = {
    "a Reshape to pairs": "r = Reshape (x, pairs)",
    "a Reshape to three": "r = Reshape (x, three)",
    "an Add": "r = Add (x, z)",
    "a Concat": "r = Concat <axis = 0> (x, z)",
    "a MatMul": "r = MatMul (z, x)",
    "an Expand": "r = Expand (x, wide)",
    "a Conv": "u = Unsqueeze (x, one) v = Conv (u, w) r = Squeeze (v, one)",
}


def gru(rest: str, outputs: str, inputs: str = "") -> str:
    """A graph whose If is known where a GRU takes its result, ``z``."""
    return f"""g (float[b, 4, n] x{inputs}) => ({outputs})
        <float[1, 9, 4] w, float[1, 9, 3] r, int64[1] last = {{2}}, int64[1] one = {{1}}, int64[1] first = {{0}},
        int64[1] all = {{-1}}> {{
        s = Shape(x)  d = Gather(s, last)  c = Equal(d, one)
        z = If (c) <then_branch = t () => (p) {{ p = Squeeze(x, last) }},
                    else_branch = e () => (q) {{ q = Identity(x) }}>
        {rest} }}"""


def loop(inputs: str, size: str = "n", weights: str = "", most: str = "m") -> str:
    """A Loop that ends when a sum is 20, after ``m`` rounds, or at once where ``c`` isn't."""
    return f"""g ({inputs} float[{size}] a, float[{size}] b) => (float[{size}] last, float[k, {size}] all) <{weights}> {{
        last, all = Loop ({most}, c, a) <body = body (int64 i, bool go, float[{size}] s)
            => (bool more, float[{size}] t, float[{size}] out) <float limit = {{20}}> {{
            t = Add(s, b)  out = Mul(t, b)  total = ReduceSum <keepdims = 0> (t)  more = Less(total, limit)
        }}> }}"""


def rounds(inputs: str = "", weights: str = "", before: str = "") -> str:
    """A Loop of ``m`` rounds."""
    return f"""g (float[2] x{inputs}) => (float[2] y, float[k, 2] all, int64[k] count) <bool yes = {{1}}{weights}> {{
        {before}
        y, all, count = Loop (m, yes, x) <body = body (int64 i, bool go, float[2] s)
            => (bool same, float[2] t, float[2] out, int64 n) {{
            same = Identity(go)  t = Add(s, x)  out = Neg(t)  n = Mul(i, i)
        }}> }}"""


def scan(steps: str, back: int) -> str:
    """A Scan along two axes, one of which may go from the end."""
    return f"""g (float[2] h, float[2, {steps}, 3] x, float[{steps}, 2] z) => (float[2] y, float[2, {steps}] all) {{
        y, all = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_output_axes = [1],
            scan_input_directions = [{back}, 0], scan_output_directions = [{back}],
            body = body (float[2] s, float[2, 3] e, float[2] f) => (float[2] t, float[2] out) {{
                one = Constant<value_ints = [1]>()
                r = ReduceMax<keepdims = 0>(e, one)  g1 = Tanh(r)  u = Add(s, g1)  t = Add(u, f)  out = Mul(t, f)
            }}> (h, x, z) }}"""


# fmt: off
CASES: list[Case] = [
    # If
    Case("branches capture outer values",
        """g (float[n, 4] x, bool c) => (float[n, 4] y, float[n, 4] z)
        <float[4] w = {1, 2, 3, 4}> {
        a = Mul(x, w)
        y, z = If (c) <then_branch = t () => (float[n, 4] p, float[n, 4] o) { p = Add(a, w) o = Identity(x) },
                       else_branch = e () => (float[n, 4] q, float[n, 4] r) { b = Neg(a)  q = Sub(b, x) r = Mul(x, w) }> }""",
        sizes={"n": 3}, feeds=BOTH),
    Case("branches of other sizes, nested",
        """g (float[5, 2] x, bool[1] c, bool d) => (float[m, 2] y, float[m, 2] a) {
        y = If (c) <then_branch = t () => (float[3, 2] p) {
                        s = Constant<value_ints = [0]>()  n = Constant<value_ints = [3]>()
                        z = Slice(x, s, n)
                        p = If (d) <then_branch = tt () => (float[3, 2] r) { r = Relu(z) },
                                    else_branch = te () => (float[3, 2] r) { r = Neg(z) }> },
                    else_branch = e () => (float[5, 2] q) { q = Identity(x) }>
        a = Abs(y) }""",
        feeds=[{"c": [c], "d": d} for c in (True, False) for d in (True, False)]),
    Case("a SpaceToDepth that only fits where it isn't run",
        """g (float[1, 1, n, m] x, bool c) => (float[1, k, p, q] y) {
        y = If (c) <then_branch = t () => (float[1, k, p, q] r) { r = SpaceToDepth <blocksize = 2> (x) },
                    else_branch = e () => (float[1, k, p, q] r) { r = Neg(x) }> }""",
        sizes={"n": 5, "m": 3}, feeds={"c": False}),
    Case("branches that are constants",
        """g (bool c) => (float[2] y, int64 n, bool b) {
        y, n, b = If (c) <then_branch = t () => (float[2] p, int64 k, bool f)
                <float[2] p = {1, 2}, int64 k = {3}, bool f = {1}> { },
            else_branch = e () => (float[2] q, int64 l, bool h)
                <float[2] q = {3, 4}, int64 l = {5}, bool h = {0}> { }> }""",
        feeds=BOTH),
    Case("convolutions in a branch have their channels last",
        """g (float[1, 3, 8, 8] x, bool c) => (float[1, 3, 4, 4] y) <float[3, 3, 3, 3] w> {
        y = If (c) <then_branch = t () => (float[1, 3, 4, 4] p) { a = Conv(x, w) b = Relu(a) p = Conv(b, w) },
                    else_branch = e () => (float[1, 3, 4, 4] q) { d = Conv(x, w) q = Conv(d, w) }> }""",
        feeds=BOTH, weights={"w": numbers(3, 3, 3, 3, seed=1)},
        tflite=Only("IF", "CONV_2D", "CONV_2D", "CONV_2D", "CONV_2D"), tol=1e-4),
    Case("int8 in a branch",
        """g (float[N, 4] x, bool c) => (float[N, 4] y) <float s, int8 z> {
        y = If (c) <then_branch = t () => (float[N, 4] p) {
                        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  d = Add(b, b)
                        e = QuantizeLinear(d, s, z)  p = DequantizeLinear(e, s, z) },
                    else_branch = e () => (float[N, 4] q) { q = Neg(x) }> }""",
        sizes={"N": 3}, feeds=BOTH, weights={"s": 0.05, "z": 3},
        tflite=Only("IF", "QUANTIZE", "ADD", "DEQUANTIZE", "NEG"), tol=0.051),
    Case("a branch that is known stands in place",
        """g (float[n, 4, 1] x) => (float[n, 4] y)
        <int64[1] at = {2}, int64[1] one = {1}> {
        s = Shape(x)  d = Gather(s, at)  c = Equal(d, one)
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, at) }, else_branch = e () => (q) { q = Identity(x) }>
        y = Relu(z) }""",
        sizes={"n": 2}, tflite=Emits(IF=0), coreml=Emits(cond=0)),
    Case("a branch without elements",
        """g (float[n, 4] x, bool c) => (float[m, 4] y, int64[k] i) <int64[1] one = {1}> {
        y, i = If (c) <then_branch = t () => (p, j) { p = Sigmoid(x) r = ReduceSum<keepdims = 0>(x, one) q = Cast<to = 7>(r)
                                                       j = Identity(q) },
                       else_branch = e () => (float[0, 4] q, int64[0] l) { z = Constant<value = int64[2] {0, 4}>()
                           q = ConstantOfShape(z) o = Constant<value = int64[1] {0}>()
                           l = ConstantOfShape<value = int64[1] {0}>(o) }> }""",
        sizes={"n": 3}, feeds=BOTH, tflite=Emits("IF")),
    Case("a branch with one row",
        """g (float[n, 4] x, bool c) => (float[m, 4] y) <int64[1] zero = {0}, int64[1] one = {1}> {
        z = If (c) <then_branch = t () => (p) { p = Slice(x, zero, one, zero) },
                    else_branch = e () => (q) { q = Sigmoid(x) }>
        y = Neg(z) }""",
        sizes={"n": 3}, feeds=BOTH),
    Case("boxes where there are none",
        """g (float[n, 4] x, float[n] s) => (float[m, 4] y) <int64[1] zero = {0}, float low = {0.5}> {
        k = Greater(s, low) b = Compress<axis = 0>(x, k) h = Size(b) c = Equal(h, zero)
        z = If (c) <then_branch = t () => (float[0, 4] p) { p = Constant<value = float[0, 4] {}>() },
                    else_branch = e () => (q) { q = Sigmoid(b) }>
        y = Neg(z) }""",
        sizes=[{"n": 5}, {"n": 9}], feeds=[{}, {"s": [0.0] * 9}]),
    Case("another number of axes",
        """g (float[n, 1] x, bool c) => (float[m] y) <int64[1] at = {1}> {
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, at) }, else_branch = e () => (q) { q = Identity(x) }>
        y = ReduceMax(z) }""",
        tflite=Refused("1 axes in one graph, but 2 in the other"),
        coreml=Refused("1 axes in one graph, but 2 in the other")),
    *(
        Case(f"either branch can be: {op}",
            f"""g (float[b, n] x) => (y) <int64[1] last = {{1}}, int64[1] one = {{1}}> {{
            s = Shape(x)  d = Gather(s, last)  c = Equal(d, one)
            z = If (c) <then_branch = t () => (p) {{ p = Squeeze(x, last) }}, else_branch = e () => (q) {{ q = Identity(x) }}>
            y = {op}(z) }}""",
            tflite=Refused("axes in one graph"), coreml=Refused("its number of axes isn't known"))
        for op in ("ReduceMax", "Relu")
    ),
    Case("the branch that a GRU can take",
        gru("u = Unsqueeze(z, first) y, h = GRU<hidden_size = 3>(u, w, r)", "float[s, 1, b, 3] y"),
        sizes=[{"b": 1, "n": 1}, {"b": 3, "n": 1}], weights=GRU_WEIGHTS,
        tflite=Refused("2 axes in one graph, but 3 in the other")),
    Case("nodes of another graph prove nothing",
        gru(
            """y = Reshape(z, all)
        o = If (run) <then_branch = tt () => (f) { u = Unsqueeze(z, first) v, h = GRU<hidden_size = 3>(u, w, r)
                                                   f = Reshape(v, all) },
                      else_branch = ee () => (g) { g = Neg(y) }>""",
            "float[m] y, float[k] o",
            ", bool run",
        ),
        weights=GRU_WEIGHTS, tflite=Refused("2 axes in one graph, but 3 in the other"),
        coreml=Refused("2 axes in one graph, but 3 in the other")),
    Case("sequences",
        """g (float[2] x, bool c) => (float[2] y) <int64 at = {0}> {
        s = If (c) <then_branch = t () => (seq(float[2]) p) { p = SequenceConstruct(x) },
                    else_branch = e () => (seq(float[2]) q) { q = SequenceConstruct(x, x) }>
        y = SequenceAt(s, at) }""",
        tflite=Refused("sequence"), coreml=Refused("no sequences")),
    Case("random numbers in both branches",
        """g (float[2] x, bool c) => (float[2] y, float[2] z) {
        y = If (c) <then_branch = t () => (float[2] p) { p = RandomUniformLike(x) },
                    else_branch = e () => (float[2] q) { r = RandomNormalLike(x) q = Neg(r) }>
        z = Relu(y) }""",
        tflite=Refused("RandomUniformLike:", "RandomNormalLike:", "can't be checked"),
        coreml=Refused("RandomUniformLike: Core ML has no", "RandomNormalLike: Core ML has no")),
    Case("random numbers in a loop",
        """g (float[2] x, int64 m) => (float[2] y) <bool yes = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, float[2] s) => (bool same, float[2] t)
            { same = Identity(go) r = RandomUniformLike(s) t = Add(r, s) }> }""",
        tflite=Refused("RandomUniformLike:"), coreml=Refused("RandomUniformLike:")),
    # Loop
    Case("no round of a Reshape that doesn't fit",
        """g (float[b, n] x, int64 m) => (float[b, n] y)
        <bool yes = {1}, int64[1] one = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, float[b, n] s) => (bool same, float[b, n] t) {
            same = Identity(go)  r = Reshape(s, one)  t = Add(r, s) }> }""",
        sizes={"b": 1, "n": 2560}, feeds={"m": 0}),
    Case("no limit", loop("bool c,", most='""'), feeds={"c": True, **ONES}),
    Case("no round, a computed end", loop("int64 m, bool c,", size="2"),
        feeds=[{"m": m, "c": True, "a": [0, 0]} for m in (0, -1, 2)]),
    *(
        Case(f"a computed end, at most {most}, fed", loop("int64 m, bool c,"),
            feeds={"m": most, "c": True, **ONES})
        for most in (1, 3, 100)
    ),
    *(
        Case(f"a computed end, at most {most}", loop("", weights=f"int64 m = {{{most}}}, bool c = {{1}}"),
            feeds=ONES)
        for most in (1, 3, 100)
    ),
    Case("more rounds than int32 has numbers", loop("int64 m, bool c,"),
        feeds={"m": 1 << 40, "c": True, **ONES}, ios=()),
    Case("rounds fed", rounds(", int64 m"), feeds=[{"m": m} for m in (0, -1, 1, 2, 4)]),
    Case("no round", rounds(weights=", int64 m = {0}"), coreml=Refused("no tensors without elements")),
    Case("a round for each row",
        rounds(
            ", float[n, 3] z",
            before="one = Constant<value_ints = [1]>() size = Shape<end = 1>(z) m = Identity(size)",
        ),
        sizes=[{"n": 2}, {"n": 5}], tflite=Emits(LOGICAL_AND=0), coreml=Emits(slice_by_index=0, logical_and=0)),
    Case("a round for each row but one",
        rounds(
            ", float[n, 3] z",
            before="one = Constant<value_ints = [1]>() size = Shape<end = 1>(z) m = Sub(size, one)",
        ),
        sizes=[{"n": 2}, {"n": 5}], coreml=Emits(slice_by_index=2)),
    *(
        Case(f"{count} rounds",
            f"""g (float[n, 2] x) => (float[n, 2] y, float[k, n, 2] all, bool[k] odd)
            <int64 m = {{{count}}}, bool yes = {{1}}, int64 two = {{2}}> {{
            y, all, odd = Loop (m, yes, x) <body = body (int64 i, bool go, s) => (bool same, t, out, flag) {{
                same = Identity(go)  f = Cast<to = 1>(i)  t = Add(s, f)  out = Mul(t, x)
                h = Mod(i, two)  flag = Cast<to = 9>(h) }}> }}""",
            sizes={"n": 3}, tflite=Emits("DYNAMIC_UPDATE_SLICE"), coreml=made)
        for count, made in ((3, Emits(while_loop=0)), (12, Emits("while_loop")))
    ),
    Case("a state that grows",
        """g (float[1, 2] x, int64 m) => (float[k, 2] y) <bool yes = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, s) => (bool same, t) {
            same = Identity(go)  t = Concat<axis = 0>(s, x) }> }""",
        feeds=[{"m": 0}, {"m": 5}]),
    Case("states that take each other's values",
        """g (int64 m, float[2] x) => (int64 a, int64 b, float[2] s)
        <bool yes = {1}, int64 zero = {0}, int64 one = {1}, float[2] start = {7, 8}> {
        a, b, s = Loop (m, yes, zero, one, start) <body = body (int64 i, bool go, int64 p, int64 q, float[2] r)
            => (bool same, int64 n, int64 o, float[2] t) {
            same = Identity(go)  n = Identity(q)  o = Add(p, q)  t = Identity(x) }> }""",
        feeds=[{"m": 0}, {"m": 1}, {"m": 10}]),
    Case("a size that slices by outer numbers keep",
        """g (float[n, 2] x, int64 m) => (float[n, 2] y, float[k, n, 2] all)
        <bool yes = {1}, int64[2] starts = {0, 1}, int64[2] ends = {2147483647, 3}, int64[2] axes = {0, 1}> {
        y, all = Loop (m, yes, x) <body = body (int64 i, bool go, s) => (bool same, t, out) {
            same = Identity(go)  w = Concat<axis = 1>(x, s)  t = Slice(w, starts, ends, axes)  out = Neg(t) }> }""",
        sizes=[{"n": 3}, {"n": 5}], feeds={"m": 4}),
    Case("elements whose size only the body knows",
        """g (float[n] x, int64 m) => (float[n] y, float[k, j] all)
        <bool yes = {1}, int64[1] zero = {0}, int64[1] step = {2}> {
        y, all = Loop (m, yes, x) <body = body (int64 i, bool go, float[n] s) => (bool same, float[n] t, float[j] out) {
            same = Identity(go)  t = Add(s, x)  size = Shape(x)  half = Div(size, step)
            out = Slice(t, zero, half) }> }""",
        sizes=[{"n": 4}, {"n": 6}], feeds={"m": 3}, tflite=Refused("isn't known before the loop")),
    # Scan
    *(
        Case(f"Scan of {steps} steps, {back} back", scan(steps, back),
            sizes=[{"n": 1}, {"n": 6}] if steps == "n" else {}, tflite=Emits(SELECT_V2=0))
        for steps in ("n", "5", "11")
        for back in (0, 1)
    ),
    # what isn't run
    *(
        Case(f"{name} that only fits where it isn't run",
            f"""g (float[1, n] x, float[1, m] z, bool c) => (float[p, q] y)
            <int64[2] pairs = {{2, -1}}, int64[2] three = {{1, 3}}, int64[2] wide = {{2, 8}}, int64[1] one = {{1}},
            float[1, 1, 7] w = {{1, 2, 3, 4, 5, 6, 7}}> {{
            y = If (c) <then_branch = t () => (float[p, q] r) {{ {does} }},
                        else_branch = e () => (float[p, q] r) {{ r = Neg(x) }}> }}""",
            sizes={"n": 5, "m": 7}, feeds={"c": False})
        for name, does in NOT_RUN.items()
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)


def test_a_step_of_a_scan_is_without_the_axis_that_it_goes_along() -> None:
    model = Case("", scan("5", 0)).model()
    assert settle_loops(model.graph)
    (node,) = (node for node in model.nodes() if node.op_type == "Scan")
    body = node.attributes["body"].as_graph()
    assert [str(value.shape) for value in body.inputs] == ["[2]", "[2,3]", "[2]"]
