"""An IR in OpenVINO's engine, on the CPU."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from converter.errors import ModelError
from converter.ir.model import METADATA_KEY, TensorSpec, described, stored_meanings
from converter.options.request import Request
from converter.runtime.memory import give_back
from converter.runtime.ort_gpu import timed
from converter.runtime.session import Timing
from emitters.openvino.engine import SETTINGS, core, engine, words

BORDERS = ("modelyard", "borders")
"""Where an IR of ours has names and shapes of its inputs and outputs, as JSON."""

TYPES = {
    **{
        f"{kind[0]}{bits}": f"{kind}{bits}"
        for kind in ("int", "uint")
        for bits in (4, 8, 16, 32, 64)
    },
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "boolean": "bool",
    "string": "string",
}
"""Our names of types by OpenVINO's."""


class OpenvinoSession:
    """A file, compiled for the CPU.

    Args:
        path: ``model.xml``; its weights lie beside it.
        request: Its ``threads``.

    Raises:
        ModelError: OpenVINO refuses the file.
    """

    def __init__(self, path: Path, request: Request) -> None:
        settings: dict[str, Any] = dict(SETTINGS)
        if request.threads:
            settings["INFERENCE_NUM_THREADS"] = request.threads
        try:
            model = core().read_model(path)
            self._compiled = core().compile_model(model, "CPU", settings)
        except Exception as error:  # RuntimeError and what it makes of C++'s
            raise ModelError(
                f"OpenVINO refuses {path.name}: {words(error)}", code="runtime-failed"
            ) from error
        borders = borders_of(model)
        self.inputs = _specs(self._compiled.inputs, borders["inputs"], model)
        self.outputs = _specs(self._compiled.outputs, borders["outputs"], model)
        self._request = self._compiled.create_infer_request()

    @property
    def runtime(self) -> dict[str, Any]:
        """Name, version, device, threads, and what floats are computed in."""
        found = self._compiled
        return {
            "name": "openvino",
            "version": engine().get_version().split("-")[0],
            "device": "CPU",
            "threads": found.get_property("INFERENCE_NUM_THREADS"),
            "floats": found.get_property("INFERENCE_PRECISION_HINT").get_type_name(),
        }

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, in the model's order.

        Raises:
            ModelError: OpenVINO failed on these inputs; its words are in the error.
        """
        return self._run(self._request, feeds)

    def _run(self, request: Any, feeds: Mapping[str, Any]) -> dict[str, Any]:
        ordered = [_tensor(np.asarray(feeds[s.name], order="C"), s) for s in self.inputs]
        try:
            request.infer(ordered)
            found = [
                tensor.str_data if spec.dtype == "string" else _data(tensor, spec)
                for spec, tensor in zip(self.outputs, request.output_tensors, strict=True)
            ]
        except Exception as error:
            raise ModelError(f"OpenVINO failed: {words(error)}", code="runtime-failed") from error
        return {spec.name: array for spec, array in zip(self.outputs, found, strict=True)}

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        """Wall time of each of ``runs`` runs in each of ``concurrency`` threads, each of which has
        a request of its own."""

        def caller() -> list[int]:
            request, taken = self._compiled.create_infer_request(), []
            for _ in range(runs):
                start = time.perf_counter_ns()
                self._run(request, feeds)
                taken.append(time.perf_counter_ns() - start)
            return taken

        return timed(caller, concurrency)

    def close(self) -> None:
        """Gives the model's memory back."""
        del self._request, self._compiled
        give_back()


def _tensor(array: np.ndarray[Any, Any], spec: TensorSpec) -> Any:
    """An array as OpenVINO takes it, which knows numpy's types alone."""
    if spec.dtype != "bfloat16":
        return array
    types = engine().Type
    return engine().Tensor(array.view(np.float16), list(array.shape), types.bf16)


def _data(tensor: Any, spec: TensorSpec) -> np.ndarray[Any, Any]:
    """Its numbers; OpenVINO shows the bits of bfloat16 as float16."""
    array = np.array(tensor.data)
    return array.view(ml_dtypes.bfloat16) if spec.dtype == "bfloat16" else array


def borders_of(model: Any) -> dict[str, list[tuple[str, list[int | str]]]]:
    """Names and shapes of inputs and outputs, in their order.

    Raises:
        ModelError: The file isn't ours: names and free sizes aren't in it.
    """
    try:
        found: dict[str, Any] = json.loads(model.get_rt_info(list(BORDERS)).value)
    except RuntimeError as error:
        raise ModelError("the IR wasn't written by Modelyard", code="not-an-artifact") from error
    return found


def _specs(ports: Any, borders: Any, model: Any) -> tuple[TensorSpec, ...]:
    path, meanings = ["framework", METADATA_KEY], {}
    if model.has_rt_info(path):
        meanings = stored_meanings({METADATA_KEY: model.get_rt_info(path).value})
    made = []
    for port, (name, shape) in zip(ports, borders, strict=True):
        kind = port.get_element_type().get_type_name()
        spec = TensorSpec(name, TYPES.get(kind, kind), None if shape is None else tuple(shape))
        made.append(described(spec, meanings.get(name, {})))
    return tuple(made)
