"""A Keras model in a process of its own: the worker's methods for ``model.py`` and its archive.

Keras computes by TensorFlow, PyTorch or JAX, as KERAS_BACKEND says, which is set before it is
imported.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...tensorflow.child.arrays import as_array, read_feeds, write_arrays
from ...worker.backend import FrameworkBackend
from ...worker.errors import from_user_code
from ...worker.packages import installed, require
from ...worker.timing import measure


class KerasCodeBackend(FrameworkBackend):
    """One model at a time."""

    PACKAGES = ("keras", "tensorflow", "tensorflow-cpu", "torch", "jax", "numpy")
    METHODS = ("hello", "warm", "load", "run", "time")

    def warm(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Import Keras, and what it computes by. Raises dependency."""
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        self._channel.progress("importing Keras")
        require("h5py", "h5py", "to load the weights")
        require("keras", "keras", "to run the model")
        return {}

    def load(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Load the archive `file`, whose classes `code` has. Returns {backend, version}."""
        self.warm({})
        import keras

        try:
            spec = importlib.util.spec_from_file_location("model", params["code"])
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules["model"] = module
            spec.loader.exec_module(module)
            self._model = module.load(params["file"])
        except Exception as error:  # Keras raises whatever its layers raise
            raise from_user_code(error, f"loading {Path(params['file']).name}") from error
        self._inputs, self._outputs = params["inputs"], params["outputs"]
        self._call = _compiled(self._model)
        backend = keras.backend.backend()
        package = {"tensorflow": "tensorflow-cpu"}.get(backend, backend)
        return {
            "backend": backend,
            "version": keras.__version__,
            "by": installed(backend) or installed(package),
        }

    def run(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model on .npz `feeds` and write .npz `out`."""
        given = self._given(params["feeds"])
        try:
            arrays = self._answers(self._call(given))
        except Exception as error:
            raise from_user_code(error, "running the model") from error
        write_arrays(params["out"], dict(zip(self._outputs, arrays)))
        return {}

    def _given(self, feeds: str) -> Any:
        """Feeds as the model takes them: a tensor, or a dict of them."""
        import keras

        found = read_feeds(feeds)
        takes = self._model.input
        if isinstance(takes, dict):
            return {
                name: keras.ops.convert_to_tensor(found[name], dtype=takes[name].dtype)
                for name in self._inputs
            }
        (name,) = self._inputs
        return keras.ops.convert_to_tensor(found[name], dtype=takes.dtype)

    def _answers(self, results: Any) -> list[Any]:
        import keras

        named = results if isinstance(results, dict) else {self._outputs[0]: results}
        return [as_array(keras.ops.convert_to_numpy(named[name])) for name in self._outputs]

    def time(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Latency of the compiled model: {"ns": [each run], "total_ns", "threads"}."""
        given = self._given(params["feeds"])

        def once() -> None:
            self._answers(self._call(given))

        once()
        once()
        runs, concurrency = int(params["runs"]), int(params.get("concurrency") or 1)
        return {**measure(once, max(runs, 1), concurrency), "threads": params.get("threads")}


def _compiled(model: Any) -> Callable[[Any], Any]:
    """The model for inference, compiled as its backend does that."""
    import keras

    def inferred(given: Any) -> Any:
        return model(given, training=False)

    made: Callable[[Any], Any] = inferred
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        made = tf.function(inferred, autograph=False)
    elif backend == "jax":
        import jax

        trained = [variable.value for variable in model.trainable_variables]
        others = [variable.value for variable in model.non_trainable_variables]
        made = jax.jit(lambda x: model.stateless_call(trained, others, x, training=False)[0])
    else:
        import torch

        made = torch.no_grad()(inferred)
    return made
