"""TensorFlow functions through tf2onnx: what can't be translated is listed, the rest is right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.keras.conftest import results_of

pytestmark = pytest.mark.slow

FORMS = [f"{form}-{size}" for form in ("00", "01", "10") for size in (4, 9)]
KINDS = ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
RESIZES = [*(f"{kind}-{form}" for kind in KINDS for form in FORMS), "ResizeArea-4", "ResizeArea-9"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All cases' results, from one process."""
    return results_of("tests.keras.export_child", tmp_path_factory.mktemp("export"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("unsupported", ["BesselI0 (second/BesselI0)", "Lgamma (first)"]),
        ("state", ["AssignAddVariableOp", "changes a variable"]),
        ("strings", ["AsString", "strings"]),
        ("table", ["LookupTableFindV2", "lookup tables"]),
        ("python", ["EagerPyFunc", "calls Python"]),
    ],
)
def test_everything_that_cant_be_translated(
    results: dict[str, Any], name: str, says: list[str]
) -> None:
    found = results[name]
    assert found.get("refused") == "unsupported", found
    text = " ".join(found["details"])
    assert all(word in text for word in says), text


@pytest.mark.parametrize("name", ["erfc", "expm1", "bucketize", "unrelated_state", *RESIZES])
def test_right(results: dict[str, Any], name: str) -> None:
    assert results[name].get("error", 1.0) <= 2e-6, results[name]


def test_free_dimensions_keep_the_inputs_names(results: dict[str, Any]) -> None:
    found = results["dimensions"]
    assert found["error"] == 0.0
    shapes = [item["shape"] for item in found["made"]["outputs"]]
    assert shapes == [["length", "batch"], ["batch", "out1_dim1"], ["rows", 3], ["out3_dim0", 3]]


def test_an_input_that_nothing_reads_stays(results: dict[str, Any]) -> None:
    assert results["unused"]["error"] == 0.0
    assert [item["name"] for item in results["unused"]["made"]["inputs"]] == ["x", "y"]


def test_large_weights_lie_beside_the_model(results: dict[str, Any]) -> None:
    assert results["large"]["error"] <= 1e-6
    assert results["large"]["made"]["external"] == ["model.onnx.data"]
    assert "model.onnx.data" in results["large"]["files"]
