"""PyTorch on the GPU, as a Session to time: eager, and compiled by torch.compile."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from converter.runtime.session import Timing
from zoo import catalogue


def load_module(reference: str) -> Any:
    """The catalogue's PyTorch or Hugging Face model, in float32, on the CPU."""
    import torch

    fields = catalogue.resolve(reference, offline=True)
    source = fields["source"]
    if Path(source).is_dir():
        from transformers import AutoModel

        return AutoModel.from_pretrained(source).eval()
    sys.path[:0] = fields.get("search_paths", [])
    place, _, attribute = source.rpartition(":")
    made: Any = _module(place)
    for part in attribute.split("."):
        made = getattr(made, part)
    model = made(*fields.get("args", ()))
    if "weights" in fields:
        model.load_state_dict(torch.load(fields["weights"], weights_only=True))
    return model.eval()


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    spec = importlib.util.spec_from_file_location("gpu_bench_model", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TorchOnGpu:
    """A module on the first GPU, with TF32 off.

    Args:
        module: In float32, on the CPU; moved.
        half: In float16.
        compiled: Through ``torch.compile`` with its defaults, anew for each shape.
    """

    def __init__(self, module: Any, *, half: bool, compiled: bool) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self._torch = torch
        self._half = half
        self._module = module.to("cuda", torch.float16 if half else torch.float32)
        if compiled:
            torch._dynamo.reset()
        self._run = torch.compile(self._module, dynamic=False) if compiled else self._module
        self.runtime = {"name": "torch", "version": torch.__version__}

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        """Device times by CUDA events, each run waited for; ``total_ns`` is wall time.

        Inputs are on the device before, and outputs stay there.
        """
        torch = self._torch
        tensors = {name: self._placed(array) for name, array in feeds.items()}
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        taken = []
        torch.cuda.synchronize()
        began = time.perf_counter_ns()
        with torch.inference_mode():
            for _ in range(runs):
                start.record()
                self._call(tensors)
                end.record()
                end.synchronize()
                taken.append(round(start.elapsed_time(end) * 1e6))
        return Timing(tuple(taken), time.perf_counter_ns() - began)

    def _call(self, tensors: Mapping[str, Any]) -> None:
        if "image" in tensors:
            self._run(tensors["image"])
        else:
            self._run(**tensors)

    def _placed(self, array: np.ndarray[Any, Any]) -> Any:
        tensor = self._torch.from_numpy(array).cuda()
        return tensor.half() if self._half and array.dtype == np.float32 else tensor

    def close(self) -> None:
        """Gives the device's memory back."""
        del self._run, self._module
        self._torch.cuda.empty_cache()
