"""Small models through the emitter and LiteRT, against ONNX Runtime."""

import importlib.util
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.insert import quantize
from converter.runtime.ort import OrtSession
from emitters.tflite.emitter import TfliteEmitter
from emitters.tflite.graph import Operator
from emitters.tflite.lowering import Lowered, lower
from emitters.tflite.session import open_file
from tests.passes.models import ListedSamples
from tests.schemes import SCHEMES

Array = np.ndarray[Any, Any]
REQUEST = make_request({"source": "model.onnx"})


def operators(model: Model) -> list[Operator]:
    """The TFLite operators of the main graph."""
    return lowered(model).model.subgraphs[0].operators


def kinds(model: Model) -> list[str]:
    """Their names, in order."""
    return [operator.op for operator in operators(model)]


def lowered(model: Model) -> Lowered:
    """What lowering gives; nothing may have been refused."""
    made = lower(model)
    assert not made.refusals, made.refusals
    return made


def emitted(model: Model, folder: Path, precision: str = "fp32") -> Path:
    """The file."""
    return TfliteEmitter().emit(model, folder, precision, REQUEST).path


def run_file(path: Path, feeds: dict[str, Array], *, xnnpack: bool = True) -> dict[str, Array]:
    """Outputs of a file in LiteRT."""
    with closing(open_file(path, REQUEST, xnnpack=xnnpack)) as session:
        return session.run(feeds)


def agree(model: Model, feeds: dict[str, Array], folder: Path, *, rtol: float = 1e-5,
          atol: float = 1e-5) -> dict[str, Array]:  # fmt: skip
    """Runs both, with and without XNNPACK, and compares; gives LiteRT's outputs."""
    expected = OrtSession(model.graph).run(feeds)
    path = emitted(model, folder)
    found: dict[str, Array] = {}
    for xnnpack in (False, True):
        found = run_file(path, feeds, xnnpack=xnnpack)
        assert list(found) == list(expected)
        for name, array in expected.items():
            assert found[name].dtype == array.dtype, name
            np.testing.assert_allclose(found[name], array, rtol=rtol, atol=atol, err_msg=name)
    return found


def module_of(path: Path) -> ModuleType:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def int8_of(model: Model, feeds: Sequence[dict[str, Array]]) -> Model:
    """The model in TFLite's int8, calibrated on ``feeds``."""
    ranges = collect(model, ListedSamples(list(feeds)), few=True)
    return quantize(model, ranges, SCHEMES["tflite-int8"], method="minmax").model
