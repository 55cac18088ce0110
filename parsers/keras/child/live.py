"""A Keras model that is alive in the caller's process, read where it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...tensorflow.child.backend import TensorFlowBackend
from ...tensorflow.child.model import Opened
from ...worker.errors import WorkerError, from_user_code
from ...worker.packages import require
from ...worker.protocol import Channel
from . import config as keras_config
from . import files as keras_files


class LiveKerasBackend(TensorFlowBackend):
    """The model, on the CPU; `restore` puts back the layers that were patched."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._undo: list[Callable[[], object]] = []

    def _import_framework(self) -> None:
        # The process's environment is the user's, and TensorFlow is there already.
        for name in ("onnx", "onnx_ir", "tf2onnx"):
            require(name, name.replace("_", "-"), "to export the model to ONNX")

    def _opened(self, params: Mapping[str, Any]) -> Opened:
        """The live model; what isn't Keras' own is code that runs already."""
        import keras

        model = params["live"]
        if not getattr(model, "inputs", None):
            model = _with_inputs(keras, model, params.get("inputs") or [])
        for layer in keras_files.layers_of(model):
            if type(layer).__name__ == "TimeDistributed" and "call" not in vars(layer):
                self._undo.append(partial(layer.__dict__.pop, "call", None))
        opened = keras_files.as_opened(keras, model, _layout(model))
        opened.function = _on_cpu(opened.function)
        return opened

    def restore(self) -> None:
        """Put back all that was changed."""
        self._model = self._traced = None
        while self._undo:
            self._undo.pop()()


def _with_inputs(keras: Any, model: Any, specs: Sequence[Mapping[str, Any]]) -> Any:
    """A model of a class that says nothing of its inputs, with those that the user named."""
    if not specs:
        raise WorkerError(
            "usage",
            f"{type(model).__name__} doesn't declare its inputs: give inputs=, as in "
            'inputs=["x:batchx224x224x3"]',
            code="inputs-unknown",
        )
    tensors = [
        keras.Input(
            batch_shape=[None if isinstance(d, str) else d for d in spec["shape"]],
            dtype=spec["dtype"] or "float32",
            name=spec["name"],
        )
        for spec in specs
    ]
    taken = tensors[0] if len(tensors) == 1 else tensors
    try:
        return keras.Model(taken, model(taken, training=False), name=model.name)
    except Exception as error:  # whatever the user's layers raise
        raise from_user_code(error, f"calling {type(model).__name__} on its inputs") from error


def _layout(model: Any) -> str:
    """The layout of images, where the model's configuration tells."""
    with suppress(Exception):  # custom layers need not have a configuration
        return keras_config.layout(keras_config.examine(json.loads(model.to_json())))
    return ""


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    import tensorflow as tf

    def call(*tensors: Any) -> Any:
        with tf.device("/CPU:0"):
            return function(*tensors)

    return call
