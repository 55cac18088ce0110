"""If, Loop and Scan: as TFLite's IF and WHILE, MIL's cond and while_loop, or written out."""

from emitters.lowering.loops import settle_loops
from tests.operators.cases import Case, numbers
from tests.operators.running import on_every_target

BOTH = ({"c": True}, {"c": False})
LOOP = """g (int64 m, bool c, float[n] a, float[n] b) => (float[n] last, float[k, n] all) {
    last, all = Loop (m, c, a) <body = body (int64 i, bool go, float[n] s)
        => (bool more, float[n] t, float[n] out) <float limit = {20}> {
        t = Add(s, b)  out = Mul(t, b)  total = ReduceSum <keepdims = 0> (t)  more = Less(total, limit)
    }> }"""
FIXED = LOOP.replace("float[n]", "float[2]").replace("[k, n]", "[k, 2]")
EVERY = """g (float[2] x, MORE) => (float[2] y, float[k, 2] all, int64[k] count) <bool yes = {1}> {
    TRIPS
    y, all, count = Loop (m, yes, x) <body = body (int64 i, bool go, float[2] s)
        => (bool same, float[2] t, float[2] out, int64 n) {
        same = Identity(go)  t = Add(s, x)  out = Neg(t)  n = Mul(i, i)
    }> }"""
GIVEN = EVERY.replace("MORE", "int64 m").replace("TRIPS", "")
ROWS = "one = Constant<value_ints = [1]>() size = Shape<end = 1>(z) m = "
SCAN = """g (float[2] h, float[2, STEPS, 3] x, float[STEPS, 2] z) => (float[2] y, float[2, STEPS] all) {
    y, all = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_output_axes = [1],
        scan_input_directions = [BACK, 0], scan_output_directions = [BACK],
        body = body (float[2] s, float[2, 3] e, float[2] f) => (float[2] t, float[2] out) {
            one = Constant<value_ints = [1]>()
            r = ReduceMax<keepdims = 0>(e, one)  g1 = Tanh(r)  u = Add(s, g1)  t = Add(u, f)  out = Mul(t, f)
        }> (h, x, z) }"""
GRU = """g (float[b, 4, n] x, MORE float[1, 9, 4] w, float[1, 9, 3] r) => (RESULTS)
    <int64[1] last = {2}, int64[1] one = {1}, int64[1] first = {0}, int64[1] all = {-1}> {
    s = Shape(x)  d = Gather(s, last)  c = Equal(d, one)
    z = If (c) <then_branch = t () => (p) { p = Squeeze(x, last) },
                else_branch = e () => (q) { q = Identity(x) }>
    REST }"""
GRU_WEIGHTS = {"w": numbers(1, 9, 4), "r": numbers(1, 9, 3)}
ONES = {"a": [0, 0, 0], "b": [1, 2, 0.5]}

# fmt: off
CASES: dict[str, Case | str] = {
    # If
    "branches capture outer values": Case("""g (float[n, 4] x, bool c) => (float[n, 4] y, float[n, 4] z)
        <float[4] w = {1, 2, 3, 4}> {
        a = Mul(x, w)
        y, z = If (c) <then_branch = t () => (float[n, 4] p, float[n, 4] o) { p = Add(a, w) o = Identity(x) },
                       else_branch = e () => (float[n, 4] q, float[n, 4] r) { b = Neg(a)  q = Sub(b, x) r = Mul(x, w) }> }""",
        "n=3", BOTH),
    "branches of other sizes, nested": Case("""g (float[5, 2] x, bool[1] c, bool d) => (float[m, 2] y, float[m, 2] a) {
        y = If (c) <then_branch = t () => (float[3, 2] p) {
                        s = Constant<value_ints = [0]>()  n = Constant<value_ints = [3]>()
                        z = Slice(x, s, n)
                        p = If (d) <then_branch = tt () => (float[3, 2] r) { r = Relu(z) },
                                    else_branch = te () => (float[3, 2] r) { r = Neg(z) }> },
                    else_branch = e () => (float[5, 2] q) { q = Identity(x) }>
        a = Abs(y) }""", feeds=[{"c": [c], "d": d} for c in (True, False) for d in (True, False)]),
    "a SpaceToDepth that only fits where it isn't run": Case("""g (float[1, 1, n, m] x, bool c) => (float[1, k, p, q] y) {
        y = If (c) <then_branch = t () => (float[1, k, p, q] r) { r = SpaceToDepth <blocksize = 2> (x) },
                    else_branch = e () => (float[1, k, p, q] r) { r = Neg(x) }> }""", "n=5 m=3", {"c": False}),
    "branches that are constants": Case("""g (bool c) => (float[2] y, int64 n, bool b) {
        y, n, b = If (c) <then_branch = t () => (float[2] p, int64 k, bool f)
                <float[2] p = {1, 2}, int64 k = {3}, bool f = {1}> { },
            else_branch = e () => (float[2] q, int64 l, bool h)
                <float[2] q = {3, 4}, int64 l = {5}, bool h = {0}> { }> }""", feeds=BOTH),
    "convolutions in a branch have their channels last": Case("""g (float[1, 3, 8, 8] x, float[3, 3, 3, 3] w, bool c)
        => (float[1, 3, 4, 4] y) {
        y = If (c) <then_branch = t () => (float[1, 3, 4, 4] p) { a = Conv(x, w) b = Relu(a) p = Conv(b, w) },
                    else_branch = e () => (float[1, 3, 4, 4] q) { d = Conv(x, w) q = Conv(d, w) }> }""",
        feeds=BOTH, weights={"w": numbers(3, 3, 3, 3, seed=1)}, tol=1e-4,
        tflite="= IF CONV_2D CONV_2D CONV_2D CONV_2D"),
    "int8 in a branch": Case("""g (float[N, 4] x, bool c, float s, int8 z) => (float[N, 4] y) {
        y = If (c) <then_branch = t () => (float[N, 4] p) {
                        a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  d = Add(b, b)
                        e = QuantizeLinear(d, s, z)  p = DequantizeLinear(e, s, z) },
                    else_branch = e () => (float[N, 4] q) { q = Neg(x) }> }""", "N=3",
        BOTH, {"s": 0.05, "z": 3}, tol=0.051, tflite="= IF QUANTIZE ADD DEQUANTIZE NEG"),
    "a branch that is known stands in place": Case("""g (float[n, 4, 1] x) => (float[n, 4] y)
        <int64[1] at = {2}, int64[1] one = {1}> {
        s = Shape(x)  d = Gather(s, at)  c = Equal(d, one)
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, at) }, else_branch = e () => (q) { q = Identity(x) }>
        y = Relu(z) }""", "n=2", tflite="-IF", coreml="-cond"),
    "a branch without elements": Case("""g (float[n, 4] x, bool c, int64[1] one) => (float[m, 4] y, int64[k] i) {
        y, i = If (c) <then_branch = t () => (p, j) { p = Sigmoid(x) r = ReduceSum<keepdims = 0>(x, one) q = Cast<to = 7>(r)
                                                       j = Identity(q) },
                       else_branch = e () => (float[0, 4] q, int64[0] l) { z = Constant<value = int64[2] {0, 4}>()
                           q = ConstantOfShape(z) o = Constant<value = int64[1] {0}>()
                           l = ConstantOfShape<value = int64[1] {0}>(o) }> }""", "n=3", BOTH,
        weights={"one": [1]}, tflite="IF"),
    "a branch with one row": Case("""g (float[n, 4] x, bool c) => (float[m, 4] y) <int64[1] zero = {0}, int64[1] one = {1}> {
        z = If (c) <then_branch = t () => (p) { p = Slice(x, zero, one, zero) },
                    else_branch = e () => (q) { q = Sigmoid(x) }>
        y = Neg(z) }""", "n=3", BOTH),
    "boxes where there are none": Case("""g (float[n, 4] x, float[n] s) => (float[m, 4] y) <int64[1] zero = {0}, float low = {0.5}> {
        k = Greater(s, low) b = Compress<axis = 0>(x, k) h = Size(b) c = Equal(h, zero)
        z = If (c) <then_branch = t () => (float[0, 4] p) { p = Constant<value = float[0, 4] {}>() },
                    else_branch = e () => (q) { q = Sigmoid(b) }>
        y = Neg(z) }""", "n=5, n=9", [{}, {"s": [0.0] * 9}]),
    "another number of axes": Case("""g (float[n, 1] x, bool c) => (float[m] y) <int64[1] at = {1}> {
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, at) }, else_branch = e () => (q) { q = Identity(x) }>
        y = ReduceMax(z) }""", tflite="! 1 axes in one graph, and 2 in the other",
        coreml="! 1 axes in one graph, and 2 in the other"),
    "either branch can be: (ReduceMax|Relu)": Case("""g (float[b, n] x) => (y) <int64[1] last = {1}, int64[1] one = {1}> {
        s = Shape(x)  d = Gather(s, last)  c = Equal(d, one)
        z = If (c) <then_branch = t () => (p) { p = Squeeze(x, last) }, else_branch = e () => (q) { q = Identity(x) }>
        y = (ReduceMax|Relu)(z) }""", tflite="! axes in one graph",
        coreml="! its number of axes isn't known"),
    "the branch that a GRU can take": Case(GRU.replace("MORE", "").replace("RESULTS", "float[s, 1, b, 3] y").replace(
        "REST", "u = Unsqueeze(z, first) y, h = GRU<hidden_size = 3>(u, w, r)"),
        "b=1 n=1, b=3 n=1", weights=GRU_WEIGHTS, tflite="! 2 axes in one graph, and 3 in the other"),
    "nodes of another graph prove nothing": Case(GRU.replace("MORE", "bool run,").replace("RESULTS", "float[m] y, float[k] o")
        .replace("REST", """y = Reshape(z, all)
        o = If (run) <then_branch = tt () => (f) { u = Unsqueeze(z, first) v, h = GRU<hidden_size = 3>(u, w, r)
                                                   f = Reshape(v, all) },
                      else_branch = ee () => (g) { g = Neg(y) }>"""), weights=GRU_WEIGHTS,
        coreml="! 2 axes in one graph, and 3 in the other", tflite="! 2 axes in one graph, and 3 in the other"),
    "sequences": Case("""g (float[2] x, bool c) => (float[2] y) <int64 at = {0}> {
        s = If (c) <then_branch = t () => (seq(float[2]) p) { p = SequenceConstruct(x) },
                    else_branch = e () => (seq(float[2]) q) { q = SequenceConstruct(x, x) }>
        y = SequenceAt(s, at) }""", tflite="! sequence", coreml="! no sequences"),
    "random numbers in both branches": Case("""g (float[2] x, bool c) => (float[2] y, float[2] z) {
        y = If (c) <then_branch = t () => (float[2] p) { p = RandomUniformLike(x) },
                    else_branch = e () => (float[2] q) { r = RandomNormalLike(x) q = Neg(r) }>
        z = Relu(y) }""",
        tflite="! RandomUniformLike: & RandomNormalLike: & can't be checked",
        coreml="! RandomUniformLike: Core ML has no & RandomNormalLike: Core ML has no"),
    "random numbers in a loop": Case("""g (float[2] x, int64 m) => (float[2] y) <bool yes = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, float[2] s) => (bool same, float[2] t)
            { same = Identity(go) r = RandomUniformLike(s) t = Add(r, s) }> }""",
        tflite="! RandomUniformLike:", coreml="! RandomUniformLike:"),

    # Loop
    "no round of a Reshape that doesn't fit": Case("""g (float[b, n] x, int64 m) => (float[b, n] y)
        <bool yes = {1}, int64[1] one = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, float[b, n] s) => (bool same, float[b, n] t) {
            same = Identity(go)  r = Reshape(s, one)  t = Add(r, s) }> }""", "b=1 n=2560", {"m": 0}),
    "no limit": Case(LOOP.replace("int64 m, ", "").replace("Loop (m, ", 'Loop ("", '), feeds={"c": True, **ONES}),
    "no round, a computed end": Case(FIXED, feeds=[{"m": m, "c": True, "a": [0, 0]} for m in (0, -1, 2)]),
    "rounds fed": Case(GIVEN, feeds=[{"m": m} for m in (0, -1, 1, 2, 4)]),
    "no round": Case(GIVEN, weights={"m": 0}, coreml="! no tensors without elements"),
    "a round for each row": Case(EVERY.replace("MORE", "float[n, 3] z").replace("TRIPS", ROWS + "Identity(size)"),
        "n=2, n=5", coreml="-slice_by_index -logical_and", tflite="-LOGICAL_AND"),
    "a round for each row but one": Case(EVERY.replace("MORE", "float[n, 3] z").replace("TRIPS", ROWS + "Sub(size, one)"),
        "n=2, n=5", coreml="slice_by_index*2"),
    "(3|12) rounds": Case("""g (float[n, 2] x) => (float[n, 2] y, float[k, n, 2] all, bool[k] odd)
        <int64 m = {(3|12)}, bool yes = {1}, int64 two = {2}> {
        y, all, odd = Loop (m, yes, x) <body = body (int64 i, bool go, s) => (bool same, t, out, flag) {
            same = Identity(go)  f = Cast<to = 1>(i)  t = Add(s, f)  out = Mul(t, x)
            h = Mod(i, two)  flag = Cast<to = 9>(h) }> }""", "n=3", tflite="DYNAMIC_UPDATE_SLICE",
        coreml="(=-|)while_loop"),
    "a state that grows": Case("""g (float[1, 2] x, int64 m) => (float[k, 2] y) <bool yes = {1}> {
        y = Loop (m, yes, x) <body = body (int64 i, bool go, s) => (bool same, t) {
            same = Identity(go)  t = Concat<axis = 0>(s, x) }> }""", feeds=[{"m": 0}, {"m": 5}]),
    "states that take each other's values": Case("""g (int64 m, float[2] x) => (int64 a, int64 b, float[2] s)
        <bool yes = {1}, int64 zero = {0}, int64 one = {1}, float[2] start = {7, 8}> {
        a, b, s = Loop (m, yes, zero, one, start) <body = body (int64 i, bool go, int64 p, int64 q, float[2] r)
            => (bool same, int64 n, int64 o, float[2] t) {
            same = Identity(go)  n = Identity(q)  o = Add(p, q)  t = Identity(x) }> }""",
        feeds=[{"m": 0}, {"m": 1}, {"m": 10}]),
    "a size that slices by outer numbers keep": Case("""g (float[n, 2] x, int64 m) => (float[n, 2] y, float[k, n, 2] all)
        <bool yes = {1}, int64[2] starts = {0, 1}, int64[2] ends = {2147483647, 3}, int64[2] axes = {0, 1}> {
        y, all = Loop (m, yes, x) <body = body (int64 i, bool go, s) => (bool same, t, out) {
            same = Identity(go)  w = Concat<axis = 1>(x, s)  t = Slice(w, starts, ends, axes)  out = Neg(t) }> }""",
        "n=3, n=5", {"m": 4}),
    "elements whose size only the body knows": Case("""g (float[n] x, int64 m) => (float[n] y, float[k, j] all)
        <bool yes = {1}, int64[1] zero = {0}, int64[1] step = {2}> {
        y, all = Loop (m, yes, x) <body = body (int64 i, bool go, float[n] s) => (bool same, float[n] t, float[j] out) {
            same = Identity(go)  t = Add(s, x)  size = Shape(x)  half = Div(size, step)
            out = Slice(t, zero, half) }> }""", "n=4, n=6", {"m": 3},
        tflite="! isn't known before the loop"),
}
for most in (1, 3, 100):
    limits = {"m": most, "c": True}
    CASES[f"a computed end, at most {most}, fed"] = Case(LOOP, feeds={**limits, **ONES})
    CASES[f"a computed end, at most {most}"] = Case(LOOP, feeds=ONES, weights=limits)
CASES["more rounds than int32 has numbers"] = Case(LOOP, feeds={"m": 1 << 40, "c": True, **ONES}, ios=())
for steps, sizes in {"n": "n=1, n=6", "5": "", "11": ""}.items():
    for back in "01":
        CASES[f"Scan of {steps} steps, {back} back"] = Case(
            SCAN.replace("STEPS", steps).replace("BACK", back), sizes, tflite="-SELECT_V2")

for name, does in {
    "a Reshape to pairs": "r = Reshape(x, pairs)",
    "a Reshape to three": "r = Reshape(x, three)",
    "an Add": "r = Add(x, z)",
    "a Concat": "r = Concat<axis = 0>(x, z)",
    "a MatMul": "r = MatMul(z, x)",
    "an Expand": "r = Expand(x, wide)",
    "a Conv": "u = Unsqueeze(x, one) v = Conv(u, w) r = Squeeze(v, one)",
}.items():
    CASES[f"{name} that only fits where it isn't run"] = Case(f"""
        g (float[1, n] x, float[1, m] z, bool c) => (float[p, q] y) <int64[2] pairs = {{2, -1}},
        int64[2] three = {{1, 3}}, int64[2] wide = {{2, 8}}, int64[1] one = {{1}},
        float[1, 1, 7] w = {{1, 2, 3, 4, 5, 6, 7}}> {{
        y = If (c) <then_branch = t () => (float[p, q] r) {{ {does} }},
                    else_branch = e () => (float[p, q] r) {{ r = Neg(x) }}> }}""",
        "n=5 m=7", {"c": False})  # fmt: skip

test = on_every_target(CASES)


def test_a_step_of_a_scan_is_without_the_axis_that_it_goes_along() -> None:
    model = Case(SCAN.replace("STEPS", "5").replace("BACK", "0")).model()
    assert settle_loops(model.graph)
    (scan,) = (node for node in model.nodes() if node.op_type == "Scan")
    body = scan.attributes["body"].as_graph()
    assert [str(value.shape) for value in body.inputs] == ["[2]", "[2,3]", "[2]"]
