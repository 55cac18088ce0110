"""The worker's half: what reads and runs a file of arrays in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping

from parsers.worker.backend import FrameworkBackend
from parsers.worker.errors import WorkerError
from parsers.worker.packages import require
from parsers.worker.timing import measure


class NpzBackend(FrameworkBackend):
    """One model at a time."""

    PACKAGES = ("numpy", "onnx")

    def warm(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Import numpy. Raises dependency."""
        require("numpy", "numpy", "to read the arrays")
        return {}

    def load(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Read `file`. Raises unsupported or broken."""
        from . import layers

        self._layers: List[layers.Layer] = layers.stored(Path(params["file"]))
        deep = [
            f"layer {n} is no matrix" for n, item in enumerate(self._layers) if item[0].ndim != 2
        ]
        if deep:
            raise WorkerError("unsupported", "the file has layers that aren't linear", deep)
        return {"layers": len(self._layers)}

    def export(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Write the model to `out` as ONNX."""
        import onnx

        from . import layers

        onnx.save(layers.to_onnx(self._layers), params["out"])
        return {}

    def run(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """What the model gives for .npz `feeds`, in .npz `out`."""
        import numpy as np

        from . import layers

        with np.load(params["feeds"]) as feeds:
            np.savez(params["out"], y=layers.run(self._layers, feeds["x"]))
        return {}

    def time(self, params: Mapping[str, Any]) -> Dict[str, Any]:
        """Latency: {"ns": [each run], "total_ns", "threads"}."""
        import numpy as np

        from . import layers

        with np.load(params["feeds"]) as feeds:
            x = feeds["x"]
        runs = int(params["runs"]), int(params["concurrency"])
        return {**measure(lambda: layers.run(self._layers, x), *runs), "threads": 1}
