"""Comparisons, truth values, Where, IsNaN and IsInf."""

from tests.operators.cases import Case
from tests.operators.running import on_every_target

INF, NAN = float("inf"), float("nan")
COMPARED = "(Equal|Greater|GreaterOrEqual|Less|LessOrEqual)"
WHERE = """
    Where(bool[a,3], T[a,3], T[a,3]); Where(bool[a,3], T[3], T[1]); Where(bool[a,3], T[], T[])
    Where(bool[a,1], T[1,3], T[3]); Where(bool[b,a,3], T[a,1], T[3]); Where(bool[1], T[a,3], T[a,1])
    Where(bool[a,3], T[1], T[a,1])"""

# fmt: off
CASES: dict[str, Case | str] = {
    "compared: (float|int32|int64|uint8)": Case(
        f"{COMPARED}((float|int32|int64|uint8) a[n,3]~0:3, (float|int32|int64|uint8) b[4,1,3]~0:3)",
        "n=2, n=5"),
    "compared: equal floats": Case(f"{COMPARED}(a[n], b[n])", feeds={"a": [1, 2, 2], "b": [1, 1, 2]}),
    "compared: no numbers": Case(f"{COMPARED}(a[n], b[n]); IsNaN(a[n])",
        feeds={"a": [NAN, NAN, 1.0, 0.0, INF], "b": [NAN, 1.0, NAN, -0.0, INF]}),
    "all pairs of truth values": Case("""
        a = And(x[n], y[n]); b = Or(x[n], y[n]); c = Xor(x[n], y[n]); d = Equal(x[n], y[n])
        Not(a); Not(b); Not(c); Not(d)""".replace("(x[n], y[n])", "(bool x[n], bool y[n])"),
        feeds={"x": [1, 1, 0, 0], "y": [1, 0, 1, 0]}),
    "infinite (float|float16)": Case(
        "IsInf<detect_positive=(0|1), detect_negative=(0|1)>((float|float16) x[n])",
        feeds={"x": [INF, -INF, NAN, (6e4), -6e4, 0]}),
    "Where of free (float|bool|int64)": Case(WHERE.replace("T[", "(float|bool|int64)["), "a=2 b=4"),
    "Where of known (float|bool|int64)": Case(
        WHERE.replace("T[", "(float|bool|int64)[").replace("[a", "[2").replace("[b,a", "[4,2")),
    "Where keeps every number": Case("Where(bool c[n,4], a[4], b[])",
        feeds={"c": [[1] * 4, [0] * 4], "a": [INF, 0.0, NAN, -INF], "b": INF}),
    "Where of many axes": Case("Where(bool[2,1,3,1,1,2], [n,1,2,1,1], [])", "n=3"),
    "masked scores": Case("Where(bool m[n,1,s,s], [n,4,s,s], $-1e9)", "n=2 s=3", coreml="= cast select"),
}

test = on_every_target(CASES)
