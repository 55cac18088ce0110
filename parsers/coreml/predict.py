"""A Core ML file in Core ML itself, on a Mac, through coremltools' ``MLModel``.

Not yet run on a Mac: written from coremltools' documentation of ``MLModel.predict``, which takes
``PIL.Image`` for images and numpy arrays for all else, and gives arrays, images, and for a
classifier's probabilities a dictionary. A state is written before each run, and read after it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ModelError
from converter.ir.model import Model
from converter.runtime.ort_gpu import timed
from converter.runtime.session import Timing
from modelyard.containers.coreml import coremltools
from parsers.coreml.description import images

Array = np.ndarray[Any, Any]
_SAME = "_out"


class PredictSession:
    """A file that Core ML compiled, under the names that it has there.

    Args:
        path: The file.
        model: What was read of it, for its inputs and outputs.
        function: Which of several functions runs; None for the only one.
        classes: Labels, by the output that holds their probabilities.

    Raises:
        ModelError: Core ML can't compile or load it.
    """

    def __init__(
        self,
        path: Path,
        model: Model,
        function: str | None,
        classes: Mapping[str, Sequence[str]],
    ) -> None:
        library = coremltools()
        self._name = path.name
        self._version = str(library.__version__)
        try:
            self._model = library.models.MLModel(str(path), function_name=function)
        except Exception as error:  # Core ML's errors come as RuntimeError, ValueError, Exception
            raise ModelError(
                f"Core ML can't load {path.name}: {_first_line(error)}", code="runtime-failed"
            ) from error
        told = self._model.get_spec().description
        self._images = images(told)
        self._shapes = {
            feature.name: tuple(feature.type.multiArrayType.shape)
            for feature in told.input
            if feature.type.WhichOneof("Type") == "multiArrayType"
        }
        numbers = {"doubleType": float, "int64Type": int}
        self._numbers = {
            feature.name: numbers[feature.type.WhichOneof("Type")]
            for feature in told.input
            if feature.type.WhichOneof("Type") in numbers
        }
        self._states = {state.name for state in told.state}
        self._classes = classes
        self.inputs = model.inputs
        self.outputs = model.outputs

    @property
    def runtime(self) -> dict[str, Any]:
        """Core ML, with the compute units it may use and the system's version."""
        return {
            "name": "Core ML",
            "version": f"macOS {platform.mac_ver()[0]}",
            "coremltools": self._version,
            "providers": [self._model.compute_unit.name],
            "device": platform.machine(),
        }

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name.

        Raises:
            ModelError: Core ML failed on these inputs.
        """
        given = {name: self._given(name, array) for name, array in feeds.items()}
        try:
            state: Any = self._model.make_state() if self._states else None
            for name in self._states:
                state.write_state(name, given.pop(name))
            found = dict(self._model.predict(given, state))
            for name in self._states:
                found[name + _SAME] = state.read_state(name)
        except Exception as error:  # Core ML's errors come as RuntimeError, ValueError, Exception
            raise ModelError(
                f"Core ML can't run {self._name}: {_first_line(error)}", code="runtime-failed"
            ) from error
        return {spec.name: self._taken(spec.name, spec.dtype, found) for spec in self.outputs}

    def time(self, feeds: Mapping[str, Array], runs: int, concurrency: int = 1) -> Timing:
        """Wall times of whole runs."""

        def caller() -> list[int]:
            taken = []
            for _ in range(runs):
                start = time.perf_counter_ns()
                self.run(feeds)
                taken.append(time.perf_counter_ns() - start)
            return taken

        return timed(caller, concurrency)

    def close(self) -> None:
        """Gives the model back."""
        del self._model

    def _given(self, name: str, array: Array) -> Any:
        """An array as Core ML takes it: an image from pixels [1, channels, height, width]."""
        if name in self._numbers:
            return self._numbers[name](array.reshape(-1)[0])
        colour = self._images.get(name)
        if colour is None:  # older networks' arrays have no batch there
            declared = self._shapes.get(name, ())
            return array.reshape(declared) if np.prod(declared) == array.size else array
        from PIL import Image

        planes = array[0]
        if colour == "GRAYSCALE_FLOAT16":
            return Image.fromarray(planes[0].astype(np.float32), "F")
        whole = np.clip(np.rint(planes), 0, 255).astype(np.uint8)
        if colour == "GRAYSCALE":
            return Image.fromarray(whole[0], "L")
        rgb = whole[::-1] if colour == "BGR" else whole  # a picture's colours have names there
        return Image.fromarray(np.ascontiguousarray(rgb.transpose(1, 2, 0)), "RGB")

    def _taken(self, name: str, dtype: str, found: Mapping[str, Any]) -> Array:
        """An output as the model that was read gives it."""
        value = found[name]
        if isinstance(value, Mapping):
            labels = self._classes.get(name) or list(value)
            value = [value.get(label, value.get(_number(label))) for label in labels]
            return _shaped(np.asarray(value, dtype), self._shape(name))
        array = np.asarray(value)
        colour = self._images.get(name)
        if colour is not None:
            planes = array[None] if array.ndim == 2 else array[..., :3].transpose(2, 0, 1)
            array = (planes[::-1] if colour == "BGR" else planes)[None]
        return _shaped(array, self._shape(name)).astype(dtype)

    def _shape(self, name: str) -> tuple[int | str, ...]:
        return next(spec.shape for spec in self.outputs if spec.name == name) or ()


def _shaped(array: Array, wanted: tuple[int | str, ...]) -> Array:
    """An array as the model has it, where it differs by axes of size 1 alone."""
    sizes = [size for size in wanted if isinstance(size, int)]
    fits = len(sizes) == len(wanted) and int(np.prod(sizes)) == array.size
    return array.reshape(sizes) if fits else array


def _number(label: str) -> Any:
    return int(label) if label.lstrip("-").isdigit() else label


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
