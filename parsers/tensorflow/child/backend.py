"""The worker's methods for TensorFlow; Keras' extend them.

TensorFlow is imported by the first method that needs it, so that `hello` answers at once and a
missing one is an answer and not a crash.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...worker.backend import FrameworkBackend
from ...worker.errors import WorkerError, from_user_code
from ...worker.packages import require
from ...worker.protocol import Channel
from .model import Opened, TensorInfo

_PACKAGES = ("tensorflow", "tensorflow-cpu", "keras", "tf2onnx", "onnx", "numpy")
_EXPORTER = ("onnx", "onnx_ir", "tf2onnx")


class TensorFlowBackend(FrameworkBackend):
    """One model at a time."""

    PACKAGES = _PACKAGES

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._model: Opened | None = None
        self._inputs: list[str] = []
        self._outputs: list[str] = []
        self._traced: Callable[..., Any] | None = None

    def warm(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Import TensorFlow and what exports from it. Raises dependency."""
        start = time.perf_counter()
        self._import_framework()
        return {"seconds": time.perf_counter() - start}

    def _import_framework(self) -> None:
        # What is exported has to be the same on every machine, and where a GPU is named too.
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        self._channel.progress("importing TensorFlow")
        require("tensorflow", "tensorflow", "to load the model")
        for name in _EXPORTER:
            require(name, name.replace("_", "-"), "to export the model to ONNX")

    def load(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Open `file`, which is of `kind`: saved_model, graph or checkpoint; or Keras', by its
        own backend.

        Of the others, `signature`, `inputs`, `outputs`, `constants` and `weights` say what of it is
        meant. Returns {kind, class, parameters, signature, signatures, inputs, outputs,
        own_outputs, tags, layout, pictures, warnings, mode, onednn}; a None in a shape is free, and
        a shape of None unknown. own_outputs are the outputs before any were chosen or renamed.
        """
        self._import_framework()
        self._model = self._traced = None
        gc.collect()
        self._channel.progress("loading the model")
        opened = self._opened(params)
        own = [_described(info) for info in opened.outputs]
        _rename_outputs(opened, params)
        self._model = opened
        self._inputs = [info.name for info in opened.inputs]
        self._outputs = [info.name for info in opened.outputs]
        return {
            "kind": opened.kind,
            "class": opened.kind,
            "parameters": opened.parameters,
            "signature": opened.signature,
            "signatures": opened.signatures,
            "inputs": [_described(info) for info in opened.inputs],
            "outputs": [_described(info) for info in opened.outputs],
            "own_outputs": own,
            "tags": opened.tags,
            "layout": opened.layout,
            "pictures": opened.pictures,
            "warnings": opened.warnings,
            "mode": "graph",
            "onednn": _has_onednn(),
        }

    def _opened(self, params: Mapping[str, Any]) -> Opened:
        return _open(params)

    def _loaded(self) -> Opened:
        if self._model is None:
            raise WorkerError("usage", "no model is loaded", code="usage")
        return self._model

    def export(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Export the model to ONNX; see tf_export.export for the result.

        `inputs` are specs with the final names, in the order of the model's; `outputs` the final
        names of the outputs, or None.
        """
        from . import export as tf_export

        opened = self._loaded()
        specs = [
            tf_export.Spec(str(i["name"]), str(i["dtype"]), tuple(i["shape"]))
            for i in params["inputs"]
        ]
        request = tf_export.Request(
            opened=opened,
            specs=specs,
            outputs=params.get("outputs"),
            opset=int(params.get("opset", 18)),
            out=params["out"],
            progress=self._channel.progress,
            warnings=[],
            keeps_layers=bool(params.get("keeps_layers")),
        )
        result = tf_export.export(request)
        self._inputs = [spec.name for spec in specs]
        self._outputs = [item["name"] for item in result["outputs"]]
        return result

    def run(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model on .npz `feeds` and write .npz `out`.

        Returns {"outputs": [{name, dtype, shape}]}. Raises source or usage.
        """
        from . import arrays as tf_arrays

        call = self._call(params["feeds"])
        arrays = [tf_arrays.as_array(result) for result in _guarded(call)]
        tf_arrays.write_arrays(params["out"], dict(zip(self._outputs, arrays)))
        return {
            "outputs": [
                {"name": n, "dtype": str(a.dtype), "shape": list(a.shape)}
                for n, a in zip(self._outputs, arrays)
            ]
        }

    def _call(self, feeds: str) -> Callable[[], Any]:
        """The model, traced for these feeds' types and shapes, on tensors that are ready."""
        import tensorflow as tf

        from . import arrays as tf_arrays

        opened = self._loaded()
        dtypes = [info.dtype for info in opened.inputs]
        tensors = tf_arrays.as_tensors(self._inputs, dtypes, tf_arrays.read_feeds(feeds))
        if self._traced is None:
            # One trace a shape: what a server would do, too.
            self._traced = tf.function(opened.function, autograph=False, reduce_retracing=False)
        traced = self._traced
        return lambda: traced(*tensors)

    def time(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Latency of the traced model: {"ns": [each run], "total_ns", "threads"}.

        TensorFlow's threads are a process's: TF_NUM_INTRAOP_THREADS, before the first operator.
        """
        from ...worker import timing

        call = self._call(params["feeds"])
        # The first call traces.
        for _ in range(max(int(params.get("warmup", 2)), 1)):
            _guarded(call)
        runs, concurrency = int(params["runs"]), int(params.get("concurrency") or 1)
        result = timing.measure(lambda: _finished(call()), max(runs, 1), concurrency)
        return {**result, "threads": _threads()}


def _finished(results: Sequence[Any]) -> None:
    """Waits for the results: an operator may still run when its tensor is there."""
    for result in results:
        result.numpy()


def _threads() -> int:
    asked = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _has_onednn() -> bool:
    """Whether oneDNN's kernels run, whose sums are in another order than TensorFlow's own."""
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def _guarded(call: Callable[[], Any]) -> Any:
    """The results of running the model; whatever it raises becomes an answer."""
    try:
        return call()
    # TensorFlow's kernels, and the layers of a Keras model, raise classes of their own.
    except Exception as error:
        raise from_user_code(error, "running the model") from error


def _described(info: TensorInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "dtype": info.dtype,
        "shape": None if info.shape is None else list(info.shape),
    }


def _open(params: Mapping[str, Any]) -> Opened:
    """The file as what it is."""
    path, kind, trust = Path(params["file"]), params["kind"], bool(params.get("trust"))
    if kind == "saved_model":
        from . import saved_model as tf_saved_model

        return tf_saved_model.open_folder(path, params.get("signature"), trust)
    from . import graph_files as tf_graph_files

    wanted = tf_graph_files.Wanted(
        params.get("inputs") or [],
        params.get("outputs") or [],
        params.get("constants") or {},
        params.get("weights"),
        trust,
    )
    if kind == "checkpoint":
        return tf_graph_files.open_checkpoint(path, wanted)
    return tf_graph_files.open_frozen(path, wanted)


def _rename_outputs(opened: Opened, params: Mapping[str, Any]) -> None:
    """Choose the outputs that were asked for, by name; or call all of them as was asked.

    Raises usage where neither is possible.
    """
    wanted = list(params.get("outputs") or ())
    if not wanted or params["kind"] in ("graph", "checkpoint"):
        return
    own = [info.name for info in opened.outputs]
    if all(name in own for name in wanted):
        _choose(opened, [own.index(name) for name in wanted])
    elif len(wanted) == len(own):
        opened.outputs = [
            TensorInfo(name, info.dtype, info.shape) for name, info in zip(wanted, opened.outputs)
        ]
    else:
        raise WorkerError(
            "usage",
            f"--output {', '.join(wanted)}: the model has {len(own)} outputs: {', '.join(own)}",
            code="interface-mismatch",
        )


def _choose(opened: Opened, places: list[int]) -> None:
    whole = opened.function

    def function(*tensors: Any) -> list[Any]:
        results = whole(*tensors)
        return [results[place] for place in places]

    opened.outputs = [opened.outputs[place] for place in places]
    opened.function = function
