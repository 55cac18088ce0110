"""Channels last inside and the interface as it was; what a runtime writes over its input."""

from tests.operators.cases import Case
from tests.operators.running import on_every_target

# fmt: off
CASES: dict[str, Case | str] = {
    "one transpose in and one out": Case("""
        a = Conv<pads=[1,1,1,1]>([b,3,8,8], ![4,3,3,3], ![4]); r = Relu(a); Conv(r, ![5,4,1,1])""",
        "b=1, b=3", tflite="TRANSPOSE*2 CONV_2D*2 -RELU"),
    "channels that are last already": Case("""
        a = Transpose<perm=[0,3,1,2]>([1,8,8,3]); b = Conv(a, ![4,3,3,3]); Transpose<perm=[0,2,3,1]>(b)""",
        tflite="-TRANSPOSE CONV_2D*1"),
    "a residual block stays inside": Case("""
        a = Conv<pads=[1,1,1,1]>(x[1,4,8,8], ![4,4,3,3]); b = Mul(a, ![4,1,1]); c = Add(b, x[1,4,8,8])
        d = GlobalAveragePool(c); Flatten(d)""", tflite="TRANSPOSE*1"),
    "an image of one channel": Case("Conv([1,1,8,8], ![1,1,3,3])", tflite="-TRANSPOSE"),

    "nothing is copied where nothing reads later": Case("""
        a = Mul([1,3,8,8], ![3,1,1]); b = Reshape(a, {1,3,64}); Softmax<axis=2>(b)""", tflite="-TRANSPOSE"),
    "reshapes that broadcast stay: (6|n)": Case("""
        row = Unsqueeze(x[(6|n)], {0}); column = Unsqueeze(x[(6|n)], {1}); Sub(row, column)""", "n=6"),
}
# LiteRT writes over inputs: a is in the memory of c, b is a, and nothing may be written over it.
for name, node in {"softmax": "Softmax<axis=1>(b)", "product": "Mul(b, ![1])",
                   "difference": "Sub(b, d)"}.items():
    before = "d = Sigmoid(![1]);" if name == "difference" else ""
    for batch in "1n":
        CASES[f"written over, a {name}, batch {batch}"] = Case(f"""
            c = Conv([{batch},3,8,8], ![3,3,1,1]); a = Mul(c, ![3,1,1]); b = Reshape(a, {{0,3,64}})
            {before} {node}; Conv<group=3>(b, ![9,1,1])""", "n=1", tol=1e-4)

test = on_every_target(CASES)
