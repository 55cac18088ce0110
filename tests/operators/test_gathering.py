"""Gather and Scatter and their like, TopK, ArgMax, OneHot, NonZero, Trilu, Unique, NonMaxSuppression."""

import numpy as np

from tests.operators.cases import Array, Case
from tests.operators.running import on_every_target

INTEGERS = np.random.default_rng(3).integers(0, 3, (2, 6, 3))
TWICE = [[0, -1, 0], [1, 1, -2]]
SLICES = np.random.default_rng(3).integers(0, 2, (3, 4, 2))


def boxes(count: int, images: int = 1) -> Array:
    """Boxes that overlap much, corners in any order."""
    random = np.random.default_rng(0)
    centre, size = (random.uniform(0, end, (images, count, 2)) for end in (1, 0.6))
    made = np.concatenate([centre - size / 2, centre + size / 2], axis=2).astype(np.float32)
    made[:, ::3] = made[:, ::3, [2, 3, 0, 1]]
    return made


def scores(*shape: int) -> Array:
    """Scores of two decimals, so that many are equal."""
    return np.random.default_rng(1).uniform(0, 1, shape).round(2).astype(np.float32)


POINTS = boxes(6)
POINTS[0, 1] = POINTS[0, 4] = POINTS[0, 2, [0, 1, 0, 1]]
POINTS[0, 3, 2] = POINTS[0, 3, 0]
THIRD = np.float32(0.5) / np.float32(1.5)

# fmt: off
CASES: dict[str, Case | str] = {
    # Gather
    "Gather": Case("Gather<axis=(0|1|-1)>(x[b,n,4], int64 i[2,2])", "b=3 n=5, b=3 n=3",
        {"i": [[0, -1], [-3, 2]]}, ios=(15, 16, 17, 18)),
    "Gather of constant indices": Case("""
        t = Gather<axis=1>(int64 x[b,n], {-1,0}); Transpose(t); Gather<axis=1>(int64 x[b,n], $-2)
        Gather(bool[3,b], {-1,0})""", "b=3 n=4"),
    "Gather of one index": Case("Gather(x[b,4], int64 i[])", "b=3", [{"i": i} for i in (-3, 0, 2)]),
    "Gather of int8 keeps the scale": Case("""
        a = QuantizeLinear([n,4], $0.02, int8$3); b = DequantizeLinear(a, $0.02, int8$3)
        c = Gather<axis=1>(b, {3,-4})
        d = QuantizeLinear(c, $0.02, int8$3); DequantizeLinear(d, $0.02, int8$3)""", "n=3"),
    "Gather of counted places": Case("""
        s = Shape(x[b,n]); m = Gather(s, $1); r = Range($0, m, $2); Gather<axis=1>(x[b,n], r)""",
        "b=2 n=5, b=1 n=4", tflite="-SELECT_V2"),
    "GatherElements": Case("""
        GatherElements<axis=(0|1|-1)>(x[2,3,4], int64[2,2,3]~-2:2)
        GatherElements<axis=(0|1|-1)>(z[n,3,4], int64[n,2,3]~-2:2)""", "n=2"),
    "GatherElements of fewer": Case("GatherElements<axis=(0|1|-1)>(x[b,4,n], int64 i[c,2,m])",
        "b=3 n=2, b=2 n=5", {"i": [[[-1, 0], [1, -2]]]}),
    "GatherElements of booleans": Case("GatherElements<axis=1>(bool[2,3], int32 i[2,3])",
        feeds={"i": [[0, -1, 1], [2, 2, -3]]}),
    "GatherND": Case("""
        a = GatherND<batch_dims=(0|1|2)>(x[2,3,4,5], int64[2,3,1]~-2:2)
        GatherND<batch_dims=(0|1|2)>(z[n,3,4,5], int64[n,3,1]~-2:2)""".replace("a = ", ""), "n=2"),
    "GatherND of batches": Case("GatherND<batch_dims=(0|1|2)>(x[b,n,3,4], int64 i[b,n,2])", "b=2 n=2",
        {"i": [[[0, -1], [1, 0]], [[-2, 1], [-1, -1]]]}, ios=(15, 16, 17)),
    "GatherND of one free batch": Case("GatherND<batch_dims=1>(bool[b,n], int64[b,1]~-3:3)",
        "b=2 n=3, b=3 n=4", ios=(15, 17)),
    "GatherND of constant indices": Case("GatherND([2,3,4], int64 i![2,2])",
        weights={"i": [[0, -1], [-2, 1]]}, ios=(15, 17)),
    "GatherND of unknown depth": Case("float[?] y = GatherND([b,n], int64 i[m,k])", "b=2 n=3",
        {"i": [[0, 1]]}, tflite="! whose length isn't known", coreml="! length isn't known"),

    **{f"indices of {op} counted from the start, iOS{version}": Case(f"{op}([b,n], int64[m,1]~0:2)", "b=2 n=3 m=2",
        ios=(version,), coreml="select*1" if op != "Gather" or version > 16 else "-select")
       for op in ("Gather", "GatherND", "GatherElements") for version in (15, 16, 17, 18)},
    **{f"indices of {op} counted from the start": Case(f"{op}([b,n], int64 i[m,1], [m,{last}])", "b=2 n=3 m=2",
        {"i": [[0], [1]]}, coreml="select*1") for op, last in (("ScatterElements", 1), ("ScatterND", "n"))},

    # Scatter
    "ScatterElements of (float|int64)": Case("""
        ScatterElements<axis=1, reduction="(add|mul|max|min)">((float|int64) x[2,4], int64 i[2,3], (float|int64) u[2,3])
        ScatterElements<axis=1, reduction="(add|mul|max|min)">((float|int64) z[b,n], int64 j[b,3], (float|int64) v[b,3])
        """, "b=2 n=4", {"i": TWICE, "j": TWICE}),
    "ScatterElements of other places": Case(
        'ScatterElements<axis=-1, reduction="(none|add|mul|max|min)">(x[3,4], int64 i[2,3], u[2,3])',
        feeds={"i": [[0, -1, 2], [1, 0, -2]]}),
    "ScatterElements of free rows": Case(
        'ScatterElements<axis=1, reduction="(none|add)">(x[n,4], int64 i[n,2], u[n,2])', "n=3",
        {"i": [[0, -1], [2, 1], [3, 0]]}),
    "ScatterElements of fewer rows": Case(
        'ScatterElements<axis=1, reduction="(none|add)">(x[b,n,3], int64 i[c,m,3], u[c,m,3])',
        "b=3 n=4 c=1 m=2, b=1 n=4 c=1 m=2", {"i": [[[0, -1, 2], [1, -2, 3]]]}),
    "ScatterElements of constants": Case("""
        ScatterElements<axis=1, reduction="add">(x![2,4], int64 i![2,3], [2,3])
        ScatterElements<axis=1, reduction="add">(x![2,4], int64 i![2,3], ![2,3])""", weights={"i": TWICE}),
    "ScatterND of (float|int64)": Case("""
        ScatterND((float|int64) x[4,3,2], int64 i[3,1], (float|int64) u[3,3,2])
        ScatterND<reduction="(add|mul|max|min)">((float|int64) x[4,3,2], int64 j[3,1], (float|int64) u[3,3,2])
        """, feeds={"i": [[-1], [0], [1]], "j": [[-1], [0], [3]]}),
    "ScatterND of free rows": Case("""
        ScatterND<reduction="(add|mul|max|min)">(x[b,n,2], int64 i[m,2], u[m,2])
        ScatterND(x[b,n,2], int64 j[m,2], u[m,2])""", "b=2 n=3 m=3, b=4 n=3 m=3",
        {"i": [[0, -1], [-1, 0], [0, 2]], "j": [[0, -1], [-1, 0], [0, 0]]}, ios=(15, 17)),
    "ScatterND of booleans": Case("""
        ScatterND(bool[4], int64 i[2,1], bool[2]); ScatterND(bool[b,3], int64 j![2,2], bool[2])""", "b=2",
        {"i": [[0], [3]]}, {"j": [[0, -1], [-1, 0]]}),
    "as many places as are found, (none|add)": Case("""
        m = Greater(x[n,3], $0.0); c = NonZero(m); i = Transpose<perm=[1,0]>(c); v = GatherND(x[n,3], i)
        w = Mul(v, $9.0); ScatterND<reduction="(none|add)">(x[n,3], i, w)""",
        feeds=[{"x": x * np.abs(np.random.default_rng(0).standard_normal((4, 3)))}
               for x in ([[1], [1], [-1], [-1]], [[-1]] * 4)]),
    "sums that wrap around": Case('ScatterElements<reduction="add">(int8 x[4], int64 i[2], int8 u[2])',
        feeds={"i": [0, 1]}, coreml="! wrap around"),

    # the largest
    "places of the largest (float|int32|int64|int8|uint8)": """
        Arg(Max|Min)<axis=(0|1|-1), select_last_index=(0|1), keepdims=(0|1)>((float|int32|int64|int8|uint8) x[4,5,3]~0:3)""",
    "places of the largest (float|int32), free": Case("""
        Arg(Max|Min)<axis=(0|1|-1), keepdims=(0|1)>((float|int32) x[n,m,3]~0:3)
        Arg(Max|Min)<axis=-1, select_last_index=1>((float|int32) x[n,m,3]~0:3)""", "n=4 m=5, n=1 m=2"),
    "the last of the largest along a free axis": Case(
        "Arg(Max|Min)<axis=(0|1), select_last_index=1, keepdims=(0|1)>(x[n,m,3]~0:3)", "n=4 m=5, n=1 m=2"),
    "places of large int64": Case("Arg(Max|Min)<axis=1, select_last_index=(0|1)>(int64 x[n,5])",
        feeds={"x": np.asarray([[1, 9, 9, 2, 1], [7, 0, 3, 7, 0]]) + 2**40},
        coreml="~ don't fit into 32 bits"),
    "TopK of equal (float|int64|int32|uint8)": Case("""
        y, i = TopK<axis=1>((float|int64|int32|uint8) x[n,6,3], {4}); z, j = TopK<axis=1, largest=0>((float|int64|int32|uint8) x[n,6,3], {4})""",
        feeds={"x": INTEGERS}),
    "TopK of a fed number, axis (0|1)": Case("v, i = TopK<axis=(0|1), largest=0>([n,5], int64 k[1])", "n=4",
        [{"k": [1]}, {"k": [3]}]),
    "TopK of a number that follows from sizes": Case("""
        s = Shape(x[n,5]); h = Div(s, {2}); k = Slice(h, {0}, {1})
        v, i = TopK<axis=0>(x[n,5], k); w, j = TopK<axis=0, largest=0>(x[n,5], k)""", "n=4, n=7"),
    "TopK of nothing": Case("v, i = TopK([n,5], {0})", "n=2", coreml="! without elements"),
    "TopK, values alone": Case("v, _i = TopK([n,5], {2})", "n=2", coreml="= topk"),
    "TopK of the least int64": Case("v, i = TopK<axis=0, largest=(0|1)>(int64 x[4], {3})".replace(
        "(0|1)", "1"), feeds={"x": [-(2**63), 3, 2**40, -5]}, coreml="~ don't fit into 32 bits"),

    # OneHot, NonZero, Compress, ReverseSequence, Trilu, Range, ConstantOfShape, EyeLike, Unique
    "OneHot of (float|int64)": Case("""
        z = OneHot<axis=(0|1|-1)>(int64 i[b,2], $4, (float|int64) v[2])""".replace("z = ", ""),
        feeds={"i": [[0, -1], [-4, 3], [4, -5]], "v": [2, 5]}),
    "OneHot of a fed depth": Case("float[b,?] y = OneHot(i[b], d[1], float{0,1})",
        feeds=[{"i": [1, -2, 0], "d": [d]} for d in (3, 5)]),
    "NonZero": Case("NonZero(x[b,4])", feeds=[{"x": np.eye(b, 4)} for b in (2, 3)]),
    "Compress of (bool|float)": Case("""
        Compress((bool|float) x[n,4], bool c[3]); Compress<axis=1>((bool|float) x[n,4], bool c[3])
        Compress<axis=-2>((bool|float) x[n,4], bool c[3])""", "n=3", {"c": [True, False, True]}),
    "Compress to nothing": Case("Compress<axis=1>(x[n,4], bool c[3])", "n=3", {"c": [False] * 3}),
    "ReverseSequence along (0|1)": Case(
        "ReverseSequence<time_axis=(0|1), batch_axis=(=1|0)>([t,b,2], int64 l[n])", "t=3 b=3",
        [{"l": [1, 3, 2]}, {"l": [3, 1, 3]}]),
    "ReverseSequence of (bool|int8|int64)": Case("ReverseSequence((bool|int8|int64) x[t,2], int64 l[2])",
        feeds={"x": [[1, 0], [1, 1], [0, 0]], "l": [3, 2]}),
    "triangles, NaN outside": Case("Trilu<upper=(0|1)>(x[b,n,m], $(-2|-1|0|1|2))",
        feeds=[{"x": np.random.default_rng(0).standard_normal((2, 4, 3))},
               {"x": np.full((2, 3, 4), np.nan)}], coreml="-band_part"),
    "triangles of integers": "Trilu<upper=(0|1)>(int64 x[2,3,4], $0)",
    "triangles from a fed diagonal": Case("""
        Trilu<upper=(0|1)>([4,n], int64 k[]); Trilu<upper=(0|1)>([2,4,n], int64 k[])
        Trilu<upper=(0|1)>([2,3,2,4,n], int64 k[]); Trilu(bool[4,n], int64 k[])""", "n=5",
        [{"k": k} for k in (-1, 0, 2)]),
    "Range of (int64|float)": Case("(int64|float)[?] y = Range((int64|float) a[], (int64|float) b[], (int64|float) c[])",
        feeds=[dict(zip("abc", three, strict=True)) for three in ((0, 5, 1), (3, 12, 4), (5, -3, -2))]),
    "positions of a free length": Case("""
        s = Shape([b,n]); m = Gather(s, $1); int64[n] y = Range($0, m, $1)""", "b=2 n=1, b=2 n=6"),
    "constants of computed sizes": Case("""
        s = Shape([b,n]); float[b,n] y = ConstantOfShape<value=float[1] {-1.5}>(s)
        int64[?,?] z = ConstantOfShape<value=int64[1] {7}>(int64 t[2])
        bool[b,n] w = ConstantOfShape<value=bool[1] {1}>(s)""", "b=2 n=1, b=2 n=4", {"t": [2, 3]}),
    "a constant of 64 bits": Case("int64[?,?] z = ConstantOfShape<value=int64[1] {-9223372036854775808}>(int64 t[2])",
        feeds={"t": [2, 3]}, coreml="! fit into 32 bits"),
    "EyeLike": Case("EyeLike<dtype=1, k=(-1|0|2)>(int32 x[n,m])", "n=3 m=4, n=5 m=2"),
    "unique elements, (float|int64)": Case("""
        (float|int64)[?] y, _i, _j, _c = Unique<sorted=(=0|1)>((float|int64) x[a,b])""".replace(
            "_i, _j, _c", "i, j, c").replace("(float|int64)[?] y, i, j, c", "y, i, j, c"),
        feeds=[{"x": [[2, 1, 1], [3, 4, 3], [2, -5, 1]]}, {"x": np.zeros((2, 2))}]),
    "unique slices along (0|1|-1)": Case("y, i, j, c = Unique<axis=(0|1|-1), sorted=(=1|0|1)>(x[a,b,c])",
        feeds=[{"x": SLICES}, {"x": SLICES[:1]}, {"x": SLICES[:, :1]}]),

    # NonMaxSuppression
    "boxes that are (0|1) centred": Case("""NonMaxSuppression<center_point_box=(0|1)>(
        b[i,n,4], s[i,3,n], int64 most[1], o[1], l[1])""", feeds=[
            {"b": np.abs(boxes(60, 2)), "s": scores(2, 3, 60), "most": [most], "o": [o], "l": [low]}
            for most, o, low in ((5, 0.3, 0.4), (1000, 0.5, 0.0), (50, 0.0, 0.2), (50, 1.0, -1))], tflite="! have to be constant"),
    "boxes without thresholds": Case("NonMaxSuppression<center_point_box=1>(b[1,12,4]~0:1, [1,1,12], $5, $0.4)"),
    "boxes that overlap by just the threshold": Case(
        "NonMaxSuppression(b[1,2,4], s[1,1,2], $9, o![])", feeds={
            "b": [[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]], "s": [[[0.5, 0.5]]]}, weights={"o": THIRD}),
    "boxes that overlap by more than the threshold": Case(
        "NonMaxSuppression(b[1,2,4], s[1,1,2], $9, o![])", feeds={
            "b": [[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]], "s": [[[0.5, 0.5]]]},
        weights={"o": np.nextafter(THIRD, np.float32(0))}),
    "boxes without an area": Case("NonMaxSuppression(b[1,6,4], s[1,1,6], $9, $0.5)",
        feeds={"b": POINTS, "s": scores(1, 1, 6)}),
    "boxes, none found": Case("NonMaxSuppression(b[1,6,4], s[1,2,6], $9, $0.5, $2.0)",
        feeds={"b": boxes(6), "s": scores(1, 2, 6)}),
    "what detectors do with boxes": Case("""
        r = NonMaxSuppression(b[1,n,4], s[1,3,n], $9, $0.5, $0.3); i = Slice(r, {2}, {3}, {1})
        j = Squeeze(i, {1}); flat = Squeeze(b[1,n,4], {0}); Gather(flat, j)
        p = GatherND(s[1,3,n], r); Unsqueeze(p, {1})""", feeds={"b": boxes(40), "s": scores(1, 3, 40)}),
}
CASES["TopK"] = Case("\n".join(
    f"v{i}, i{i} = TopK<axis={axis}, largest={largest}>(x[n,5,4], {{2}})"
    for i, (axis, largest) in enumerate((a, b) for a in (0, 1, -1) for b in (0, 1))
), "n=2, n=3", ios=(15, 17))
for centred in (0, 1):
    for limits in ("$5, $0.3, $0.4", "$1000, $0.5, $0.0", "$50, $0.0, $0.2", "$50, $1.0, $-1.0"):
        CASES[f"boxes, {limits}, centred {centred}"] = Case(
            f"NonMaxSuppression<center_point_box={centred}>(b[i,n,4], s[i,3,n], {limits})",
            feeds={"b": np.abs(boxes(60, 2)), "s": scores(2, 3, 60)})

test = on_every_target(CASES)
