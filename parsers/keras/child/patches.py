"""Keras layers that go wrong when a dimension is free, made right."""

from __future__ import annotations

from typing import Any


def apply(layers: Any) -> None:
    """Patch the layers of a loaded model, in place."""
    for layer in layers:
        if type(layer).__name__ == "TimeDistributed":
            _fold_time(layer)


def _fold_time(layer: Any) -> None:
    """Give a TimeDistributed layer of free length its time steps as a part of the batch.

    Keras 3 (3.15 at least) loops over the batch size there instead of the length, so that a graph
    gives as many time steps as there are samples. At inference no layer mixes samples.
    """
    import tensorflow as tf

    original = layer.call

    def call(inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if inputs.shape[1] is not None:
            return original(inputs, training=training, mask=mask)
        options = {}
        if mask is not None and layer.layer._call_has_mask_arg:
            options["mask"] = _folded(mask)
        if layer.layer._call_has_training_arg:
            options["training"] = training
        result = layer.layer.call(_folded(inputs), **options)
        outer = tf.shape(inputs)[:2]
        unfolded = tf.reshape(result, tf.concat([outer, tf.shape(result)[1:]], 0))
        unfolded.set_shape([inputs.shape[0], None, *result.shape[1:]])
        return unfolded

    def _folded(data: Any) -> Any:
        flat = tf.reshape(data, tf.concat([[-1], tf.shape(data)[2:]], 0))
        flat.set_shape([None, *data.shape[2:]])
        return flat

    layer.call = call
