"""Tensors of more axes than Core ML has, in the ways that models have them; free batches, too."""

import numpy as np

from tests.operators.cases import Case, numbers
from tests.operators.running import on_every_target

ROWS = np.arange(3)[:, None] + np.arange(7)
COLUMNS = np.arange(3)[:, None] + np.arange(6)
BINS = np.asarray([[0, 1, 2], [2, 3, 4], [4, 5, 6]])
PLACES = np.stack([np.arange(24).reshape(2, 3, 4) % 5, np.arange(24).reshape(2, 3, 4) % -4], -1)

# fmt: off
WAYS: dict[str, Case | str] = {
    "unfold by indices": Case("""
        a = Gather<axis=2>(x[b,3,9,8], int64 r![3,7]); c = Gather<axis=4>(a, int64 s![3,6])
        d = Transpose<perm=[0,1,2,4,3,5]>(c); Reshape(d, {0,27,42})""", "b=1, b=2",
        weights={"r": ROWS, "s": COLUMNS}, ios=(15, 18)),
    "windows with a bias and back": Case("""
        a = Reshape([b,8,12,6], {-1,2,4,3,4,6}); c = Transpose<perm=[0,1,3,2,4,5]>(a)
        d = Add(c, s![1,1,1,4,4,6]); e = Softmax<axis=-1>(d); f = Transpose<perm=[0,1,3,2,4,5]>(e)
        Reshape(f, {-1,8,12,6})""", "b=1, b=3", weights={"s": numbers(1, 1, 1, 4, 4, 6)}, ios=(15, 18)),
    "heads in groups": Case("""
        k = Reshape([b,5,4,2,3], {0,5,4,1,2,3}); e = Expand(k, {1,1,1,3,1,1}); h = Reshape(e, {0,5,12,6})
        Transpose<perm=[0,2,1,3]>(h)""", "b=1, b=2", coreml="tile*1"),
    "sampling offsets of levels": Case("""
        o = Reshape([b,5,48], {0,5,2,3,4,2}); r = Unsqueeze([b,5,3,2], {2,4})
        n = Div(o, s![1,1,1,3,1,2]); l = Add(r, n); t = Mul(l, $2.0); u = Sub(t, $1.0)
        g = Gather<axis=3>(u, $1); v = Transpose<perm=[0,2,1,3,4]>(g); w = Reshape(v, {-1,5,4,2})
        GridSample<align_corners=0>([m,3,4,5], w)""", "b=1 m=2, b=2 m=4", weights={"s": [[[[[[2, 3]], [[4, 5]], [[6, 7]]]]]]}, tol=1e-4),
    "a correlation volume": Case("""
        p = Reshape([b,6,4,5], {0,6,20}); q = Reshape([b,6,4,5], {0,6,20}); t = Transpose<perm=[0,2,1]>(p)
        m = MatMul(t, q); v = Reshape(m, {0,4,5,1,4,5}); s = Div(v, $2.5); r = Reshape(s, {-1,1,4,5})
        AveragePool<kernel_shape=[2,2], strides=[2,2]>(r)""", "b=1, b=2"),
    "an adaptive pooling by indices": Case("""
        a = Gather<axis=2>(x[b,4,7,7], int64 r![3,3]); c = Gather<axis=4>(a, int64 r![3,3])
        s = ReduceSum<keepdims=0>(c, {3,5}); Div(s, $9.0)""", "b=1, b=2", weights={"r": BINS}),
    "blocks of three axes of space": Case("""
        a = Reshape(x[b,2,4,6,8], {0,2,2,2,3,2,4,2}); c = Transpose<perm=[0,1,3,5,7,2,4,6]>(a)
        d = Reshape(c, {0,16,2,3,4}); e = Reshape(d, {0,2,2,2,2,2,3,4})
        f = Transpose<perm=[0,1,5,2,6,3,7,4]>(e); Reshape(f, {0,2,4,6,8})""", "b=1, b=2"),
    "patches of video": Case("""
        a = Reshape([b,3,4,6,8], {0,3,2,2,3,2,4,2}); c = Transpose<perm=[0,2,4,6,3,5,7,1]>(a)
        Reshape(c, {0,24,24})""", "b=1, b=2"),
    "attention along one axis of space": Case("""
        a = Reshape([b,3,4,24], {0,3,4,3,2,4}); p = Transpose<perm=[3,0,1,4,2,5]>(a)
        q = Gather<axis=0>(p, $0); k = Gather<axis=0>(p, $1); v = Gather<axis=0>(p, $2)
        t = Transpose<perm=[0,1,2,4,3]>(k); s = MatMul(q, t); w = Softmax<axis=-1>(s); MatMul(w, v)""",
        "b=1, b=2"),
    "an outer product of many axes": Case("""
        l = Reshape([b,3,4], {0,1,3,1,4,1}); r = Reshape([2,3,5], {1,2,1,3,1,5}); m = Mul(l, r)
        Reshape(m, {0,2,9,20})""", "b=1, b=2"),
}

OPERATORS: dict[str, Case | str] = {
    "many axes in and out": Case("""
        a = Relu(x[b,2,1,3,2,2]); c = Transpose<perm=[0,3,5,1,2,4]>(a); Mul(c, y[2,1,3,1]); Identity(x[b,2,1,3,2,2])
        d = Unsqueeze(z[b,n,3], {1,3,4,6}); Identity(d); Reshape(x[b,2,1,3,2,2], {0,6,4}); bool[b,2,1,3,2,2] g = Cast<to=9>(a)""",
        "b=1 n=3, b=2 n=1"),
    "many axes in alone": Case("ReduceSum<keepdims=0>(x[b,2,1,3,2,2], {1,3,5})", "b=1, b=2"),
    "many axes out alone": Case("Unsqueeze(int64[2,3], {0,1,2,3})"),
    "a volume of free sizes": Case("""
        s = Shape(x[b,6,h,w]); n = Slice(s, {0}, {1}); p = Slice(s, {2}, {3}); q = Slice(s, {3}, {4})
        f = Reshape(x[b,6,h,w], {0,6,-1}); t = Transpose<perm=[0,2,1]>(f); m = MatMul(t, f)
        u = Concat<axis=0>(n, p, q, {1}, p, q); float[?,?,?,?,?,?] v = Reshape(m, u); d = Div(v, $2.5); k = Mul(p, q)
        l = Div(k, {2}); z = Concat<axis=0>(n, {2}, l, {1}, p, q); float[?,?,?,?,?,?] e = Reshape(d, z)
        g = Transpose<perm=[0,2,1,3,5,4]>(e); o = Mul(n, k); j = Concat<axis=0>(o, q, p); float[?,?,?] y = Reshape(g, j)""",
        "b=2 h=4 w=5, b=1 h=3 w=2"),
    "an einsum of many letters": Case("""
        a = Reshape(x[b,3,20], {0,3,2,2,5}); e = Einsum<equation="bqhwc,bkxyc->bqkhwxy">(a, a); s = Softmax<axis=-1>(e)
        c = Einsum<equation="bqkhwxy,bkxyc->bqhwc">(s, a); Reshape(c, {0,3,20})""", "b=1, b=2"),
    "functions of elements": Case("""
        a = Reshape([b,48], {0,2,3,2,2,2}); c = Clip(a, $-1.0, $1.0); d = Abs(c); e = PRelu(d, [3,1,1,1])
        f = Greater(e, [2,1,2,1,2]); h = Where(f, e, $0.5); Reshape(h, {0,48})""", "b=1, b=2"),
    "sizes that may be stretched or not": Case("""
        a = Reshape(x[b,n,4], {0,0,1,2,2,1}); c = Reshape(y[b,m,4], {0,0,1,2,2,1}); d = Add(a, c); Flatten(d)""",
        "b=2 n=3 m=3, b=2 n=1 m=4, b=1 n=3 m=1"),
    "repeated where axes alternate": Case("""
        a = Reshape([6,4], {2,1,3,1,4,1,1}); c = Expand(a, {1,2,1,3,1,2,2}); d = Tile(c, {1,1,2,1,2,1,1})
        Flatten<axis=3>(d)"""),
    "(ReduceSum|ReduceMean|ReduceMax|ReduceL2|ReduceLogSumExp) of axes that alternate": Case("""
        a = Reshape([b,48], {0,2,2,3,2,2,1}); (ReduceSum|ReduceMean|ReduceMax|ReduceL2|ReduceLogSumExp)<keepdims=0>(a, {1,3,5})
        c = (ReduceSum|ReduceMean|ReduceMax|ReduceL2|ReduceLogSumExp)<keepdims=1>(a, {-3,2}); Reshape(c, {0,-1})""", "b=1, b=3"),
    "all reduced": "a = Reshape([4,8], {2,2,2,2,2,1}); ReduceSum<keepdims=0>(a)",
    "(ArgMax|ArgMin)": "a = Reshape([4,8], {2,2,2,2,2,1}); (ArgMax|ArgMin)<axis=2, keepdims=0>(a)",
    "the best, sums and parts": Case("""
        a = Reshape([b,48], {0,2,3,2,2,2}); v, i = TopK<axis=2>(a, {2}); c = CumSum(v, $-2)
        d = LogSoftmax<axis=1>(c); p, q = Split<axis=3, num_outputs=2>(d); s = Concat<axis=1>(p, q, p)
        Reshape(s, {0,-1}); Reshape(i, {0,-1})""", "b=1, b=2"),
    "parts and borders": Case("""
        a = Reshape([b,96], {0,2,3,2,4,2}); c = Slice(a, {1,0,1,0}, {3,2,9,1}, {2,3,4,-1}, {1,1,2,1})
        d = Pad(c, {0,1,1,0,2,0,0,0,1,0,1,0}, $0.5); e = Pad<mode="edge">(d, {1,2}, , {4}); Reshape(e, {0,-1})""", "b=1, b=2"),
    "a normalized tail": Case("""
        a = Reshape([b,48], {0,2,3,2,2,2}); c = LayerNormalization<axis=3>(a, [2,2,2], [2,1,2])
        d = LayerNormalization(c, [2]); Reshape(d, {0,48})""", "b=1, b=2", tol=1e-4),
    "a volume normalized in groups": Case("float[b,4,2,3,2] y = GroupNormalization<num_groups=2>([b,4,2,3,2], [2], [2])", "b=1, b=2", tol=1e-4),
    "normalized instances": Case("""
        a = Reshape([b,48], {0,2,3,2,2,2}); c = InstanceNormalization(a, [2], [2]); Reshape(c, {0,48})""",
        "b=1, b=2", tol=1e-4),
    "by vectors of indices": Case("""
        a = GatherND([5,4,2,3], int64 i![2,3,4,2]); c = Mul(a, $2.0); d = ScatterND(c, int64 j![1,1], [1,3,4,2,3])
        Reshape(d, {2,-1})""", weights={"i": PLACES, "j": [[1]]}),
    "elements by indices": Case("""
        a = Reshape([b,48], {0,2,3,2,2,2}); i = ArgMax<axis=2>(a); e = GatherElements<axis=2>(a, i)
        s = ScatterElements<axis=2>(a, i, e); h = Trilu(s); Reshape(h, {0,48})""", "b=1, b=2"),
    "sizes of it": Case("""
        a = Reshape([b,48], {0,2,3,2,2,2}); s = Shape(a); n = Size(a); c = ConstantOfShape(s)
        d = Add(a, c); Reshape(d, {0,48}); Cast<to=7>(s); Cast<to=7>(n)""", "b=1, b=2"),
    "in a branch": Case("""g (float[b, 48] x, bool c) => (float[b, 48] y)
        <int64[6] s = {0,2,3,2,2,2}, int64[2] t = {0,48}> { a = Reshape(x, s)
        y = If (c) <then_branch = t () => (p) { d = Transpose<perm = [0,5,2,3,4,1]>(a) p = Reshape(d, t) },
                    else_branch = e () => (q) { f = Neg(a) q = Reshape(f, t) }> }""", "b=2",
        [{"c": True}, {"c": False}]),

    # what stays
    "free sizes behind the fifth axis of an input": Case("Relu([2,1,1,2,1,n])", coreml="! more than 5 axes & --input"),
    "what may be stretched or not, along too many": Case("""
        a = Unsqueeze(x[a,b,c,d,e], {5}); h = Add(a, s![1,1,1,1,1,2]); k = Unsqueeze(y[f,g,h,i,j], {5}); l = Add(h, k)
        Flatten(l)""", weights={"s": numbers(1, 1, 1, 1, 1, 2)}, coreml="! more than 5 axes & may be 1 or not & --input"),
    "an operator of its own": Case("""
        a = Reshape([2,16], {2,2,2,2,2,1}); c = Resize(a, , {1.,1.,1.,1.,2.,1.}); Reshape(c, {2,-1})""",
        coreml="! more than 5 axes & Resize"),
}

test_ways_of_models = on_every_target(WAYS)
test_operators = on_every_target(OPERATORS, ["coreml"])
