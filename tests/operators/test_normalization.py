"""Normalizations of batches, instances, groups, layers, and by norms."""

import pytest

from tests.operators.cases import Case, Only, Refused
from tests.operators.running import TARGETS, check

FREE = [{"n": 1, "h": 5}, {"n": 2, "h": 4}]

# fmt: off
CASES: list[Case] = [
    Case("batches",
        """g (float[n, 3] x, float[n, 3, h] x1, float[n, 3, 4, h] x2, float[2, 3, 2, 2, 2] x3)
            => (y1, y2, y3, y4)
            <float[3] s, float[3] c, float[3] m, float[3] v> {
            y1 = BatchNormalization <epsilon = 0.01> (x, s, c, m, v)
            y2 = BatchNormalization <epsilon = 0.01> (x1, s, c, m, v)
            y3 = BatchNormalization <epsilon = 0.01> (x2, s, c, m, v)
            y4 = BatchNormalization <epsilon = 0.01> (x3, s, c, m, v)
        }""",
        sizes=FREE, ranges={"v": (0, 2)}, ios=(15, 17)),
    Case("batches, computed statistics",
        """g (float[n, 3, 4] x, float[3] scale, float[3] b, float[3] input_mean, float[3] input_var)
            => (y) {
            y = BatchNormalization (x, scale, b, input_mean, input_var)
        }""",
        sizes={"n": 2}, ranges={"input_var": (0, 2)}),
    Case("batches, training",
        """g (float[4, 3, 5] x) => (y, m, v)
            <float[3] scale, float[3] b, float[3] input_mean, float[3] input_var> {
            y, m, v = BatchNormalization <training_mode = 1, momentum = 0.7> (x, scale, b, input_mean, input_var)
        }""",
        ranges={"input_var": (0, 2)}),
    Case("a batch's is part of the Conv before",
        """g (float[n, 2, 8, 8] x) => (y)
            <float[3, 2, 3, 3] w, float[3] scale, float[3] b, float[3] input_mean, float[3] input_var> {
            z = Conv (x, w)
            y = BatchNormalization (z, scale, b, input_mean, input_var)
        }""",
        sizes={"n": 2}, ranges={"input_var": (0, 2)}, coreml=Only("conv")),
    Case("batches of float16 with constants of float32",
        """g (float16[2, 4, 3] x) => (y)
            <float[4] scale, float[4] b, float[4] input_mean, float[4] input_var> {
            y = BatchNormalization <epsilon = 1e-7> (x, scale, b, input_mean, input_var)
        }""",
        ranges={"input_var": (0, 2)}, tol=5e-3),
    Case("instances",
        """g (float[n, 4, h] a, float[n, 4, 3, h] b, float[n, 4, 2, h, 3] c, float[4] scale,
            float[4] b1) => (y1, y2, y3, y4)
            <float[4] s, float[4] z> {
            y1 = InstanceNormalization (a, s, z)
            y2 = InstanceNormalization (b, s, z)
            y3 = InstanceNormalization (c, s, z)
            y4 = InstanceNormalization (b, scale, b1)
        }""",
        sizes=FREE, ios=(15, 17)),
    Case("groups",
        """g (float[n, 4, h] x, float[n, 4, 3, h] x1, float[n, 4, 2, h, 3] x2)
            => (float[n, 4, h] y, float[n, 4, 3, h] v, float[n, 4, 2, h, 3] w)
            <float[2] t, float[2] u> {
            y = GroupNormalization <num_groups = 2, epsilon = 0.01> (x, t, u)
            v = GroupNormalization <num_groups = 2, epsilon = 0.01> (x1, t, u)
            w = GroupNormalization <num_groups = 2, epsilon = 0.01> (x2, t, u)
        }""",
        sizes=FREE, tflite=Refused("no lowering of GroupNormalization"), ios=(15, 17)),
    Case("layers",
        """g (float[n, h, 4, 3] x, float[n, 4, 3] x1, float[4, 3] scale, float[4, 3] b,
            float[2, 4, 3] x2, float[n, 5, 6] x3) => (y1, y2, y3, y4, y, m, d)
            <float[4, 3] s, float[4, 3] c, float[1, 3] scale1, float[6] scale2> {
            y1 = LayerNormalization <axis = -2> (x, s, c)
            y2 = LayerNormalization <axis = -2> (x, s)
            y3 = LayerNormalization <axis = -2> (x1, scale, b)
            y4 = LayerNormalization <axis = -2> (x2, scale1, c)
            y, m, d = LayerNormalization <epsilon = 0.1> (x3, scale2)
        }""",
        sizes=FREE),
    Case("a layer's is one operation",
        "g (float[n, 5, 6] x) => (y) <float[6] scale, float[6] b> { y = LayerNormalization (x, scale, b) }",
        sizes={"n": 2}, coreml=Only("layer_norm")),
    Case("local response of an even number of channels",
        "g (float[2, 6, h, 4] x) => (y) { y = LRN <size = 4, alpha = 0.3, beta = 0.6, bias = 1.5> (x) }",
        sizes={"h": 3}, tflite=Refused("an odd number of channels"), ios=(15, 17),
        like="""g (float[2, 6, h, 4] x) => (y)
            <int64[8] pads = {0, 1, 0, 0, 0, 2, 0, 0}, int64[1] zero = {0}, int64[1] six = {6},
            int64[1] axes = {1}, int64[1] one = {1}, int64[1] seven = {7},
            int64[1] two = {2}, int64[1] eight = {8}, int64[1] three = {3},
            int64[1] nine = {9}, float factor = {0.075}, float offset = {1.5},
            float exponent = {0.6}> {
            z = Mul (x, x)
            p = Pad (z, pads)
            a = Slice (p, zero, six, axes)
            b = Slice (p, one, seven, axes)
            c = Slice (p, two, eight, axes)
            d = Slice (p, three, nine, axes)
            s = Sum (a, b, c, d)
            m = Mul (s, factor)
            t = Add (m, offset)
            u = Pow (t, exponent)
            y = Div (x, u)
        }"""),
    Case("by norms and variances",
        """g (float[n, 4, h] x, float[n, 3, h, 4] x1) => (y1, y2, float[n, 3, h, 4] y) {
            y1 = LpNormalization <p = 1, axis = 1> (x)
            y2 = LpNormalization <p = 2> (x)
            y = MeanVarianceNormalization (x1)
        }""",
        sizes=FREE),
    Case("float16",
        """g (float16[n, 4, h, 3] x, float16[n, h, 4] x1) => (y1, y2, y3)
            <float16[4] s, float16[4] c, float16[4] input_mean, float16[4] input_var> {
            y1 = InstanceNormalization (x, s, c)
            y2 = BatchNormalization (x, s, c, input_mean, input_var)
            y3 = LayerNormalization (x1, s, c)
        }""",
        sizes=FREE, ranges={"input_var": (0.1, 2)}, tol=1e-2),
    Case("groups of float16",
        """g (float16[n, 4, h, 3] x) => (float16[n, 4, h, 3] y) <float16[4] scale, float16[4] bias> {
            y = GroupNormalization <num_groups = 4> (x, scale, bias)
        }""",
        sizes=FREE, tflite=Refused("no lowering of GroupNormalization"), tol=1e-2),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
