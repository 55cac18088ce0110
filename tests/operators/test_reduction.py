"""Reductions and CumSum: axes, integers, free sizes."""

from tests.operators.cases import Case
from tests.operators.running import on_every_target

ALL = "Reduce(L1|L2|LogSum|LogSumExp|Max|Mean|Min|Prod|Sum|SumSquare)"

# fmt: off
CASES: dict[str, Case | str] = {
    "along an axis, kept": Case(f"{ALL}(x[n,m,3]~0.1:3, {{-1}})", "n=2 m=4, n=3 m=1"),
    "along two axes": Case(f"{ALL}<keepdims=0>(x[n,m,3]~0.1:3, {{0,2}})", "n=2 m=4, n=3 m=1"),
    "along an axis": Case(f"{ALL}<keepdims=0>(x[n,m,3]~0.1:3, {{1}})", "n=2 m=4, n=3 m=1"),
    "along all, keepdims=(0|1)": Case(f"{ALL}<keepdims=(0|1)>(x[n,m,3]~0.1:3)", "n=2 m=4, n=3 m=1"),
    "along none": Case("Reduce(LogSumExp|Max|Mean|Min|Prod|Sum)<noop_with_empty_axes=1>(x[n,3])", "n=2"),
    "of a number": Case(f"{ALL}(x[])", feeds={"x": 2.5}),
    "norms of int32": Case("ReduceL2<keepdims=0>(int32 x[n,m], {1})", feeds={"x": [[-7, 2, 1], [5, 5, 1], [-1, -1, 0]]}),
    "of int32": Case("Reduce(L1|Max|Min|Prod|Sum|SumSquare)<keepdims=0>(int32 x[n,m], {1})",
        feeds={"x": [[-7, 2, 1], [5, 5, 1], [-1, -1, 0]]}),
    "means of int32": Case("ReduceMean<keepdims=0>(int32 x[n,m]); ReduceMean<keepdims=0>(int32 x[n,m], {1})",
        feeds={"x": [[-7, 2, 1], [5, 5, 1], [-1, -1, 0]]}, tflite="! MEAN doesn't take int32"),
    "of truth values": Case("Reduce(Max|Min)(bool x[n,2], {1})", feeds={"x": [[1, 1], [1, 0], [0, 0]]}),
    "along computed axes": Case("float[?,?] y = ReduceSum([n,3], int64 a[1])", "n=2", {"a": [1]},
        coreml="! have to be constant", tflite="! have to be constant"),
    "CumSum": Case("CumSum<exclusive=(0|1), reverse=(0|1)>(x[n,m,3], $(0|1|-1))", "n=2 m=4, n=3 m=1"),
    "CumSum of int64": Case("CumSum(int64 x[n], $0)", feeds={"x": [5, -7, 100]}, coreml="= cumsum"),
}

test = on_every_target(CASES)
