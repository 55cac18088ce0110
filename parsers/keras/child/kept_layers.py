"""Keras' layers as operators that a graph keeps, for models that are to be trained on.

BatchNormalization computes by itself with a product and a sum, which TensorFlow folds into the
layer before; Dropout is nothing where nothing trains. Operators are called as their layers are:
Keras 3 opens a layer's scope twice, first to build it, and TensorFlow numbers the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any

_SCOPE = "_open_name_scope"


@contextmanager
def kept(layers: Sequence[Any]) -> Iterator[None]:
    """Has layers of a model call such operators while it is traced."""
    own: list[tuple[Any, str, Any]] = []
    for layer in layers:
        for name, make in (("call", _CALLS.get(type(layer).__name__)), (_SCOPE, _named)):
            if make is not None and hasattr(layer, name):
                own.append((layer, name, getattr(layer, name)))
                setattr(layer, name, make(layer))
    try:
        yield
    finally:
        for layer, name, method in own:
            setattr(layer, name, method)


def _named(layer: Any) -> Callable[[], Any]:
    scope, opened = layer._open_name_scope, count()
    return lambda: scope() if next(opened) % 2 or not layer.built else nullcontext()


def _normalized(layer: Any) -> Callable[..., Any]:
    """FusedBatchNormV3, which takes four axes, the channels last."""
    import tensorflow as tf

    original = layer.call

    def call(inputs: Any, training: Any = None, mask: Any = None) -> Any:
        rank, axis = len(inputs.shape), layer.axis
        axis = axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis
        last = isinstance(axis, int) and axis % rank == rank - 1
        size = inputs.shape[-1]
        if not last or rank > 4 or size is None or inputs.dtype != tf.float32 or training:
            return original(inputs, training=training)
        wide = inputs
        for _ in range(4 - rank):
            wide = tf.expand_dims(wide, 1)
        found = tf.raw_ops.FusedBatchNormV3(
            x=wide,
            scale=tf.ones(size) if layer.gamma is None else tf.convert_to_tensor(layer.gamma),
            offset=tf.zeros(size) if layer.beta is None else tf.convert_to_tensor(layer.beta),
            mean=tf.convert_to_tensor(layer.moving_mean),
            variance=tf.convert_to_tensor(layer.moving_variance),
            epsilon=layer.epsilon,
            exponential_avg_factor=1 - layer.momentum,
            is_training=False,
        ).y
        return tf.squeeze(found, list(range(1, 5 - rank))) if rank < 4 else found

    return call


def _dropped(layer: Any) -> Callable[..., Any]:
    import tensorflow as tf

    from ...tensorflow.child.kept_layers import DROPOUT

    original = layer.call

    def call(inputs: Any, training: Any = None) -> Any:
        if training or getattr(layer, "noise_shape", None) is not None or not layer.rate:
            return original(inputs, training=training)
        return tf.raw_ops.PreventGradient(input=inputs, message=f"{DROPOUT}{layer.rate}")

    return call


_CALLS = {"BatchNormalization": _normalized, "Dropout": _dropped}
