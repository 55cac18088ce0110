"""Code on Keras becomes a SavedModel: imported, traced and saved by TensorFlow.

Keras runs on TensorFlow here, whatever its own settings say.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...worker.backend import FrameworkBackend
from ...worker.errors import WorkerError
from ...worker.packages import require

_NODE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""Names that TensorFlow's graphs take (``_VALID_OP_NAME_REGEX``); an input's may have no other."""


class SavingBackend(FrameworkBackend):
    """Writes one model after the other."""

    PACKAGES = ("tensorflow", "tensorflow-cpu", "keras", "numpy")
    METHODS = ("hello", "warm", "write")

    def warm(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Import TensorFlow and Keras. Raises dependency."""
        start = time.perf_counter()
        os.environ["KERAS_BACKEND"] = "tensorflow"
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        for name in ("tensorflow", "keras"):
            require(name, name, "to write a SavedModel")
        return {"seconds": time.perf_counter() - start}

    def write(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Save `archive`, whose classes `code` has, as `out`, a folder.

        `inputs` are {name, dtype, shape}, in a shape None for a free size; `outputs` are names, and
        `signature` is what it is asked by. Raises unsupported where it can't be traced.
        """
        self.warm({})
        import tensorflow as tf

        outputs = params["outputs"]
        inputs = {
            item["name"] if _NODE.fullmatch(item["name"]) else f"modelyard_input_{at}": item
            for at, item in enumerate(params["inputs"])
        }
        specs = [tf.TensorSpec(i["shape"], i["dtype"], name) for name, i in inputs.items()]

        def serve(*tensors: Any) -> dict[str, Any]:
            named = dict(zip((item["name"] for item in params["inputs"]), tensors))
            given = named if isinstance(model.input, dict) else tensors[0]
            results = model(given, training=False)
            results = results if isinstance(results, dict) else {outputs[0]: results}
            return {name: tf.identity(results[name]) for name in outputs}

        try:
            model = _loaded(params["code"], params["archive"])
            function = tf.function(serve, input_signature=specs, autograph=False)
            traced = function.get_concrete_function()
        # Whatever Keras and TensorFlow's rules of shapes raise.
        except Exception as error:
            what = "TensorFlow can't trace the model"
            raise WorkerError("unsupported", what, [_reason(error)]) from error
        holder, out = tf.Module(), Path(params["out"])
        holder.model_variables = [variable.value for variable in model.variables]
        tf.saved_model.save(holder, str(out), {params["signature"]: traced})
        (out / "fingerprint.pb").unlink()  # it has a number of chance in it
        other = {name: item["name"] for name, item in inputs.items() if name != item["name"]}
        if other:
            _rename(out / "saved_model.pb", params["signature"], other)
        return {}


def _reason(error: Exception) -> str:
    """What an error says: Keras frames each with where it was called."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).rpartition("Error encountered:")[2]
    lines = [line.strip() for line in plain.splitlines()]
    told = (line for line in lines if line and not line.startswith("Exception encountered"))
    return next(told, "") or type(error).__name__


def _loaded(code: str, archive: str) -> Any:
    """The model of an archive, with its weights."""
    spec = importlib.util.spec_from_file_location("model", code)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["model"] = module
    spec.loader.exec_module(module)
    return module.load(archive)


def _rename(path: Path, signature: str, names: Mapping[str, str]) -> None:
    """Gives inputs of a signature names that no graph's node can have."""
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    inputs = model.meta_graphs[0].signature_def[signature].inputs
    for old, new in names.items():
        inputs[new].CopyFrom(inputs[old])
        del inputs[old]
    path.write_bytes(model.SerializeToString(deterministic=True))
