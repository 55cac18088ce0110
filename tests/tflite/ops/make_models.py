"""Writes small .tflite files made by TensorFlow's converter, with inputs: one process for all.

Run as ``python make_models.py FOLDER``; for each case FOLDER gets NAME.tflite and NAME.npz.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np

if __name__ == "__main__":  # the tests read the list of cases without TensorFlow
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")
    import tensorflow as tf

RNG = np.random.default_rng(0)


@dataclass
class Case:
    """A function of named arrays to a list of results.

    ``free`` are axes of every input whose size the file leaves open; ``modes`` what is made of
    it: ``float``, ``fp16``, ``dynamic``, ``int8``, ``int16``.
    """

    function: Callable
    inputs: dict[str, np.ndarray]
    free: tuple[int, ...]
    modes: tuple[str, ...]


CASES: dict[str, Case] = {}


def case(*modes: str, free: tuple[int, ...] = (), **inputs):
    """Registers a function under its name."""

    def register(function):
        CASES[function.__name__] = Case(function, inputs, free, modes or ("float",))
        return function

    return register


def real(*shape, low=None) -> np.ndarray:
    values = RNG.standard_normal(shape).astype(np.float32)
    return values if low is None else np.abs(values) + np.float32(low)


def whole(*shape, low=-9, high=10, dtype=np.int32) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def weights(*shape) -> tf.Tensor:
    return tf.constant(real(*shape) / np.sqrt(np.prod(shape[:-1])).astype(np.float32))


def each(names: str, *inputs) -> list:
    """What TensorFlow's functions of these names give, each of these inputs."""
    return [attrgetter(name)(tf)(*inputs) for name in names.split()]


def written(folder: Path) -> Path:
    """The folder, with all of them, by one TensorFlow process."""
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert not done.returncode, done.stderr[-3000:]
    return folder


BATCH = (0,)
INTEGERS = ("float", "int8")
QUANTIZED = ("float", "fp16", "int8", "int16")


@case(free=BATCH, x=real(3, 7), y=real(3, 7, low=0.1))
def unary(x, y):
    half = tf.concat([x[:, :3], [[0.5, 1.5, -2.5]] + 0 * x[:, :3]], 1)
    found = each("abs negative exp square sin cos floor math.ceil sign zeros_like nn.gelu", x)
    return [*found, *each("math.log sqrt math.rsqrt", y), tf.round(half)]


@case(free=BATCH, x=real(3, 4, 5), y=real(3, 4, 5, low=0.1))
def binary(x, y):
    row = tf.constant([0.5, -2.0, 3.0, 1.0, -1.0])
    found = each("maximum math.squared_difference", x, y) + each("minimum math.floordiv", x, row)
    found += [tf.nn.relu(x + y), tf.nn.relu6(x - row), row * x, x / row, tf.pow(y, x)]
    return [*found, tf.math.floormod(x * 4, row), tf.add_n([x, y, y]), tf.atan2(x, y - 1)]


@case(free=BATCH, x=whole(3, 8), y=whole(3, 8, low=1, high=5))
def integers(x, y):
    signed = tf.where(x > 0, y, -y)
    found = each("add subtract multiply maximum bitwise.bitwise_xor equal", x, y)
    found += each("truncatediv math.floordiv math.floormod", x, signed)
    found += each("square abs negative sign", x) + each("reduce_sum reduce_max", x, 1)
    found += [tf.reduce_prod(y, 1), tf.bitwise.right_shift(x, y), *tf.split(x, 2, 1)]
    kinds = (tf.int8, tf.float32, tf.bool, tf.uint32)
    return [*found, *(tf.cast(x, to) for to in kinds), tf.cast(tf.cast(x, tf.float32) / 2, x.dtype)]


LONG = whole(3, 8, low=1, high=5, dtype=np.int64)


@case(free=BATCH, x=whole(3, 8, dtype=np.int64), y=LONG, u=whole(3, 8, low=0, dtype=np.uint32))
def other_integers(x, y, u):
    return [
        *each("add subtract multiply maximum minimum less equal", x, y),
        tf.cast(u, tf.int32),
        -x,
        tf.reduce_sum(x, 1),
        tf.range(x[0, 0], x[0, 0] + 9, y[0, 0]),
    ]


@case(free=BATCH, x=real(3, 6), y=real(3, 6), flags=RNG.integers(0, 2, (3, 6)).astype(bool))
def logic(x, y, flags):
    found = each("equal not_equal", x, tf.abs(x)) + each("less less_equal", x, y)
    found += each("greater greater_equal", x, y) + each("logical_not where", flags)
    found += each("logical_and logical_or equal", flags, x > 0)
    found += [tf.where(flags, x, y), tf.where(flags[:1], x, 0.0)]
    found += [tf.compat.v1.where(flags[:, 0], x, y), tf.reduce_any(flags, 1)]
    found += [tf.reverse(flags, [1]), tf.transpose(flags), tf.gather(flags, [0], axis=1)]
    return [*found, tf.reduce_all(flags, [0, 1], keepdims=True), tf.fill([2], flags[0, 0])]


@case(*QUANTIZED, x=real(2, 9, 10, 6))
def convolution(x):
    def conv(*shape, activation=tf.identity, **options):
        bias = weights(shape[-1])
        return activation(tf.nn.bias_add(tf.nn.conv2d(x, weights(*shape), **options), bias))

    def depthwise(times, *how, **options):
        return tf.nn.depthwise_conv2d(x, weights(3, 3, 6, times), *how, **options)

    return [
        conv(3, 3, 6, 4, strides=1, padding="SAME"),
        conv(3, 2, 6, 4, strides=1, padding="VALID", activation=tf.nn.relu),
        conv(3, 3, 6, 5, strides=2, padding="SAME", activation=tf.nn.relu6),
        conv(2, 5, 6, 3, strides=[1, 3, 2, 1], padding="SAME", activation=tf.tanh),
        conv(3, 3, 6, 4, strides=1, padding="SAME", dilations=2),
        conv(3, 3, 2, 9, strides=1, padding="SAME"),
        tf.nn.conv2d(x, weights(1, 1, 6, 8), 1, "VALID"),
        depthwise(1, [1, 2, 2, 1], "SAME"),
        depthwise(2, [1, 1, 1, 1], "VALID"),
        depthwise(1, [1, 1, 1, 1], "SAME", dilations=[2, 2]),
    ]


@case(free=(0, 1, 2), x=real(2, 9, 10, 3))
def free_convolution(x):
    filters = weights(3, 3, 3, 4)
    larger = tf.concat([tf.shape(x)[:1], tf.shape(x)[1:3] * 2, [4]], 0)
    hows = ((1, "SAME"), (2, "SAME"), (2, "VALID"), (1, "SAME", None, 3))
    return [
        *(tf.nn.conv2d(x, filters, *how) for how in hows),
        tf.nn.avg_pool2d(x, 3, 2, "SAME"),
        tf.nn.max_pool2d(x, 2, 2, "SAME"),
        tf.nn.conv2d_transpose(x, weights(3, 3, 4, 3), larger, 2),
        tf.image.resize(x, tf.shape(x)[1:3] * 2),
        tf.space_to_batch(x, [2, 2], [[0, 1], [0, 0]]),
    ]


@case("float", "fp16", "int8", x=real(2, 5, 6, 3))
def transposed(x):
    def up(k, stride, height, width, padding):
        filters = weights(k, k, 4, 3)
        return tf.nn.conv2d_transpose(x, filters, [2, height, width, 4], stride, padding)

    same = [up(3, 2, 10, 12, "SAME"), up(4, 2, 9, 11, "SAME"), up(2, 3, 15, 18, "SAME")]
    valid = [up(3, 2, 11, 13, "VALID"), up(3, 2, 12, 14, "VALID")]
    return [*same, *valid, up(3, 1, 5, 6, "SAME") + weights(4)]


@case(x=real(1, 4, 5, 6, 2))
def volumes(x):
    return [
        tf.nn.conv3d_transpose(x, weights(3, 3, 3, 4, 2), [1, 8, 10, 12, 4], [1, 2, 2, 2, 1]),
        tf.nn.conv3d(x, weights(3, 3, 3, 2, 4), [1, 1, 1, 1, 1], "SAME"),
        tf.nn.conv3d(x, weights(2, 3, 3, 2, 4), [1, 2, 1, 2, 1], "SAME"),
        tf.nn.relu(tf.nn.conv3d(x, weights(2, 2, 2, 2, 3), [1] * 5, "VALID") + 0.1),
    ]


@case(x=real(1, 4, 4, 4, 2))
def wide(x):
    """Five axes and more."""
    y = tf.ones([1, 4, 1, 4, 2])
    found = [tf.transpose(x, [0, 4, 1, 2, 3]), tf.transpose(x[None], [0, 5, 1, 2, 3, 4])]
    found += [x + y, x - y, x * y, x / y, tf.maximum(x, y), x[:, 1:3, ..., 0]]
    found += [tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0], [0, 0]])]
    return [*found, tf.slice(x, [0] * 5, [1, 2, 2, 2, 2])]


@case("float", "fp16", "dynamic", "int8", free=BATCH, x=real(2, 6, 6, 16))
def hybrid(x):
    """Weights large enough for the converter to store them in 8 bits."""
    value = tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 16, 128), 1, "SAME") + weights(128))
    value = tf.nn.depthwise_conv2d(value, weights(3, 3, 128, 1), [1, 2, 2, 1], "SAME")
    return [value, tf.matmul(tf.reshape(value, [-1, 9 * 128]), weights(9 * 128, 32)) + weights(32)]


@case("float", "int8", "int16", free=BATCH, x=real(2, 7, 8, 3))
def pooling(x):
    average = [tf.nn.avg_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, [2, 3], 1, "VALID")]
    most = [tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.relu(tf.nn.max_pool2d(x, 2, 2, "VALID"))]
    return [*average, *most, tf.reduce_mean(x, [1, 2])]


@case(*QUANTIZED, free=BATCH, x=real(3, 4, 6), y=real(3, 6, 5))
def products(x, y):
    flat = tf.reshape(x, [-1, 24])
    return [
        tf.nn.relu(tf.matmul(flat, weights(24, 5)) + weights(5)),
        tf.matmul(flat, weights(24, 7)),
        tf.tensordot(x, weights(6, 3), [[2], [0]]) + weights(3),
        tf.matmul(x, y),
        tf.matmul(x, tf.transpose(y, [0, 2, 1]), transpose_b=True),
        tf.matmul(tf.transpose(x, [0, 2, 1]), y, transpose_a=True),
    ]


@case("float", "int16", free=BATCH, x=real(3, 4, 6) * 3)
def smooth(x):
    return [*each("tanh sigmoid", x), tf.nn.softmax(2 * x)]


@case(*INTEGERS, free=BATCH, x=real(3, 4, 6) * 3)
def activations(x):
    swish = x * tf.nn.relu6(x + 3) * np.float32(1 / 6)
    return [*each("nn.relu nn.relu6 tanh sigmoid nn.softmax", x), tf.nn.leaky_relu(x, 0.3), swish]


@case(x=real(3, 4, 6) * 2, image=real(3, 4, 4, 7))
def float_activations(x, image):
    slopes = tf.constant([0.1, 0.2, 0.3, -0.1, 0.5, 0.9])
    found = [tf.nn.relu(x) + slopes * -tf.nn.relu(-x), tf.minimum(tf.maximum(x, -1.0), 1.0)]
    found += [*each("nn.elu nn.log_softmax", x), tf.math.l2_normalize(x, -1)]
    return [*found, tf.nn.local_response_normalization(image, 2, 1.5, 0.3, 0.6)]


@case("float", "int8", "int16", free=BATCH, x=real(3, 4, 6))
def shapes(x):
    first, second, third = tf.split(x, 3, 2)
    found = [tf.reshape(x, [-1, 24]), tf.reshape(x, tf.stack([tf.shape(x)[0], 2, -1]))]
    found += [tf.expand_dims(x, 1), tf.squeeze(tf.expand_dims(x, 1), 1), tf.unstack(x, axis=1)[2]]
    found += [tf.transpose(x, [2, 0, 1]), tf.concat([first, third, second], 1)]
    found += [tf.stack([x, x[:, ::-1]], 1), tf.split(x, [1, 3, 2], 2)[1]]
    return [*found, tf.tile(x, [1, 2, 3])]


@case(free=BATCH, x=real(3, 4, 6), k=whole(3, 4, low=-1, high=5))
def more_shapes(x, k):
    found = [tf.shape(x), tf.shape(x, out_type=tf.int64), tf.rank(x), tf.fill(tf.shape(x)[:2], 2.5)]
    found += [tf.broadcast_to(x[:, None], tf.stack([tf.shape(x)[0], 2, 4, 6]))]
    found += [tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(k[:1, :, None]))]
    found += [tf.range(tf.shape(x)[0] * 2), tf.range(0.5, 3.0, 0.5) + tf.reduce_sum(x)]
    found += [tf.one_hot(k, 5, 2.0, -1.0), tf.one_hot(k, 3, axis=1), tf.linalg.diag(x)]
    found += [tf.linalg.set_diag(x[:, :, :4], x[:, 0, :4])]
    return [*found, *tf.unique(tf.reshape(k, [-1]))]


@case(*INTEGERS, free=BATCH, x=real(3, 5, 6, 4))
def slices(x):
    found = [x[:, 1:, 2:4], x[:, ::2, 1::3], x[:, ::-1, 4:1:-2], x[:, -3:-1], x[:, 2, :, -1], x[0]]
    found += [x[..., 1], x[:, 1, ..., :2], x[:, tf.newaxis, 1, ..., 1], x[:, 1, ..., tf.newaxis]]
    found += [tf.slice(x, [0, 1, 0, 2], [-1, 3, 6, -1]), tf.reverse(x, [1, 2])]
    found += [tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]])]
    ends = [[0, 0], [2, 1], [1, 0], [0, 0]]
    return [*found, tf.pad(x, ends, "REFLECT"), tf.pad(x, ends, "SYMMETRIC")]


@case(free=BATCH, x=real(3, 5, 6), n=np.array([2, 1, 4], np.int32))
def computed_slices(x, n):
    at = n[1]
    found = [tf.slice(x, tf.stack([0, at, 0]), tf.stack([-1, 2, at])), x[:, : n[0]], x[:, at]]
    found += [tf.pad(x, tf.stack([[0, 0], [at, 1], [0, 0]]), constant_values=2.0), x[:, at - 2]]
    found += [tf.pad(x, [[0, 0], [1, 1], [0, 0]], constant_values=-1.5)]
    return [*found, *(tf.reverse_sequence(x, n, seq_axis=k, batch_axis=0) for k in (1, 2))]


@case(free=BATCH, x=real(3, 5, 6), k=whole(3, 2, low=0, high=5))
def gathering(x, k):
    rows, at = tf.constant([[1], [3], [1]]), tf.constant([[0, 1], [2, 4]])
    found = [tf.gather(x, k[0], axis=1), tf.gather(tf.constant(real(5, 3)), k), tf.gather_nd(x, at)]
    found += [tf.gather(x, k, axis=axis, batch_dims=1) for axis in (1, 2)]
    found += [tf.scatter_nd(rows, x[:3, 0], [5, 6]), tf.scatter_nd(rows, k[:3], [5, 2])]
    found += [tf.tensor_scatter_nd_update(tf.zeros([4, 6]), [[1], [2], [0]], x[:3, 1])]
    return found


@case(free=BATCH, x=real(3, 5, 6))
def segments(x):
    kinds = (("max", 2), ("min", 2), ("sum", 3), ("prod", 2))
    kept = (attrgetter(f"unsorted_segment_{kind}")(tf.math)(x[:3, 0], [1, 0, 1], count)
            for kind, count in kinds)  # fmt: skip
    return [tf.math.segment_sum(x[:3, 0], tf.constant([0, 0, 1])), *kept]


@case(*INTEGERS, free=BATCH, x=real(3, 4, 5, 2))
def reductions(x):
    found = [tf.reduce_mean(x, [1, 2], keepdims=True), tf.reduce_mean(x, -1), tf.argmin(x, -2)]
    found += [tf.reduce_sum(x, [1, 3]), tf.reduce_max(x, 2), tf.argmax(x, 2, output_type=tf.int32)]
    return [*found, tf.reduce_min(x, [-1, 1], keepdims=True)]


@case(free=BATCH, x=real(3, 4, 5), k=whole(3, 6))
def more_reductions(x, k):
    found = [tf.reduce_prod(x, [0, 2]), tf.reduce_sum(x), tf.math.reduce_std(x, 1)]
    found += [*tf.math.top_k(x, 3), tf.math.top_k(k, 2)[0], tf.reduce_max(k, 0)]
    return [*found, tf.cumsum(x, 1), tf.cumsum(x, 2, exclusive=True, reverse=True), tf.cumsum(k, 1)]


@case(*INTEGERS, free=BATCH, x=real(2, 5, 7, 3))
def resizing(x):
    v1 = tf.compat.v1.image
    nearest = v1.resize_nearest_neighbor
    found = [tf.image.resize(x, size) for size in ([10, 9], [3, 4])]
    found += [v1.resize_bilinear(x, [9, 13], align_corners=True), v1.resize_bilinear(x, [10, 11])]
    found += [tf.image.resize(x, size, "nearest") for size in ([10, 14], [7, 9])]
    found += [nearest(x, [9, 11], align_corners=True)]
    return [*found, nearest(x, [15, 10]), nearest(x, [3, 5])]


@case(x=real(1, 14, 4, 2))
def nearest_by_rounding(x):
    """Sizes for which ONNX Runtime's arithmetic would pick other elements than TFLite's."""
    nearest = tf.compat.v1.image.resize_nearest_neighbor
    found = [nearest(x, [4, 8]), nearest(x, [23, 75], align_corners=True)]
    return [*found, tf.image.resize(x, [28, 41], "nearest")]


@case(*INTEGERS, free=BATCH, x=real(2, 4, 6, 8))
def blocks(x):
    found = [tf.nn.space_to_depth(x, 2), tf.nn.depth_to_space(x, 2)]
    found += [tf.space_to_batch(x, [2, 3], [[1, 1], [0, 3]])]
    found += [tf.space_to_batch(x[:, :, 0], [2], [[2, 0]])]
    return [*found, tf.batch_to_space(tf.tile(x, [4, 1, 1, 1]), [2, 2], [[1, 0], [0, 2]])]


@case(x=real(2, 40))
def spectrum(x):
    found, frames = tf.signal.rfft(x, [32]), tf.signal.stft(x, 16, 8)
    plane = tf.signal.rfft2d(tf.reshape(x, [1, 8, 10])[:, :, :8])
    wide = (tf.abs(part) for part in (frames, tf.signal.rfft(x, [64]), plane))
    return [tf.math.real(found), tf.math.imag(found), *wide]


@case(
    boxes=np.sort(RNG.random((12, 2, 2)), 1).reshape(12, 4).astype(np.float32),
    scores=RNG.random(12).astype(np.float32),
)
def suppression(boxes, scores):
    found = tf.image.non_max_suppression_padded(boxes, scores, 6, 0.4, 0.2, True)
    return [*found, *tf.image.non_max_suppression_with_scores(boxes, scores, 6, 0.3)]


@case(free=BATCH, x=real(3, 4))
def lookups(x):
    buckets = tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 0.5])
    return [buckets, tf.quantization.fake_quant_with_min_max_args(x, -1.0, 2.0)]


@case(x=real(2, 3), n=np.array(4, np.int32))
def flow(x, n):
    def step(i, value, grown):
        value = tf.cond(i % 2 == 0, lambda: value * 2.0, lambda: value - x)
        return i + 1, value, grown + tf.reduce_sum(value)

    start = (tf.constant(0), x, tf.constant(0.0))
    _, value, grown = tf.while_loop(lambda i, *_: i < n, step, start)
    total = tf.reduce_sum(x)
    chosen = (tf.cond(flag, lambda: tf.sin(x), lambda: x) for flag in (total > 0, total < 0))
    return [value, grown, *chosen]


@case(x=real(2, 5, 3))
def recurrent(x):
    """A layer that is unrolled by a WHILE."""
    kernel, again = weights(3, 4), weights(4, 4)

    def step(i, state):
        return i + 1, tf.tanh(tf.matmul(x[:, i], kernel) + tf.matmul(state, again))

    return [tf.while_loop(lambda i, _: i < 5, step, (tf.constant(0), tf.zeros([2, 4])))[1]]


def convert(one: Case, mode: str) -> bytes:
    """The file, by TensorFlow's converter."""

    def named(**inputs):
        return {f"out{k}": value for k, value in enumerate(one.function(**inputs))}

    specs = {}
    for name, array in one.inputs.items():
        shape = [None if k in one.free else size for k, size in enumerate(array.shape)]
        specs[name] = tf.TensorSpec(shape, array.dtype, name=name)
    function = tf.function(named).get_concrete_function(**specs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], named)
    if mode != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if mode == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    if mode in ("int8", "int16"):
        converter.representative_dataset = lambda: _samples(one, function)
        kinds = tf.lite.OpsSet
        wide = kinds.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        chosen = kinds.TFLITE_BUILTINS_INT8 if mode == "int8" else wide
        converter.target_spec.supported_ops = [chosen]
        kind = tf.int8 if mode == "int8" else tf.int16
        converter.inference_input_type = converter.inference_output_type = kind
    return converter.convert()


def _samples(one: Case, function):
    """Inputs in the order of the function's, for the quantizer."""
    names = [tensor.name.split(":")[0] for tensor in function.inputs]
    for scale in (1.0, 0.3, 0.8):
        yield [(one.inputs[name] * scale).astype(one.inputs[name].dtype) for name in names]


if __name__ == "__main__":
    for name, one in CASES.items():
        for mode in one.modes:
            path = Path(sys.argv[1]) / f"{name}-{mode}"
            path.with_suffix(".tflite").write_bytes(convert(one, mode))
            np.savez(path.with_suffix(".npz"), **one.inputs)
