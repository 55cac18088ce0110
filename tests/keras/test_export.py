"""Keras layers and TensorFlow functions through tf2onnx: right, or refused by name."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.keras.conftest import run_module
from tests.keras.layer_cases import CASES
from tests.sweep import asked

pytestmark = pytest.mark.slow

FORMS = [f"{way}-{size}" for way in (0, 1, 2) for size in (4, 9)]
KINDS = ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
RESIZES = ["ResizeArea-0-4", "ResizeArea-0-9", *(f"{k}-{form}" for k in KINDS for form in FORMS)]
LAYERS = {
    "upsampling2d_free": ("source", ["UpSampling2D"]),
    "mel_spectrogram": ("unsupported", ["RFFT", "Real", "Imag"]),
    "randomshear": ("source", ["RandomShear"]),
}
FUNCTIONS = {
    "unsupported": ("unsupported", ["BesselI0 (second/BesselI0)", "Lgamma (first)"]),
    "state": ("unsupported", ["AssignAddVariableOp", "changes a variable"]),
    "strings": ("unsupported", ["AsString", "strings"]),
    "table": ("unsupported", ["LookupTableFindV2", "lookup tables"]),
    "python": ("unsupported", ["EagerPyFunc", "calls Python"]),
}
REFUSED = LAYERS | FUNCTIONS
"""What can't be translated: the kind of error, and what it says."""


def _results(kind: str, folder: Path, names: Sequence[str] = ()) -> dict[str, Any]:
    """Results of the cases of these names, or of all, from one process."""
    printed = run_module("tests.keras.export_child", kind, str(folder), *names)
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return {item["case"]: item for item in found}


@pytest.fixture(scope="module")
def layers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    return _results("layers", tmp_path_factory.mktemp("layers"), asked(request, "name"))


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return _results("functions", tmp_path_factory.mktemp("functions"))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(layers: dict[str, Any], functions: dict[str, Any], name: str) -> None:
    """Whatever can't be translated says which operators it is."""
    (kind, says), found = REFUSED[name], (layers | functions)[name]
    assert found.get("refused") == kind, found
    text = " ".join(found["details"])
    assert all(word in text for word in says), text


@pytest.mark.parametrize("name", [name for name in CASES if name not in LAYERS])
def test_a_layer_is_right(layers: dict[str, Any], name: str) -> None:
    assert layers[name].get("error", 1.0) <= 1e-5, layers[name]


@pytest.mark.parametrize("name", ["erfc", "expm1", "bucketize", "unrelated_state", *RESIZES])
def test_a_function_is_right(functions: dict[str, Any], name: str) -> None:
    assert functions[name].get("error", 1.0) <= 2e-6, functions[name]


def test_names_of_inputs_and_free_dimensions(functions: dict[str, Any]) -> None:
    found, unused = functions["dimensions"], functions["unused"]
    assert found["error"] == unused["error"] == 0.0
    shapes = [item["shape"] for item in found["made"]["outputs"]]
    assert shapes == [["length", "batch"], ["batch", "out1_dim1"], ["rows", 3], ["out3_dim0", 3]]
    assert [item["name"] for item in unused["made"]["inputs"]] == ["x", "y"]


def test_large_weights_lie_beside_the_model(functions: dict[str, Any]) -> None:
    found = functions["large"]
    assert found["error"] <= 1e-6
    assert found["made"]["external"] == ["model.onnx.data"]
    assert "model.onnx.data" in found["files"]
