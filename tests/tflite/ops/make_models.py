"""Writes small .tflite files made by TensorFlow's converter, with inputs: one process for all.

Run as ``python make_models.py FOLDER``; for each case FOLDER gets NAME.tflite and NAME.npz.
"""

from __future__ import annotations

import os
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
    """A function of named arrays to a dict of named results.

    ``free`` are axes of every input whose size the file leaves open; ``modes`` what is made of
    it: ``float``, ``fp16``, ``dynamic``, ``int8``, ``int16``.
    """

    function: Callable
    inputs: dict[str, np.ndarray]
    free: tuple[int, ...]
    modes: tuple[str, ...]


CASES: dict[str, Case] = {}


def case(free: tuple[int, ...] = (), modes: tuple[str, ...] = ("float",), **inputs):
    def register(function):
        CASES[function.__name__] = Case(function, inputs, free, modes)
        return function

    return register


def real(*shape, low=None) -> np.ndarray:
    values = RNG.standard_normal(shape).astype(np.float32)
    return values if low is None else np.abs(values) + np.float32(low)


def whole(*shape, low=-9, high=10, dtype=np.int32) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def weights(*shape) -> tf.Tensor:
    return tf.constant(real(*shape) / np.sqrt(np.prod(shape[:-1])).astype(np.float32))


def each(names: str, *inputs) -> dict:
    """TensorFlow's functions of these names, each of these inputs."""
    return {name: attrgetter(name)(tf)(*inputs) for name in names.split()}


INTEGERS = ("float", "int8")
QUANTIZED = ("float", "fp16", "int8", "int16")


# -- element by element ------------------------------------------------------------


@case(free=(0,), x=real(3, 7), y=real(3, 7, low=0.1))
def unary(x, y):
    half = tf.concat([x[:, :3], [[0.5, 1.5, -2.5]] + 0 * x[:, :3]], 1)
    found = each("abs negative exp square sin cos floor math.ceil sign zeros_like", x)
    return found | each("math.log sqrt math.rsqrt", y) | {"round": tf.round(half)}


@case(free=(0,), x=real(3, 4, 5), y=real(3, 4, 5, low=0.1))
def binary(x, y):
    row = tf.constant([0.5, -2.0, 3.0, 1.0, -1.0])
    found = each("maximum math.squared_difference", x, y) | each("minimum math.floordiv", x, row)
    return found | {
        "add": tf.nn.relu(x + y),
        "sub": tf.nn.relu6(x - row),
        "mul": row * x,
        "div": x / row,
        "pow": tf.pow(y, x),
        "floor_mod": tf.math.floormod(x * 4, row),
        "add_n": tf.add_n([x, y, y]),
        "atan2": tf.atan2(x, y - 1),
    }


@case(free=(0,), x=whole(3, 8), y=whole(3, 8, low=1, high=5))
def integers(x, y):
    signed = tf.where(x > 0, y, -y)
    found = each("add subtract multiply maximum bitwise.bitwise_xor equal", x, y)
    found |= each("truncatediv math.floordiv math.floormod", x, signed)
    found |= each("square abs negative sign", x) | each("reduce_sum reduce_max", x, 1)
    return found | {
        "long": tf.cast(x, tf.int64) * 3,
        "prod": tf.reduce_prod(y, 1),
        "shift": tf.bitwise.right_shift(x, y),
        "small": tf.cast(x, tf.int8),
        "float": tf.cast(x, tf.float32) / 2,
        "back": tf.cast(tf.cast(x, tf.float32) / 2, tf.int32),
        "flag": tf.cast(x, tf.bool),
    }


@case(free=(0,), x=real(3, 6), y=real(3, 6), flags=RNG.integers(0, 2, (3, 6)).astype(bool))
def logic(x, y, flags):
    found = each("equal not_equal", x, tf.abs(x)) | each("less less_equal", x, y)
    found |= each("greater greater_equal", x, y) | each("logical_not", flags)
    return (
        found
        | each("logical_and logical_or equal", flags, x > 0)
        | {
            "equal_numbers": found["equal"],
            "select": tf.where(flags, x, y),
            "select_row": tf.where(flags[:1], x, 0.0),
            "select_v1": tf.compat.v1.where(flags[:, 0], x, y),
            "places": tf.where(flags),
            "any": tf.reduce_any(flags, 1),
            "all": tf.reduce_all(flags, [0, 1], keepdims=True),
        }
    )


# -- networks ----------------------------------------------------------------------


@case(free=(0,), modes=QUANTIZED, x=real(2, 9, 10, 6))
def convolution(x):
    def conv(*shape, activation=tf.identity, **options):
        bias = weights(shape[-1])
        return activation(tf.nn.bias_add(tf.nn.conv2d(x, weights(*shape), **options), bias))

    def depthwise(times, *how, **options):
        return tf.nn.depthwise_conv2d(x, weights(3, 3, 6, times), *how, **options)

    return {
        "same": conv(3, 3, 6, 4, strides=1, padding="SAME"),
        "valid": conv(3, 2, 6, 4, strides=1, padding="VALID", activation=tf.nn.relu),
        "strided": conv(3, 3, 6, 5, strides=2, padding="SAME", activation=tf.nn.relu6),
        "uneven": conv(2, 5, 6, 3, strides=[1, 3, 2, 1], padding="SAME", activation=tf.tanh),
        "dilated": conv(3, 3, 6, 4, strides=1, padding="SAME", dilations=2),
        "grouped": conv(3, 3, 2, 9, strides=1, padding="SAME"),
        "no_bias": tf.nn.conv2d(x, weights(1, 1, 6, 8), 1, "VALID"),
        "depthwise": depthwise(1, [1, 2, 2, 1], "SAME"),
        "multiplied": depthwise(2, [1, 1, 1, 1], "VALID"),
        "depthwise_dilated": depthwise(1, [1, 1, 1, 1], "SAME", dilations=[2, 2]),
    }


@case(free=(0, 1, 2), x=real(2, 9, 10, 3))
def free_convolution(x):
    filters = weights(3, 3, 3, 4)
    larger = tf.concat([tf.shape(x)[:1], tf.shape(x)[1:3] * 2, [4]], 0)
    return {
        "same": tf.nn.conv2d(x, filters, 1, "SAME"),
        "strided": tf.nn.conv2d(x, filters, 2, "SAME"),
        "valid": tf.nn.conv2d(x, filters, 2, "VALID"),
        "dilated": tf.nn.conv2d(x, filters, 1, "SAME", dilations=3),
        "average": tf.nn.avg_pool2d(x, 3, 2, "SAME"),
        "max": tf.nn.max_pool2d(x, 2, 2, "SAME"),
        "up": tf.nn.conv2d_transpose(x, weights(3, 3, 4, 3), larger, 2),
        "resized": tf.image.resize(x, tf.shape(x)[1:3] * 2),
        "spread": tf.space_to_batch(x, [2, 2], [[0, 1], [0, 0]]),
    }


@case(free=(0,), modes=("float", "fp16", "int8"), x=real(2, 5, 6, 3))
def transposed(x):
    def up(k, stride, height, width, padding):
        shape = tf.stack([tf.shape(x)[0], height, width, 4])
        return tf.nn.conv2d_transpose(x, weights(k, k, 4, 3), shape, stride, padding)

    return {
        "same": up(3, 2, 10, 12, "SAME"),
        "smaller": up(4, 2, 9, 11, "SAME"),
        "valid": up(3, 2, 11, 13, "VALID"),
        "longer": up(2, 3, 15, 18, "SAME"),
        "longer_valid": up(3, 2, 12, 14, "VALID"),
        "plain": up(3, 1, 5, 6, "SAME") + weights(4),
    }


@case(x=real(1, 4, 5, 6, 2))
def volumes(x):
    return {
        "same": tf.nn.conv3d(x, weights(3, 3, 3, 2, 4), [1, 1, 1, 1, 1], "SAME"),
        "strided": tf.nn.conv3d(x, weights(2, 3, 3, 2, 4), [1, 2, 1, 2, 1], "SAME"),
        "valid": tf.nn.relu(tf.nn.conv3d(x, weights(2, 2, 2, 2, 3), [1] * 5, "VALID") + 0.1),
        "up": tf.nn.conv3d_transpose(x, weights(3, 3, 3, 4, 2), [1, 8, 10, 12, 4], [1, 2, 2, 2, 1]),
    }


@case(free=(0,), modes=("float", "fp16", "dynamic", "int8"), x=real(2, 6, 6, 16))
def hybrid(x):
    """Weights large enough for the converter to store them in 8 bits."""
    value = tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 16, 128), 1, "SAME") + weights(128))
    value = tf.nn.depthwise_conv2d(value, weights(3, 3, 128, 1), [1, 2, 2, 1], "SAME")
    dense = tf.matmul(tf.reshape(value, [-1, 9 * 128]), weights(9 * 128, 32))
    return {"image": value, "dense": dense + weights(32)}


@case(free=(0,), modes=("float", "int8", "int16"), x=real(2, 7, 8, 3))
def pooling(x):
    return {
        "average": tf.nn.avg_pool2d(x, 3, 2, "SAME"),
        "average_valid": tf.nn.avg_pool2d(x, [2, 3], 1, "VALID"),
        "max": tf.nn.max_pool2d(x, 3, 2, "SAME"),
        "max_valid": tf.nn.relu(tf.nn.max_pool2d(x, 2, 2, "VALID")),
        "mean": tf.reduce_mean(x, [1, 2]),
    }


@case(free=(0,), modes=QUANTIZED, x=real(3, 4, 6), y=real(3, 6, 5))
def products(x, y):
    flat = tf.reshape(x, [-1, 24])
    return {
        "dense": tf.nn.relu(tf.matmul(flat, weights(24, 5)) + weights(5)),
        "no_bias": tf.matmul(flat, weights(24, 7)),
        "kept": tf.tensordot(x, weights(6, 3), [[2], [0]]) + weights(3),
        "batch": tf.matmul(x, y),
        "transposed": tf.matmul(x, tf.transpose(y, [0, 2, 1]), transpose_b=True),
        "first": tf.matmul(tf.transpose(x, [0, 2, 1]), y, transpose_a=True),
    }


@case(free=(0,), modes=("float", "int16"), x=real(3, 4, 6) * 3)
def smooth(x):
    return each("tanh sigmoid", x) | {"softmax": tf.nn.softmax(2 * x)}


@case(free=(0,), modes=INTEGERS, x=real(3, 4, 6) * 3)
def activations(x):
    swish = x * tf.nn.relu6(x + 3) * np.float32(1 / 6)
    found = each("nn.relu nn.relu6 tanh sigmoid nn.softmax", x)
    return found | {"leaky": tf.nn.leaky_relu(x, 0.3), "hard_swish": swish}


@case(x=real(3, 4, 6) * 2, image=real(3, 4, 4, 7))
def float_activations(x, image):
    return {
        "elu": tf.nn.elu(x),
        "prelu": tf.nn.relu(x) + tf.constant([0.1, 0.2, 0.3, -0.1, 0.5, 0.9]) * -tf.nn.relu(-x),
        "relu1": tf.minimum(tf.maximum(x, -1.0), 1.0),
        "log_softmax": tf.nn.log_softmax(x),
        "l2": tf.math.l2_normalize(x, -1),
        "lrn": tf.nn.local_response_normalization(image, 2, 1.5, 0.3, 0.6),
    }


# -- moving elements ---------------------------------------------------------------


@case(free=(0,), modes=("float", "int8", "int16"), x=real(3, 4, 6))
def shapes(x):
    first, second, third = tf.split(x, 3, 2)
    parts = tf.split(x, [1, 3, 2], 2)
    return {
        "flat": tf.reshape(x, [-1, 24]),
        "wide": tf.reshape(x, tf.stack([tf.shape(x)[0], 2, -1])),
        "expanded": tf.expand_dims(x, 1),
        "squeezed": tf.squeeze(tf.expand_dims(x, 1), 1),
        "transposed": tf.transpose(x, [2, 0, 1]),
        "joined": tf.concat([first, third, second], 1),
        "packed": tf.stack([x, x[:, ::-1]], 1),
        "unpacked": tf.unstack(x, axis=1)[2],
        "parts": parts[1],
        "tiled": tf.tile(x, [1, 2, 3]),
    }


@case(free=(0,), x=real(3, 4, 6), k=whole(3, 4, low=-1, high=5))
def more_shapes(x, k):
    return {
        "shape": tf.shape(x),
        "rank": tf.rank(x),
        "broadcast": tf.broadcast_to(x[:, None], tf.stack([tf.shape(x)[0], 2, 4, 6])),
        "args": tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(k[:1, :, None])),
        "filled": tf.fill(tf.shape(x)[:2], 2.5),
        "range": tf.range(tf.shape(x)[0] * 2),
        "real_range": tf.range(0.5, 3.0, 0.5) + tf.reduce_sum(x),
        "one_hot": tf.one_hot(k, 5, 2.0, -1.0),
        "one_hot_axis": tf.one_hot(k, 3, axis=1),
        "diagonal": tf.linalg.diag(x),
        "set_diagonal": tf.linalg.set_diag(x[:, :, :4], x[:, 0, :4]),
        "kinds": tf.unique(tf.reshape(k, [-1]))[0],
        "kind": tf.unique(tf.reshape(k, [-1]))[1],
        "long_shape": tf.shape(x, out_type=tf.int64),
    }


@case(free=(0,), modes=INTEGERS, x=real(3, 5, 6, 4))
def slices(x):
    return {
        "begin": x[:, 1:, 2:4],
        "stride": x[:, ::2, 1::3],
        "backwards": x[:, ::-1, 4:1:-2],
        "negative": x[:, -3:-1],
        "shrunk": x[:, 2, :, -1],
        "first": x[0],
        "ellipsis": x[..., 1],
        "ellipsis_middle": x[:, 1, ..., :2],
        "new": x[:, tf.newaxis, 1, ..., 1],
        "new_last": x[:, 1, ..., tf.newaxis],
        "slice": tf.slice(x, [0, 1, 0, 2], [-1, 3, 6, -1]),
        "reversed": tf.reverse(x, [1, 2]),
        "padded": tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]]),
        "reflected": tf.pad(x, [[0, 0], [2, 1], [1, 0], [0, 0]], "REFLECT"),
        "mirrored": tf.pad(x, [[0, 0], [2, 1], [1, 0], [0, 0]], "SYMMETRIC"),
    }


@case(free=(0,), x=real(3, 5, 6), n=np.array([2, 1, 4], np.int32))
def computed_slices(x, n):
    at = n[1]
    return {
        "slice": tf.slice(x, tf.stack([0, at, 0]), tf.stack([-1, 2, at])),
        "to": x[:, : n[0]],
        "one": x[:, at],
        "last": x[:, at - 2],
        "padded": tf.pad(x, tf.stack([[0, 0], [at, 1], [0, 0]]), constant_values=2.0),
        "filled": tf.pad(x, [[0, 0], [1, 1], [0, 0]], constant_values=-1.5),
        "turned": tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0),
        "turned_other": tf.reverse_sequence(x, n, seq_axis=2, batch_axis=0),
    }


@case(free=(0,), x=real(3, 5, 6), k=whole(3, 2, low=0, high=5))
def gathering(x, k):
    return {
        "rows": tf.gather(x, k[0], axis=1),
        "table": tf.gather(tf.constant(real(5, 3)), k),
        "batched": tf.gather(x, k, axis=1, batch_dims=1),
        "batched_later": tf.gather(x, k, axis=2, batch_dims=1),
        "nd": tf.gather_nd(x, tf.constant([[0, 1], [2, 4]])),
        "scattered": tf.scatter_nd(tf.constant([[1], [3], [1]]), x[:3, 0], [5, 6]),
        "scattered_ints": tf.scatter_nd(tf.constant([[1], [3], [1]]), k[:3], [5, 2]),
        "updated": tf.tensor_scatter_nd_update(tf.zeros([4, 6]), [[1], [2], [0]], x[:3, 1]),
        "segments": tf.math.segment_sum(x[:3, 0], tf.constant([0, 0, 1])),
        **{
            kind: getattr(tf.math, f"unsorted_segment_{kind}")(x[:3, 0], [1, 0, 1], count)
            for kind, count in (("max", 2), ("min", 2), ("sum", 3), ("prod", 2))
        },
    }


@case(free=(0,), modes=INTEGERS, x=real(3, 4, 5, 2))
def reductions(x):
    return {
        "mean": tf.reduce_mean(x, [1, 2], keepdims=True),
        "last": tf.reduce_mean(x, -1),
        "sum": tf.reduce_sum(x, [1, 3]),
        "max": tf.reduce_max(x, 2),
        "min": tf.reduce_min(x, [-1, 1], keepdims=True),
        "arg_max": tf.argmax(x, 2, output_type=tf.int32),
        "arg_min": tf.argmin(x, -2),
    }


@case(free=(0,), x=real(3, 4, 5), k=whole(3, 6))
def more_reductions(x, k):
    values, indices = tf.math.top_k(x, 3)
    return {
        "product": tf.reduce_prod(x, [0, 2]),
        "whole": tf.reduce_sum(x),
        "std": tf.math.reduce_std(x, 1),
        "top": values,
        "top_index": indices,
        "top_int": tf.math.top_k(k, 2)[0],
        "cumsum": tf.cumsum(x, 1),
        "cumsum_back": tf.cumsum(x, 2, exclusive=True, reverse=True),
        "cumsum_int": tf.cumsum(k, 1),
        "mean_int": tf.reduce_max(k, 0),
    }


@case(free=(0,), modes=INTEGERS, x=real(2, 5, 7, 3))
def resizing(x):
    v1 = tf.compat.v1.image
    nearest = v1.resize_nearest_neighbor
    return {
        "bilinear": tf.image.resize(x, [10, 9]),
        "smaller": tf.image.resize(x, [3, 4]),
        "corners": v1.resize_bilinear(x, [9, 13], align_corners=True),
        "asymmetric": v1.resize_bilinear(x, [10, 11]),
        "nearest": tf.image.resize(x, [10, 14], "nearest"),
        "nearest_odd": tf.image.resize(x, [7, 9], "nearest"),
        "nearest_corners": nearest(x, [9, 11], align_corners=True),
        "nearest_plain": nearest(x, [15, 10]),
        "nearest_smaller": nearest(x, [3, 5]),
    }


@case(x=real(1, 14, 4, 2))
def nearest_by_rounding(x):
    """Sizes for which ONNX Runtime's arithmetic would pick other elements than TFLite's."""
    v1 = tf.compat.v1.image
    return {
        "plain": v1.resize_nearest_neighbor(x, [4, 8]),
        "corners": v1.resize_nearest_neighbor(x, [23, 75], align_corners=True),
        "centers": tf.image.resize(x, [28, 41], "nearest"),
    }


@case(free=(0,), modes=INTEGERS, x=real(2, 4, 6, 8))
def blocks(x):
    return {
        "depth": tf.nn.space_to_depth(x, 2),
        "space": tf.nn.depth_to_space(x, 2),
        "batch": tf.space_to_batch(x, [2, 3], [[1, 1], [0, 3]]),
        "row": tf.space_to_batch(x[:, :, 0], [2], [[2, 0]]),
        "back": tf.batch_to_space(tf.tile(x, [4, 1, 1, 1]), [2, 2], [[1, 0], [0, 2]]),
    }


@case(x=real(2, 40))
def spectrum(x):
    found = tf.signal.rfft(x, [32])
    frames = tf.signal.stft(x, 16, 8)
    return {
        "real": tf.math.real(found),
        "imag": tf.math.imag(found),
        "abs": tf.abs(frames),
        "longer": tf.abs(tf.signal.rfft(x, [64])),
        "plane": tf.abs(tf.signal.rfft2d(tf.reshape(x, [1, 8, 10])[:, :, :8])),
    }


@case(
    boxes=np.sort(RNG.random((12, 2, 2)), 1).reshape(12, 4).astype(np.float32),
    scores=RNG.random(12).astype(np.float32),
)
def suppression(boxes, scores):
    chosen, count = tf.image.non_max_suppression_padded(boxes, scores, 6, 0.4, 0.2, True)
    indices, kept = tf.image.non_max_suppression_with_scores(boxes, scores, 6, 0.3)
    return {"chosen": chosen, "count": count, "indices": indices, "kept": kept}


@case(free=(0,), x=real(3, 4))
def lookups(x):
    return {
        "buckets": tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 0.5]),
        "fake": tf.quantization.fake_quant_with_min_max_args(x, -1.0, 2.0),
    }


# -- control flow ------------------------------------------------------------------


@case(x=real(2, 3), n=np.array(4, np.int32))
def flow(x, n):
    def step(i, value, grown):
        value = tf.cond(i % 2 == 0, lambda: value * 2.0, lambda: value - x)
        return i + 1, value, grown + tf.reduce_sum(value)

    _, value, grown = tf.while_loop(
        lambda i, *_: i < n, step, (tf.constant(0), x, tf.constant(0.0))
    )
    chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: x)
    other = tf.cond(tf.reduce_sum(x) < 0, lambda: tf.sin(x), lambda: x)
    return {"value": value, "grown": grown, "chosen": chosen, "other": other}


@case(x=real(2, 5, 3))
def recurrent(x):
    """A layer that is unrolled by a WHILE."""
    kernel, again = weights(3, 4), weights(4, 4)

    def step(i, state):
        return i + 1, tf.tanh(tf.matmul(x[:, i], kernel) + tf.matmul(state, again))

    _, state = tf.while_loop(lambda i, _: i < 5, step, (tf.constant(0), tf.zeros([2, 4])))
    return {"state": state}


# -- converting --------------------------------------------------------------------


def convert(one: Case, mode: str) -> bytes:
    """The file, by TensorFlow's converter."""
    specs = {}
    for name, array in one.inputs.items():
        shape = [None if k in one.free else size for k, size in enumerate(array.shape)]
        specs[name] = tf.TensorSpec(shape, array.dtype, name=name)
    function = tf.function(one.function).get_concrete_function(**specs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], one.function)
    if mode != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if mode == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    if mode in ("int8", "int16"):
        converter.representative_dataset = lambda: _samples(one, function)
        kinds = tf.lite.OpsSet
        wide = kinds.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        converter.target_spec.supported_ops = [
            kinds.TFLITE_BUILTINS_INT8 if mode == "int8" else wide
        ]
        kind = tf.int8 if mode == "int8" else tf.int16
        converter.inference_input_type = converter.inference_output_type = kind
    return converter.convert()


def _samples(one: Case, function):
    """Inputs in the order of the function's, for the quantizer."""
    names = [tensor.name.split(":")[0] for tensor in function.inputs]
    for scale in (1.0, 0.3, 0.8):
        yield [(one.inputs[name] * scale).astype(one.inputs[name].dtype) for name in names]


def main(folder: Path, wanted: list[str]) -> None:
    for name, one in CASES.items():
        for mode in one.modes:
            if wanted and f"{name}-{mode}" not in wanted and name not in wanted:
                continue
            (folder / f"{name}-{mode}.tflite").write_bytes(convert(one, mode))
            np.savez(folder / f"{name}-{mode}.npz", **one.inputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
