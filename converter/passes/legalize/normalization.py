"""Normalizations and norms as means, sums and products, which transposes can pass.

1. BatchNormalization: x * scale + shift, with a number for each channel.
2. InstanceNormalization, GroupNormalization: means over the axes of an instance or group.
3. LpNormalization: x / norm along an axis.
4. MeanVarianceNormalization: (x - mean) / deviation.
5. GlobalLpPool, LpPool: the norm over the spatial axes, or over a window.
6. log(1 + exp(x)) is Softplus, which keeps small values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import floating, ints, number
from converter.ir.edit import constant, is_op
from converter.ir.windows import pooling_window
from converter.passes.legalize.builder import Array, Builder, Value, dims, rank
from converter.passes.legalize.pooling import mean_under
from converter.passes.legalize.windows import bordered


def batch_normalization(b: Builder, node: onnx_ir.Node) -> Value | tuple[Value, ...]:
    """x * factor + shift where the numbers are constant, (x - mean) / deviation * scale + bias
    elsewhere; while training, with the batch's own mean and variance."""
    x, epsilon = node.inputs[0], floating(node, "epsilon", 1e-5)
    assert x is not None
    if number(node, "training_mode", 0):
        return _trained(b, node, x, epsilon)
    known = [constant(value) for value in node.inputs[1:5]]
    numbers = [np.asarray(array, np.float64) for array in known if array is not None]
    if len(numbers) < 4:
        mean, variance = (_channels(b, x, index) for index in (3, 4))
        return _normalized(b, x, mean, variance, epsilon)
    scale, bias, mean, variance = numbers
    factor = scale / np.sqrt(variance + epsilon)
    return b.op("Add", b.op("Mul", x, _wide(b, x, factor)), _wide(b, x, bias - mean * factor))


def _normalized(
    b: Builder, x: Value, mean: Array | Value, variance: Array | Value, epsilon: float
) -> Value:
    deviation = b.op("Sqrt", b.op("Add", variance, b.number(epsilon, x)))
    factor = b.op("Div", _channels(b, x, 1), deviation)
    return b.op("Add", b.op("Mul", b.op("Sub", x, mean), factor), _channels(b, x, 2))


def _trained(b: Builder, node: onnx_ir.Node, x: Value, epsilon: float) -> tuple[Value, ...]:
    """What is normalized, and the running mean and variance."""
    axes = [axis for axis in range(rank(x)) if axis != 1]
    mean = b.reduce("ReduceMean", x, axes)
    centred = b.op("Sub", x, mean)
    variance = b.reduce("ReduceMean", b.op("Mul", centred, centred), axes)
    share, running = floating(node, "momentum", 0.9), []
    for old, now in zip(node.inputs[3:5], (mean, variance), strict=True):
        assert old is not None and old.dtype is not None
        flat = b.cast(b.squeeze(now, axes), old.dtype)
        kept = b.op("Mul", old, b.number(share, old))
        running.append(b.op("Add", kept, b.op("Mul", flat, b.number(1.0 - share, old))))
    return (_normalized(b, x, mean, variance, epsilon), *running)


def _wide(b: Builder, x: Value, channels: Array) -> Array:
    """A number for each channel of ``x``, in its type."""
    assert x.dtype is not None
    return channels.reshape(-1, *[1] * (rank(x) - 2)).astype(x.dtype.numpy())


def _standardized(b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon)."""
    centred = b.op("Sub", x, b.reduce("ReduceMean", x, axes))
    variance = b.reduce("ReduceMean", b.op("Mul", centred, centred), axes)
    return b.op("Div", centred, b.op("Sqrt", b.op("Add", variance, b.number(epsilon, x))))


def _scaled(b: Builder, x: Value) -> Value:
    """``x`` times a number for each channel, and another added: the second and third input."""
    return b.op("Add", b.op("Mul", x, _channels(b, x, 1)), _channels(b, x, 2))


def _channels(b: Builder, x: Value, index: int) -> Array | Value:
    """An input that has a number for each channel of ``x``, in its type."""
    value, array = b.input(index), constant(b.input(index))
    assert value is not None and x.dtype is not None
    if array is not None:
        return _wide(b, x, array)
    return b.cast(b.reshape(value, [b.size(value, 0), *[1] * (rank(x) - 2)]), x.dtype)


def instance_normalization(b: Builder, node: onnx_ir.Node) -> Value:
    """Over all axes but batch and channels."""
    x = node.inputs[0]
    assert x is not None
    return _scaled(b, _standardized(b, x, range(2, rank(x)), floating(node, "epsilon", 1e-5)))


def group_normalization(b: Builder, node: onnx_ir.Node) -> Value | None:
    """Opset 18 has a scale for each group, 21 for each channel: told apart by their number."""
    x, scale = node.inputs[0], b.input(1)
    assert x is not None and scale is not None
    groups, shape = node.attributes["num_groups"].as_int(), b.sizes(x)
    channels, known = shape[1], [dim for dim in shape[2:] if isinstance(dim, int)]
    if not isinstance(channels, int) or len(known) < len(shape) - 2:
        return None
    grouped = b.reshape(x, [shape[0], groups, channels // groups, *known])
    epsilon = floating(node, "epsilon", 1e-5)
    made = _standardized(b, grouped, range(2, rank(grouped)), epsilon)
    if dims(scale)[0] == groups and groups != channels:
        return b.reshape(_scaled(b, made), shape)
    return _scaled(b, b.reshape(made, shape))


def lp_normalization(b: Builder, node: onnx_ir.Node) -> Value:
    """Nothing by nothing is nothing here."""
    x = node.inputs[0]
    assert x is not None
    order = number(node, "p", 2)
    norm = b.reduce(f"ReduceL{order}", x, [(number(node, "axis", -1)) % rank(x)])
    return b.op("Div", x, b.op("Max", norm, b.number(float(np.finfo(np.float32).tiny), x)))


def mean_variance_normalization(b: Builder, node: onnx_ir.Node) -> Value:
    """The operator's own epsilon is 1e-9, behind the root."""
    x = node.inputs[0]
    assert x is not None
    axes = [axis % rank(x) for axis in ints(node, "axes", (0, 2, 3))]
    centred = b.op("Sub", x, b.reduce("ReduceMean", x, axes))
    variance = b.reduce("ReduceMean", b.op("Mul", centred, centred), axes)
    return b.op("Div", centred, b.op("Add", b.op("Sqrt", variance), b.number(1e-9, x)))


def global_lp_pool(b: Builder, node: onnx_ir.Node) -> Value:
    """(sum |x|^p)^(1/p) over all axes but batch and channels."""
    x = node.inputs[0]
    assert x is not None
    order, axes = number(node, "p", 2), range(2, rank(x))
    if order in (1, 2):
        return b.reduce(f"ReduceL{order}", x, axes)
    return _root(b, b.reduce("ReduceSum", _power(b, x, order), axes), order)


def lp_pool(b: Builder, node: onnx_ir.Node) -> Value:
    """The same over a window: of a mean in which padding counts, times the window's size."""
    x = node.inputs[0]
    assert x is not None
    window, order = pooling_window(node), number(node, "p", 2)
    powers, pads = _power(b, x, order), [*window.before, *window.ends]
    if window.auto:
        powers = bordered(b, powers, window)
    mean = mean_under(b, powers, window, pads=pads, count_include_pad=1)
    size = b.number(float(np.prod(window.kernel)), x)
    return _root(b, b.op("Mul", mean, size), order)


def _power(b: Builder, x: Value, order: int) -> Value:
    if order == 2:
        return b.op("Mul", x, x)
    size = b.op("Abs", x)
    return size if order == 1 else b.op("Pow", size, b.number(order, x))


def _root(b: Builder, x: Value, order: int) -> Value:
    """x^(1/order), of what isn't negative."""
    if order == 2:
        return b.op("Sqrt", x)
    return x if order == 1 else b.op("Pow", x, b.number(1.0 / order, x))


def softplus(b: Builder, node: onnx_ir.Node) -> Value | None:
    """A Log of 1 + exp(x), where nothing else wants the sum."""
    total = node.inputs[0]
    add = total.producer() if total is not None else None
    if total is None or add is None or not is_op(add, "Add") or len(total.uses()) != 1:
        return None
    for power, one in (add.inputs, add.inputs[::-1]):
        exp = power.producer() if power is not None else None
        number = constant(one)
        if exp is None or not is_op(exp, "Exp") or number is None or number.size != 1:
            continue
        x = exp.inputs[0]
        if float(number.reshape(-1)[0]) == 1.0 and x is not None and x.shape is not None:
            return b.op("Softplus", x)
    return None


REWRITES = {
    "BatchNormalization": batch_normalization,
    "GlobalLpPool": global_lp_pool,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "Log": softplus,
    "LpNormalization": lp_normalization,
    "LpPool": lp_pool,
    "MeanVarianceNormalization": mean_variance_normalization,
}
