"""Makers of what exporters write in several nodes, and of what only looks like it.

Most idioms end differently now and then (another constant, another axis, an inner value that is
used elsewhere too): whoever recognizes them has to see that.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fuzz.grow import Grower
from tests.fuzz.layers import conv


def _odd(grow: Grower, number: float) -> str:
    """The number, seldom another one near it."""
    return grow.number(number + 0.125 if grow.chance(0.12) else number)


def gelu(grow: Grower) -> None:
    """x * (1 + erf(x / sqrt 2)) / 2, in its orders."""
    x = grow.value().name
    op, factor = ("Div", 2**0.5) if grow.chance(0.5) else ("Mul", 2**-0.5)
    inner = grow.put(op, [x, _odd(grow, factor)])
    one = grow.put("Add", [grow.put("Erf", [inner]), _odd(grow, 1.0)])
    if grow.chance(0.5):
        grow.put("Mul", [grow.put("Mul", [x, one]), _odd(grow, 0.5)])
    else:
        grow.put("Mul", [x, grow.put("Mul", [one, _odd(grow, 0.5)])])


def tanh_gelu(grow: Grower) -> None:
    """Gelu's approximation."""
    x = grow.value().name
    cube = grow.put("Mul", [grow.put("Pow", [x, grow.number(3.0)]), _odd(grow, 0.044715)])
    inner = grow.put("Mul", [grow.put("Add", [x, cube]), _odd(grow, (2 / np.pi) ** 0.5)])
    one = grow.put("Add", [grow.put("Tanh", [inner]), _odd(grow, 1.0)])
    grow.put("Mul", [grow.put("Mul", [x, _odd(grow, 0.5)]), one])


def silu(grow: Grower) -> None:
    """x * sigmoid(x), or with a factor, or of two values."""
    x = grow.value()
    inner = x.name if grow.chance(0.7) else grow.put("Mul", [x.name, grow.number(1.702)])
    grow.put("Mul", [x.name, grow.put("Sigmoid", [inner])])


def hard_swish(grow: Grower) -> None:
    """x * clip(x + 3, 0, 6) / 6, or its sigmoid alone."""
    x = grow.value().name
    shifted = grow.put("Add", [x, _odd(grow, 3.0)])
    low, high = (grow.const(np.asarray(n, np.float32)) for n in (0, 6))
    inner = grow.put("Clip", [shifted, low, high])
    if grow.chance(0.3):
        grow.put("Div", [inner, _odd(grow, 6.0)])
    elif grow.chance(0.5):
        grow.put("Div", [grow.put("Mul", [x, inner]), _odd(grow, 6.0)])
    else:
        grow.put("Mul", [x, grow.put("Div", [inner, _odd(grow, 6.0)])])


def mish(grow: Grower) -> None:
    """x * tanh(softplus(x))."""
    x = grow.value().name
    grow.put("Mul", [x, grow.put("Tanh", [grow.put("Softplus", [x])])])


def relu_clip(grow: Grower) -> None:
    """Activations one after another."""
    inner = grow.put("Relu", [grow.value().name])
    high = grow.const(np.asarray(grow.pick([6, 1, -1]), np.float32))
    low = grow.const(np.asarray(grow.pick([0, -1, 0.5]), np.float32)) if grow.chance(0.5) else ""
    grow.put("Clip", [inner, low, high])


def normalization(grow: Grower) -> None:
    """(x - mean) / sqrt(variance + e) of some axes, with or without scale and bias."""
    x = grow.value(low=2)
    axes = [-1] if grow.chance(0.6) else sorted({grow.axis(x) % x.rank, x.rank - 1})
    named = grow.ints(*axes)
    centered = grow.put("Sub", [x.name, grow.put("ReduceMean", [x.name, named])])
    squared = grow.chance(0.5)
    other = _odd(grow, 2.0) if squared else centered
    square = grow.put("Pow" if squared else "Mul", [centered, other])
    variance = grow.put("ReduceMean", [square, named if grow.chance(0.9) else grow.ints(-1)])
    root = grow.put("Sqrt", [grow.put("Add", [variance, grow.number(1e-3)])])
    result = grow.put("Div", [centered, root])
    if grow.chance(0.6):
        result = grow.put("Mul", [result, grow.noise(x.shape[-1])])
        grow.put("Add", [result, grow.noise(x.shape[-1])])


def rms_norm(grow: Grower) -> None:
    """x / sqrt(mean(x^2) + e) * scale."""
    x = grow.value(low=2)
    square = grow.put("Pow", [x.name, grow.number(2.0)])
    mean = grow.put("ReduceMean", [square, grow.ints(-1)])
    root = grow.put("Sqrt", [grow.put("Add", [mean, grow.number(1e-3)])])
    normal = grow.put("Mul", [x.name, grow.put("Reciprocal", [root])])
    grow.put("Mul", [normal, grow.noise(x.shape[-1])])


def scaled(grow: Grower) -> None:
    """A Conv, then a BatchNormalization, or a scale and a shift for each channel, or one alone."""
    conv(grow)
    x = grow.pool[grow.nodes[-1].output[0]]
    n = x.shape[1]
    if grow.chance(0.5):
        names = [x.name, grow.noise(n), grow.noise(n), grow.noise(n), grow.positive(n)]
        result = grow.put("BatchNormalization", names)
    else:
        sizes = (n if grow.chance(0.8) else 1, *[1] * (x.rank - 2))
        result = grow.put(grow.pick(["Mul", "Div"]), [x.name, grow.positive(*sizes)])
        shift = grow.noise(*sizes) if grow.chance(0.8) else grow.noise(x.shape[-1])
        result = grow.put(grow.pick(["Add", "Sub"]), [result, shift])
    if grow.chance(0.6):
        grow.put(grow.pick(["Relu", "Relu", "Sigmoid", "HardSwish"]), [result])


def padded(grow: Grower) -> None:
    """A Pad before a window."""
    x = grow.value(rank=(3, 4, 4))
    spatial = [grow.below(2) for _ in range(x.rank - 2)] if grow.chance(0.5) else [1] * (x.rank - 2)
    number = [grow.number(grow.pick([0.0, 0.0, -1e4 / 2, 1.0]))] if grow.chance(0.5) else []
    pads = grow.ints(0, 0, *spatial, 0, 0, *spatial)
    inner = grow.put("Pad", [x.name, pads, *number])
    kernel = [grow.pick([2, 3]) for _ in spatial]
    small = min(min(array.shape[2:]) for array in x.exact) < max(kernel)
    grow.refuse(small, "a window larger than what it is on")
    op = grow.pick(["Conv", "MaxPool", "AveragePool"])
    if op == "Conv":
        weights = grow.noise(2, x.shape[1], *kernel, scale=0.4)
        more = {"pads": [1] * 2 * len(kernel)} if grow.chance(0.3) else {}
        grow.put("Conv", [inner, weights], **more)
    else:
        grow.put(op, [inner], kernel_shape=kernel, strides=[grow.pick([1, 2])] * len(kernel))


def squeeze_excite(grow: Grower) -> None:
    """A gate for each channel."""
    x = grow.value(rank=4)
    grow.refuse(1 in x.free, "free channels")
    if grow.chance(0.5):
        mean = grow.put("GlobalAveragePool", [x.name])
    else:
        mean = grow.put("ReduceMean", [x.name, grow.ints(2, 3)], keepdims=1)
    n = x.shape[1]
    hidden = grow.put("Relu", [grow.put("Conv", [mean, grow.noise(2, n, 1, 1), grow.noise(2)])])
    gate = grow.put("Conv", [hidden, grow.noise(n, 2, 1, 1), grow.noise(n)])
    gate = grow.put(grow.pick(["Sigmoid", "HardSigmoid"]), [gate])
    grow.put("Mul", [x.name, gate] if grow.chance(0.5) else [gate, x.name])


def shuffle(grow: Grower) -> None:
    """Channels in groups, exchanged."""
    x = grow.value(rank=4)
    grow.refuse((x.free and x.free != (0,)) or x.shape[1] % 2, "it doesn't fit")
    n, height, width = x.shape[1:]
    first = grow.ints(0 if x.free else x.shape[0], 2, n // 2, height, width)
    parted = grow.put("Reshape", [x.name, first])
    perm = [0, 2, 1, 3, 4] if grow.chance(0.85) else [0, 2, 1, 4, 3]
    turned = grow.put("Transpose", [parted], perm=perm)
    grow.put("Reshape", [turned, grow.ints(0 if x.free else -1, n, height, width)])


def shape_chain(grow: Grower) -> None:
    """Reshape to sizes that are taken from a Shape: Shape, Gather, Unsqueeze, Concat."""
    x = grow.value(low=2)
    kept = grow.below(x.rank)
    size = grow.put("Gather", [grow.put("Shape", [x.name]), grow.scalar(kept)], axis=0)
    single = grow.put("Unsqueeze", [size, grow.ints(0)])
    parts = [single, grow.ints(-1)] if grow.chance(0.7) else [grow.ints(-1), single]
    grow.put("Reshape", [x.name, grow.put("Concat", parts, axis=0)])


def shape_arithmetic(grow: Grower) -> None:
    """Sizes that are computed: half of an axis, sliced off; or a value expanded to another's."""
    x = grow.value(low=1)
    axis = grow.below(x.rank)
    sizes = grow.put("Shape", [x.name])
    if grow.chance(0.4):
        grow.put("Expand", [grow.number(0.5), sizes])
        return
    size = grow.put("Slice", [sizes, grow.ints(axis), grow.ints(axis + 1)])
    half = grow.put("Div", [size, grow.ints(2)])
    ends = [grow.ints(0), half] if grow.chance(0.5) else [half, size]
    grow.put("Slice", [x.name, *ends, grow.ints(axis)])


def filled(grow: Grower) -> None:
    """ConstantOfShape or Range of a value's sizes."""
    x = grow.value(low=1)
    sizes = grow.put("Shape", [x.name])
    if grow.chance(0.5):
        one = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0])
        grow.put("Add", [x.name, grow.put("ConstantOfShape", [sizes], value=one)])
        return
    size = grow.put("Gather", [sizes, grow.scalar(x.rank - 1)], axis=0)
    numbers = grow.put("Range", [grow.scalar(0), size, grow.scalar(1)])
    floats = grow.put("Cast", [numbers], to=TensorProto.FLOAT)
    grow.put("Add", [x.name, floats])


def attention(grow: Grower) -> None:
    """Queries, keys and values in heads, with or without a mask."""
    x = grow.value(rank=3)
    size = x.shape[-1]
    grow.refuse(2 in x.free or size % 2, "it doesn't fit")
    heads = grow.ints(0, 0, 2, size // 2)
    parts = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        product = grow.put("MatMul", [x.name, grow.noise(size, size, scale=size**-0.5)])
        product = grow.put("Add", [grow.noise(size), product])
        parts.append(grow.put("Transpose", [grow.put("Reshape", [product, heads])], perm=perm))
    scores = grow.put("Div", [grow.put("MatMul", parts[:2]), grow.number((size // 2) ** 0.5)])
    if grow.chance(0.4) and 1 not in x.free:
        mask = grow.const(np.tril(np.ones((x.shape[1], x.shape[1]), bool)))
        scores = grow.put("Where", [mask, scores, grow.number(-1e4)])
    weights = grow.put("Softmax", [scores], axis=-1)
    mixed = grow.put("Transpose", [grow.put("MatMul", [weights, parts[2]])], perm=[0, 2, 1, 3])
    grow.put("Reshape", [mixed, grow.ints(0, 0, size)])


def channels_last(grow: Grower) -> None:
    """A part that works with channels last, between Transposes."""
    x = grow.value(rank=4)
    inner = grow.put("Transpose", [x.name], perm=[0, 2, 3, 1])
    for _ in range(grow.below(3)):
        other = grow.noise(grow.pool[inner].shape[-1])
        inner = grow.put(grow.pick(["Add", "Mul", "Max"]), [inner, other])
    if grow.chance(0.5):
        inner = grow.put("Softmax", [inner], axis=grow.pick([-1, 3, 1]))
    back = [0, 3, 1, 2] if grow.chance(0.85) else [0, 2, 1, 3]
    grow.put("Transpose", [inner], perm=back)


def twice(grow: Grower) -> None:
    """The same computation again, on the same values."""
    fitting = [n for n in grow.nodes if len(n.output) == 1 and n.op_type not in ("If", "Constant")]
    node = grow.pick(fitting[-8:])
    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    copy = grow.put(node.op_type, list(node.input), **attributes)
    if grow.chance(0.5) and grow.pool[copy].is_float:
        grow.put("Add", [copy, node.output[0]])


def branches(grow: Grower) -> None:
    """An If whose branches take values from outside, by a constant, an input or a comparison."""
    x = grow.value()
    flags = [v for v in grow.pool.values() if v.kind == "bool" and v.rank == 0]
    if flags and grow.chance(0.7):
        flag = grow.pick(flags).name
    elif grow.chance(0.3):
        flag = grow.const(np.asarray(grow.chance(0.5)))
    else:
        total = grow.put("ReduceMean", [x.name], keepdims=0)
        flag = grow.put("Greater", [total, grow.const(np.asarray(0.01, np.float32))])
    other = grow.broadcasting(x).name
    then = _body(grow, [("Add", [x.name, other]), (grow.pick(["Relu", "Neg"]), None)])
    last = [("Mul", [x.name, other]), (grow.pick(["Sigmoid", "Identity", "Abs"]), None)]
    grow.put("If", [flag], then_branch=then, else_branch=_body(grow, last))


def _body(grow: Grower, steps: list[tuple[str, list[str] | None]]) -> onnx.GraphProto:
    nodes, last = [], ""
    for op, inputs in steps:
        name = grow.name("b")
        nodes.append(helper.make_node(op, inputs or [last], [name], name=grow.name(op)))
        last = name
    info = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    return helper.make_graph(nodes, grow.name("body"), [], [info])


MAKERS = (
    *(gelu, tanh_gelu, silu, hard_swish, mish, relu_clip, normalization, normalization, rms_norm),
    *(scaled, scaled, scaled, padded, padded, squeeze_excite, shuffle, shape_chain, shape_chain),
    *(shape_arithmetic, filled, attention, channels_last, channels_last, twice, twice, branches),
)
