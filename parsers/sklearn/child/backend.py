"""The worker's methods for scikit-learn's models, XGBoost's and LightGBM's.

The libraries are imported by the first method that needs them, so that `hello` answers at once.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Mapping, Optional

from ...worker.backend import FrameworkBackend
from ...worker.errors import WorkerError, from_user_code
from ...worker.packages import require
from ...worker.protocol import Channel


class SklearnBackend(FrameworkBackend):
    """One model at a time."""

    PACKAGES = ("scikit-learn", "skl2onnx", "onnxmltools", "xgboost-cpu", "lightgbm", "skops")

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._model: Any = None
        self._takes: Any = None
        self._gives: List[Any] = []

    def warm(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Import scikit-learn and what exports from it. Raises dependency."""
        start = time.perf_counter()
        self._channel.progress("importing scikit-learn")
        require("sklearn", "scikit-learn", "to load the model")
        require("skl2onnx", "skl2onnx", "to export the model to ONNX")
        return {"seconds": time.perf_counter() - start}

    def load(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Read `file`, of `kind` skops, pickle, xgboost or lightgbm; `trust` lets it run code.

        `search_paths` are where a trusted one's modules may lie. Returns {class, steps, library,
        version, labels}: the names of its classes where it gives a probability for each.
        Raises untrusted, broken, unsupported, dependency or source.
        """
        self.warm(params)
        from . import files, inputs, labels, steps

        self._model = steps.found(files.opened(params, self._channel.warning))
        labels.to_text(self._model)
        self._takes = inputs.of(self._model)
        self._gives = []
        inner = steps.last(self._model)
        library = steps.library_of(inner)
        classes = getattr(self._model, "classes_", [])
        labelled = hasattr(self._model, "predict_proba") and not isinstance(classes, list)
        return {
            "class": steps.name_of(inner),
            "steps": steps.names(self._model),
            "library": library,
            "version": require(library, library, "to run the model").__version__,
            "labels": [str(item) for item in classes] if labelled else [],
        }

    def export(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Write the model to `out` as ONNX of `opset`.

        Returns {missing: the places of each input where NaN has an answer, columns: the names of
        what is in the only input, where known, apart: whether each input is a column}. Raises
        unsupported, naming the part.
        """
        from . import export, texts

        self._channel.progress("translating it to ONNX")
        self._gives = export.write(self._model, self._takes, params["out"], int(params["opset"]))
        for note in texts.notes(self._model):
            self._channel.warning(note)
        columns = [] if self._takes.columns else self._takes.table or []
        missing, apart = self._takes.missing(self._model), bool(self._takes.columns)
        return {"missing": missing, "columns": columns, "apart": apart}

    def run(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """What the model predicts for .npz `feeds`, in .npz `out`. Raises source or usage."""
        from . import arrays

        found = self._predicted(arrays.read(params["feeds"]))
        arrays.write(params["out"], found)
        described = [
            {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
            for name, array in found.items()
        ]
        return {"outputs": described}

    def _predicted(self, feeds: Mapping[str, Any]) -> Dict[str, Any]:
        from . import outputs

        if not self._gives:
            raise WorkerError("usage", "no model is exported", code="usage")
        try:
            return outputs.predicted(self._model, self._takes.joined(feeds), self._gives)
        # The libraries raise what they like, and a pipeline's parts may be the user's.
        except Exception as error:
            raise from_user_code(error, "predicting") from error

    def time(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Latency of all outputs together: {"ns": [each run], "total_ns", "threads"}."""
        from threadpoolctl import threadpool_limits

        from ...worker import timing
        from . import arrays

        feeds = arrays.read(params["feeds"])
        for _ in range(max(int(params.get("warmup", 2)), 0)):
            self._predicted(feeds)
        asked: Optional[int] = params.get("threads")
        runs, concurrency = max(int(params["runs"]), 1), int(params.get("concurrency") or 1)
        with threadpool_limits(limits=asked):
            found = timing.measure(lambda: self._predicted(feeds), runs, concurrency)
        return {**found, "threads": asked or _cores()}


def _cores() -> int:
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
