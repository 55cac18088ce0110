"""Reshape, Flatten, Squeeze, Expand, Tile, Shape, Transpose: free and computed, of many axes, empty."""

import numpy as np

from tests.operators.cases import Case
from tests.operators.running import on_every_target

# fmt: off
CASES: dict[str, Case | str] = {
    # Reshape
    "a reshape to a zero": Case("Reshape<allowzero=1>(x[n,3], {0,3})", "n=0", coreml="! without elements"),
    "a reshape to a zero between": Case(
        "r = Reshape<allowzero=1>(x[n,3], {0,3}); ReduceSum<keepdims=0>(r, {0})", "n=0",
        coreml="! without elements"),
    "reshapes of a free batch": Case(
        "Reshape(x[b,3,4,2], {(0,0,-1|0,-1|-1,0,2,4|0,3,0,2|-1|1,-1,4,2|1,1,-1,4,2)})", "b=2, b=5"),
    "two free axes stay in place": Case("""
        a = Reshape([b,n,6], {0,0,2,3}); t = Transpose<perm=[0,2,1,3]>(a)
        u = Transpose<perm=[0,2,1,3]>(t); v = Abs(u); Reshape(v, {0,-1,6})""", "b=2 n=5, b=1 n=3"),
    "two free axes to as many": Case("Reshape(x[b,1,1,n], {(0,1,-1,1|-1,0,0,1|0,0,1,-1)})",
        "b=2 n=5, b=1 n=3", ios=(15, 17)),
    "0 where ranks differ": Case("Reshape([b,n,2,3], {0,0,6})", "b=4 n=5, b=3 n=1", ios=(15, 17)),
    "to computed sizes": Case("""
        s = Shape(x[b,n,8]); m = Gather(s, {1}); t = Concat<axis=0>(m, {-1}); Reshape(x[b,n,8], t)""",
        "b=2 n=5, b=3 n=4"),
    "to computed sizes and a 0": Case("""
        s = Shape(x[b,n,m,2]); a = Gather(s, {0}); t = Concat<axis=0>(a, {0}, {-1})
        Reshape(x[b,n,m,2], t)""", "b=2 n=5 m=3, b=3 n=4 m=1", ios=(15, 17)),
    "to sizes fed, 0 among them": Case("float[?,?] y = Reshape([4,2,c], int64 s[2])", "c=6",
        [{"s": s} for s in ([0, 12], [-1, 3], [8, -1], [0, -1])]),
    "to sizes fed, as many axes": Case("float[?,?] y = Reshape([a,b], int64 s[2])", "a=4 b=6",
        [{"s": s} for s in ([0, 6], [12, -1], [-1, 0])]),
    "Flatten": Case("Flatten<axis=(0|1|2|3|-1|-2)>(x[b,n,4])", "b=2 n=3, b=1 n=1"),
    "Flatten of free axes alone": Case("Flatten<axis=(0|1|2|3|-1)>(x[b,n,h,w])", "b=2 n=3 h=4 w=2, b=1 n=1 h=1 w=1"),
    "Squeeze of a free axis": Case("Squeeze([b,n,4], {0})", "b=1 n=3"),
    "Squeeze of all free axes": Case("float[?] y = Squeeze([b,4])", "b=1",
        coreml="! depend on the input's sizes"),
    "Unsqueeze and scalars": "s = Gather<axis=0>([3], $2); y = Unsqueeze(s, {0,1}); t = Squeeze(y); u = Abs(y); Identity(t)",

    # Expand, Tile, Shape, Transpose
    "a mask of a batch": Case("s = Shape(x[b,2,n]); Expand([1,1,n], s)", "b=2 n=3, b=1 n=4", ios=(15, 18)),
    "where either side is one": Case("float[?,?] y = Expand(x[a,b], int64 s[2])", feeds=[
        {"x": np.ones((3, 1)), "s": [1, 4]}, {"x": [[1, 2]], "s": [5, 1]},
        {"x": [[-0.0, np.nan]], "s": [2, 2]}]),
    "expands of (bool|int64|float16)": Case("(bool|int64|float16)[?,?] y = Expand((bool|int64|float16)[a,b], int64 s[2])",
        "a=3 b=1", {"s": [1, 4]}),
    "expanded to a constant": Case("Expand([b,1,3], {2,1,4,1})", "b=2, b=1"),
    "tiled": Case("int64[?,?] y = Tile(int64 x[a,2], int64 r[2])",
        feeds=[{"x": np.arange(6).reshape(3, 2), "r": [2, 1]}, {"x": [[0, 1]], "r": [1, 2]}]),
    "Shape and Size": Case("""
        Shape(x[b,3,n]); Shape<start=-1>(x[b,3,n]); Shape<start=0, end=2>(x[b,3,n])
        Shape<start=1, end=-1>(x[b,3,n]); Size(x[b,3,n])""", "b=2 n=5, b=1 n=1"),
    "Transpose without axes": Case("Transpose(bool[b,3,2])", "b=4"),
    "six axes": Case("Unsqueeze([2,3], {0,1,2,3})"),

    # more than five axes in between
    "windows there and back": Case("""
        a = Reshape([b,8,12,6], {-1,2,4,3,4,6}); c = Transpose<perm=[0,1,3,2,4,5]>(a)
        w = Reshape(c, {-1,16,6}); y = Identity(w); d = Reshape(w, {-1,2,3,4,4,6})
        e = Transpose<perm=[0,1,3,2,4,5]>(d); Reshape(e, {-1,8,12,6})""", "b=1, b=3",
        coreml="reshape*4 transpose*2"),
    "patches of free sizes": Case("""
        s = Shape(x[b,3,h,w]); n = Gather(s, {0}); p = Gather(s, {2}); q = Gather(s, {3})
        r = Div(p, {2}); c = Div(q, {2}); t = Concat<axis=0>(n, {3}, r, {2}, c, {2})
        float[?,?,?,?,?,?] a = Reshape(x[b,3,h,w], t); e = Transpose<perm=[0,2,4,3,5,1]>(a)
        d = Identity(e); Reshape(d, {0,-1,12})""", "b=2 h=4 w=6, b=1 h=2 w=8"),
    "a shape that may be anything": Case("float[?,?,?,?,?,?] a = Reshape([b,3,h,w], int64 s[6]); Reshape(a, {-1})",
        "b=1 h=2 w=2", {"s": [1, 3, 2, 2, 1, 1]}, coreml="! nothing is known"),
    "pixels repeated": Case("""
        c = Reshape(x[b,2,h,5], {0,0,0,1,5,1}); d = Expand(c, {1,1,1,2,1,3}); Reshape(d, {0,0,-1,15})
        e = Unsqueeze(x[b,2,h,5], {3,5}); f = Tile(e, {1,2,1,2,1,1}); Flatten<axis=1>(f)""", "b=2 h=3, b=1 h=1"),
    "axes added and taken away": Case("""
        c = Unsqueeze(int64[n,2,3,4], {0,3,6}); d = Transpose<perm=[3,4,1,0,2,5,6]>(c)
        e = Transpose<perm=[1,0,2,3,4,6,5]>(d); f = Squeeze(e, {1,3,5}); Transpose<perm=[0,1,2,3]>(f)
        Flatten<axis=4>(d)""", "n=1, n=2"),
    "anything else on six axes": Case("a = Reshape([b,8,8,6], {-1,2,4,2,4,6}); c = Relu(a); Reshape(c, {-1,16,6})",
        "b=1"),

    # parts without elements
    "a rest that is nothing": Case("""
        a, rest = Split<axis=-1>([n,6], {6,0}); b = Neg(a); Concat<axis=-1>(b, rest)""", "n=3"),
    "several parts that are nothing": Case("""
        a, b, c, d = Split<axis=1>(x[n,6], {4,0,2,0}); none = Slice(x[n,6], {6}, {9}, {1})
        less = Neg(none); y = Concat<axis=1>(b, a, less); u = Abs(y); Concat<axis=1>(c, d, y)""", "n=3"),
    "nothing that is left": Case("y, z = Split<axis=1>([n,6], {6,0})", "n=3",
        coreml="! without elements"),
}

test = on_every_target(CASES)
