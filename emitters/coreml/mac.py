"""A package in Core ML itself, on a Mac, through coremltools' ``MLModel``.

Not yet run on a Mac: written from coremltools' documentation of ``MLModel.predict``. It takes
``PIL.Image`` for images and numpy arrays for all else, and gives arrays, or for a classifier a name
and a dictionary, which the check doesn't need: the scores are an output besides.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ModelError, UsageError
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.runtime.ort_gpu import timed
from converter.runtime.session import Timing
from emitters.coreml.declared import read_description
from emitters.coreml.metadata import UNITS as KEY
from emitters.coreml.request import package
from emitters.coreml.session import Array, Arrays, PackageSession
from emitters.packaging.script import on_coreml
from modelyard.containers.coreml import coremltools

UNITS = {
    "all": "ALL",
    "cpu-and-ne": "CPU_AND_NE",
    "cpu-and-gpu": "CPU_AND_GPU",
    "cpu-only": "CPU_ONLY",
}
"""coremltools' ``ComputeUnit``, by ``--compute-units``."""


class MacSession(PackageSession):
    """A package, compiled and run by Core ML on the compute units that were asked for.

    Raises:
        ModelError: Core ML can't compile or load it.
    """

    def __init__(self, path: Path, request: Request) -> None:
        library = coremltools()
        description = read_description(path)
        asked = package(request).compute_units or description.metadata.userDefined.get(KEY, "all")
        self._units = UNITS.get(asked, "ALL")
        self._version = str(library.__version__)
        try:
            units = getattr(library.ComputeUnit, self._units)
            self._model = library.models.MLModel(str(path), compute_units=units)
        except Exception as error:  # Core ML's errors come as RuntimeError, ValueError, Exception
            raise ModelError(
                f"Core ML can't load {path.name}: {_first_line(error)}", code="runtime-failed"
            ) from error
        specs = {
            "inputs": specs_of(description.input),
            "outputs": specs_of(description.output),
        }
        super().__init__(path, specs, description)

    @property
    def runtime(self) -> dict[str, Any]:
        """Core ML, with the compute units it may use and the system's version."""
        return {
            "name": "Core ML",
            "version": f"macOS {platform.mac_ver()[0]}",
            "coremltools": self._version,
            "providers": [self._units],
            "architecture": platform.machine(),
        }

    def close(self) -> None:
        """Gives the model back."""
        del self._model

    def _call(self, given: Arrays) -> dict[str, Array]:
        return self._predict(self._fed(given))

    def _fed(self, given: Arrays) -> dict[str, Any]:
        colors = {port.name: port.image.color for port in self._inputs if port.image is not None}
        return {
            name: picture(name, array, colors[name]) if name in colors else array
            for name, array in given.items()
        }

    def _predict(self, fed: Mapping[str, Any]) -> dict[str, Array]:
        try:
            found = self._model.predict(dict(fed))
        except Exception as error:  # Core ML's errors come as RuntimeError, ValueError, Exception
            raise ModelError(
                f"Core ML can't run {self._path.name}: {_first_line(error)}", code="runtime-failed"
            ) from error
        return {port.name: np.asarray(found[port.name]) for port in self._outputs}

    def _time(self, given: list[Arrays], runs: int, concurrency: int) -> Timing:
        fed = [self._fed(arrays) for arrays in given]

        def caller() -> list[int]:
            taken = []
            for _ in range(runs):
                start = time.perf_counter_ns()
                for item in fed:
                    self._predict(item)
                taken.append(time.perf_counter_ns() - start)
            return taken

        return timed(caller, concurrency)


def picture(name: str, pixels: Array, color: str) -> Any:
    """A ``PIL.Image`` of a sample's pixels.

    Args:
        name: The input, for the message.
        pixels: [1, channels, height, width], whole numbers of 0 to 255 in any type.
        color: The order of the channels: ``RGB``, ``BGR`` or ``GRAYSCALE``.

    Raises:
        UsageError: They are no whole numbers of 0..255.
    """
    if (pixels != np.rint(pixels)).any() or pixels.min() < 0 or pixels.max() > 255:
        raise UsageError(
            f"a sample of {name} isn't a picture: its pixels would be {pixels.min():g} to "
            f"{pixels.max():g}, but Core ML takes whole numbers from 0 to 255",
            code="samples-mismatch",
            hint="Check with a folder of images: --samples DIR.",
        )
    return on_coreml.picture(pixels, color)


_TYPES = {65568: "float32", 65552: "float16", 131104: "int32", 65600: "float64", 131080: "int8"}
"""``ArrayFeatureType.ArrayDataType`` (``FeatureTypes.proto``)."""


def specs_of(features: Any) -> list[TensorSpec]:
    """The arrays and images among a ``ModelDescription``'s inputs or outputs; free sizes have
    names."""
    found = []
    for feature in features:
        kind = feature.type.WhichOneof("Type")
        if kind == "imageType":
            image = feature.type.imageType
            channels = 1 if image.colorSpace == image.GRAYSCALE else 3
            shape: tuple[int | str, ...] = (1, channels, int(image.height), int(image.width))
            found.append(TensorSpec(feature.name, "float32", shape))
        elif kind == "multiArrayType":
            array = feature.type.multiArrayType
            shape = tuple(int(size) for size in array.shape)
            if array.HasField("shapeRange"):
                sizes = array.shapeRange.sizeRanges
                shape = tuple(
                    int(size.lowerBound)
                    if size.lowerBound == size.upperBound
                    else f"{feature.name}_{axis}"
                    for axis, size in enumerate(sizes)
                )
            found.append(TensorSpec(feature.name, _TYPES[array.dataType], shape))
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
