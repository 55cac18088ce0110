"""Normalizations of batches, instances, groups, layers, and by norms."""

from tests.operators.cases import Case
from tests.operators.running import on_every_target

FREE = "n=1 h=5, n=2 h=4"

# fmt: off
CASES: dict[str, Case | str] = {
    "batches": Case("""
        BatchNormalization<epsilon=0.01>([n,3], s![3], c![3], m![3], v![3]~0:2)
        BatchNormalization<epsilon=0.01>([n,3,h], s![3], c![3], m![3], v![3]~0:2)
        BatchNormalization<epsilon=0.01>([n,3,4,h], s![3], c![3], m![3], v![3]~0:2)
        BatchNormalization<epsilon=0.01>([2,3,2,2,2], s![3], c![3], m![3], v![3]~0:2)""", FREE, ios=(15, 17)),
    "batches, computed statistics": Case("BatchNormalization([n,3,4], [3], [3], [3], [3]~0:2)", "n=2"),
    "batches, training": Case("""y, m, v = BatchNormalization<training_mode=1, momentum=0.7>(
        [4,3,5], ![3], ![3], ![3], ![3]~0:2)"""),
    "a batch's is part of the Conv before": Case("""
        z = Conv([n,2,8,8], ![3,2,3,3]); BatchNormalization(z, ![3], ![3], ![3], ![3]~0:2)""", "n=2",
        coreml="= conv"),
    "batches of float16 with constants of float32": Case(
        "BatchNormalization<epsilon=1e-7>(float16[2,4,3], ![4], ![4], ![4], ![4]~0:2)", tol=5e-3),
    "instances": Case("""
        InstanceNormalization((a[n,4,h]|b[n,4,3,h]|c[n,4,2,h,3]), s![4], z![4])
        InstanceNormalization(b[n,4,3,h], [4], [4])""", FREE, ios=(15, 17)),
    "groups": Case("""
        float[n,4,h] y = GroupNormalization<num_groups=2, epsilon=0.01>([n,4,h], t![2], u![2])
        float[n,4,3,h] v = GroupNormalization<num_groups=2, epsilon=0.01>([n,4,3,h], t![2], u![2])
        float[n,4,2,h,3] w = GroupNormalization<num_groups=2, epsilon=0.01>([n,4,2,h,3], t![2], u![2])""",
        FREE, ios=(15, 17), tflite="! no lowering of GroupNormalization"),
    "layers": Case("""
        LayerNormalization<axis=-2>(x[n,h,4,3], s![4,3], c![4,3]); LayerNormalization<axis=-2>(x[n,h,4,3], s![4,3])
        LayerNormalization<axis=-2>([n,4,3], [4,3], [4,3]); LayerNormalization<axis=-2>([2,4,3], ![1,3], c![4,3])
        y, m, d = LayerNormalization<epsilon=0.1>([n,5,6], ![6])""", FREE),
    "a layer's is one operation": Case("LayerNormalization([n,5,6], ![6], ![6])", "n=2", coreml="= layer_norm"),
    "local response of an even number of channels": Case(
        "y = LRN<size=4, alpha=0.3, beta=0.6, bias=1.5>(x[2,6,h,4])", "h=3", ios=(15, 17), like="""
        z = Mul(x[2,6,h,4], x[2,6,h,4]); p = Pad(z, {0,1,0,0,0,2,0,0})
        a = Slice(p, {0}, {6}, {1}); b = Slice(p, {1}, {7}, {1}); c = Slice(p, {2}, {8}, {1})
        d = Slice(p, {3}, {9}, {1}); s = Sum(a, b, c, d); m = Mul(s, $0.075); t = Add(m, $1.5); u = Pow(t, $0.6)
        y = Div(x[2,6,h,4], u)""", tflite="! an odd number of channels"),
    "by norms and variances": Case("""
        LpNormalization<p=1, axis=1>(x[n,4,h]); LpNormalization<p=2>(x[n,4,h])
        float[n,3,h,4] y = MeanVarianceNormalization([n,3,h,4])""", FREE),
    "float16": Case("""
        InstanceNormalization(float16 x[n,4,h,3], float16 s![4], float16 c![4])
        BatchNormalization(float16 x[n,4,h,3], float16 s![4], float16 c![4], float16 ![4], float16 ![4]~0.1:2)
        LayerNormalization(float16[n,h,4], float16 s![4], float16 c![4])""", FREE, tol=1e-2),
    "groups of float16": Case("""float16[n,4,h,3] y = GroupNormalization<num_groups=4>(
        float16[n,4,h,3], float16 ![4], float16 ![4])""", FREE, tol=1e-2, tflite="! no lowering of GroupNormalization"),
}

test = on_every_target(CASES)
