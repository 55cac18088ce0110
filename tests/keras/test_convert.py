"""Keras models end to end: the same outputs as Keras, under the names that Keras has."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.ir.model import Model
from converter.runtime.ort import OrtSession

pytestmark = pytest.mark.slow


def _converted(source: Path | str, folder: Path, **options: Any) -> Model:
    """The converted model; its gates passed against Keras."""
    made = api.convert(str(source), out=str(folder), bench=False, **options)
    assert made.report is not None
    (artifact,) = made.report.artifacts
    assert {gate.status for gate in artifact.gates} == {"passed"}
    return Model.load(folder / artifact.path)


def _shapes(specs: Any) -> dict[str, tuple[int | str, ...]]:
    return {spec.name: tuple(spec.shape) for spec in specs}


def test_fer(tmp_path: Path) -> None:
    """A Keras 2 file: its layers' names, its batch, its layout."""
    model = _converted("zoo:fer", tmp_path / "out")
    assert _shapes(model.inputs) == {"input_1": ("batch", 64, 64, 1)}
    assert _shapes(model.outputs) == {"predictions": ("batch", 7)}
    assert model.inputs[0].layout == "NHWC"


@pytest.mark.parametrize("form", ["mixed.keras", "mixed.h5", "mixed"])
def test_preprocessing_lstm_attention_gelu(models: Path, tmp_path: Path, form: str) -> None:
    """The .keras file, the HDF5 file and the SavedModel of one model."""
    model = _converted(models / form, tmp_path / "out", samples=str(models / "mixed-in.npz"))
    assert _shapes(model.inputs) == {"image": ("batch", 20, 24, 3)}
    feeds = {"image": np.load(models / "mixed-in.npz")["image"]}
    (found,) = OrtSession(model.graph).run(feeds).values()
    np.testing.assert_allclose(found, np.load(models / "mixed-out.npz")["scores"], atol=1e-5)
    if form != "mixed":
        assert _shapes(model.outputs) == {"scores": ("batch", 4)}


def test_a_dict_in_and_out(models: Path, tmp_path: Path) -> None:
    """Names are the keys; an output that is an input, and one tensor twice, stay."""
    model = _converted(models / "structured.keras", tmp_path / "out")
    assert list(_shapes(model.inputs)) == ["left", "right"]
    assert list(_shapes(model.outputs)) == ["again", "same", "sum"]
    left, right = np.full((2, 4), 1.5, "float32"), np.full((2, 4), 2.0, "float32")
    found = OrtSession(model.graph).run({"left": left, "right": right})
    assert np.array_equal(found["same"], left)
    assert np.array_equal(found["sum"], left + right)
    assert np.array_equal(found["again"], left + right)


@pytest.mark.parametrize("form", ["keras", "h5"])
def test_arguments_that_only_keras_2_had(models: Path, tmp_path: Path, form: str) -> None:
    """Keras 3 refuses the file for them; here they are taken out, and the weights are its own."""
    model = _converted(models / f"aged.{form}", tmp_path / "out")
    (found,) = OrtSession(model.graph).run(dict(np.load(models / "aged-in.npz"))).values()
    np.testing.assert_allclose(found, np.load(models / "aged-out.npz")["scores"], atol=1e-5)
