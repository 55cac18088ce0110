"""Files of TensorFlow's own converter: ``python -m tests.tflite_emitter.tensorflow_files FOLDER``.

They have the operators that the emitter can make, in the types that LiteRT takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

Function = Callable[..., Any]


def pieces() -> dict[str, tuple[Function, list[Any]]]:
    """Functions with the specs of their inputs."""
    image = tf.TensorSpec([1, 8, 8, 4])
    video = tf.TensorSpec([1, 4, 4, 4, 2])
    flat = tf.TensorSpec([2, 6])
    found: dict[str, tuple[Function, list[Any]]] = {
        "layers": (layers, [image]),
        "pictures": (pictures, [image]),
        "real": (real, [flat]),
        "wide": (wide, [video]),
        "bools": (bools, [tf.TensorSpec([2, 6], tf.bool)]),
    }
    for dtype in (tf.float32, tf.int32, tf.int64):
        found[f"arithmetic {dtype.name}"] = (arithmetic, [tf.TensorSpec([2, 6], dtype)])
        found[f"moves {dtype.name}"] = (moves, [tf.TensorSpec([2, 6], dtype)])
    for source, target in ((tf.uint32, tf.int32), (tf.int8, tf.float32), (tf.uint16, tf.int32)):
        spec = tf.TensorSpec([2, 6], source)
        found[f"cast {source.name}"] = (lambda x, to=target: tf.cast(x, to), [spec])
    return found


def layers(x: Any) -> list[Any]:
    """Convolutions, dense layers and pools."""
    weights = tf.constant(np.linspace(-1, 1, 9 * 4 * 4).reshape(3, 3, 4, 4), tf.float32)
    y = tf.nn.relu(tf.nn.conv2d(x, weights, 1, "SAME"))
    y = tf.nn.depthwise_conv2d(y, weights[..., :1], [1, 1, 1, 1], "SAME", dilations=[2, 2])
    up = tf.nn.conv2d_transpose(y, weights, [1, 16, 16, 4], 2, "SAME")
    y = tf.nn.max_pool2d(y, 2, 2, "SAME") + tf.nn.avg_pool2d(x, 2, 2, "SAME")
    dense = tf.matmul(tf.reshape(y, [1, 64]), tf.ones([64, 8])) + tf.range(8.0)
    grouped = tf.nn.conv2d(x, weights[:, :, :2], 1, "SAME")
    return [up, tf.nn.softmax(dense), tf.reduce_mean(y, [1, 2]), grouped]


def pictures(x: Any) -> list[Any]:
    """What is done to images."""
    size = [16, 16]
    return [
        tf.image.resize(x, size),
        tf.image.resize(x, size, "nearest"),
        tf.raw_ops.ResizeBilinear(images=x, size=size, align_corners=True),
        tf.raw_ops.ResizeNearestNeighbor(images=x, size=size),
        tf.nn.depth_to_space(x, 2),
        tf.nn.space_to_depth(x, 2),
        tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]),
        tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=1.0),
        tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT"),
        tf.nn.local_response_normalization(x),
        tf.math.l2_normalize(x, -1),
    ]


def real(x: Any) -> list[Any]:
    """Operators of real numbers."""
    unary = (
        tf.exp, tf.math.log, tf.sqrt, tf.math.rsqrt, tf.sin, tf.cos, tf.floor, tf.math.ceil,
        tf.round, tf.tanh, tf.sigmoid, tf.nn.elu, tf.nn.relu6, tf.nn.leaky_relu, tf.nn.gelu,
        tf.nn.log_softmax, tf.square, tf.sign, tf.nn.relu,
    )  # fmt: skip
    more = [function(x) for function in unary]
    more += [tf.cumsum(x, 1), tf.math.floordiv(x, x + 1), tf.pow(x, x), tf.atan2(x, x + 1)]
    more += [tf.math.top_k(x, 2)[0], tf.einsum("ab,cb->ac", x, x), tf.reduce_prod(x, 1)]
    more += [tf.matmul(x[None], x[None], transpose_b=True), tf.math.squared_difference(x, x + 1)]
    return more


def arithmetic(x: Any) -> list[Any]:
    """Operators of numbers of all kinds."""
    y = x + tf.ones([2, 1], x.dtype)
    found = [x + y, x - y, x * y, tf.maximum(x, y), tf.minimum(x, y), -x]
    found += [tf.reduce_sum(x, 1), tf.reduce_max(x, 1), tf.reduce_min(x, 1), tf.math.floormod(x, y)]
    found += [tf.equal(x, y), tf.not_equal(x, y), tf.less(x, y), tf.greater(x, y), x <= y, x >= y]
    if x.dtype != tf.int64:
        found += [tf.abs(x), tf.sign(x), tf.math.floordiv(x, y)]
    return found


def moves(x: Any) -> list[Any]:
    """Operators that only move numbers."""
    found = [
        tf.transpose(x), tf.gather(x, [1, 0, 2], axis=1), tf.gather_nd(x, [[0, 1]]),
        tf.gather(x, [[0], [1]], axis=1, batch_dims=1),
        tf.concat([x, x], 0), tf.stack([x, x]), tf.tile(x, [2, 1]), tf.reverse(x, [1]),
        tf.slice(x, [0, 1], [2, 3]), x[:, 1:3], x[:, tf.newaxis, ::2], tf.expand_dims(x, 0),
        tf.where(x > 1, x, -x), tf.broadcast_to(x[:1], [4, 6]), tf.fill([2, 2], x[0, 0]),
        tf.scatter_nd([[0]], x[:1], [3, 6]), tf.one_hot(tf.constant([1, 2]), 4, dtype=x.dtype),
        tf.where(x > 1), tf.shape(x),
        tf.reverse_sequence(x, tf.constant([2, 3]), 1),
        tf.range(x[0, 0], x[0, 1], x[1, 0]),
    ]  # fmt: skip
    if x.dtype != tf.int64:
        found += [tf.argmax(x, 1), tf.argmin(x, 1), *tf.unstack(x)]
        found += tf.split(x, 2, 1) + tf.split(x, [2, 4], 1)
    return found


def wide(x: Any) -> list[Any]:
    """Five axes and more."""
    perm = [0, 4, 1, 2, 3]
    y = tf.ones([1, 4, 1, 4, 2])
    kernel = tf.ones([2, 2, 2, 2, 3])
    pads = [[0, 0], [1, 1], [1, 1], [0, 0], [0, 0]]
    return [
        tf.transpose(x[None], [0, 5, 1, 2, 3, 4]), tf.nn.conv3d(x, kernel, [1] * 5, "SAME"),
        tf.transpose(x, perm), x + y, x - y, x * y, x / y, tf.maximum(x, y), tf.pad(x, pads),
        tf.slice(x, [0] * 5, [1, 2, 2, 2, 2]), x[:, 1:3, ..., 0],
    ]  # fmt: skip


def bools(x: Any) -> list[Any]:
    """Truth values."""
    found = [tf.logical_and(x, ~x), tf.logical_or(x, ~x), tf.reduce_any(x, 1), tf.reduce_all(x, 1)]
    found += [tf.transpose(x), tf.gather(x, [0], axis=1), tf.reverse(x, [1]), x[:, 1:3]]
    return [*found, tf.where(x), tf.fill([2], x[0, 0]), tf.cast(x, tf.float32)]


def quantized() -> Iterator[tuple[str, bytes]]:
    """The layers in int8, int16 by int8, int8 weights and float16 weights."""
    for name in ("int8", "int16", "dynamic", "half"):
        converter = _converter(layers, [tf.TensorSpec([1, 8, 8, 4])])
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if name in ("int8", "int16"):
            converter.representative_dataset = _samples
            sets = tf.lite.OpsSet
            kinds = {
                "int8": sets.TFLITE_BUILTINS_INT8,
                "int16": sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
            }
            converter.target_spec.supported_ops = [kinds[name], sets.TFLITE_BUILTINS]
        if name == "half":
            converter.target_spec.supported_types = [tf.float16]
        yield name, converter.convert()


def _samples() -> Iterator[list[Any]]:
    for seed in range(4):
        yield [np.random.default_rng(seed).standard_normal((1, 8, 8, 4)).astype(np.float32)]


def _converter(function: Function, specs: list[Any]) -> Any:
    concrete = tf.function(function).get_concrete_function(*specs)
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete])


def main(folder: Path) -> None:
    """Writes them all."""
    for name, (function, specs) in pieces().items():
        (folder / f"{name}.tflite").write_bytes(_converter(function, specs).convert())
    for name, content in quantized():
        (folder / f"{name}.tflite").write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
