"""basic-pitch comes as SavedModel, ONNX and TFLite: all three become the same model.

Sound in, three maps of pitch over time out. The same names, and the same outputs to 1e-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.ir import Model
from converter.ort import OrtSession
from zoo.packages import fetch_package_file, fetch_package_folder

PLACE = "basic_pitch/saved_models/icassp_2022/nmp"
PACKAGE = ("basic-pitch", "0.4.0")
SAVED_MODEL = "b74344cd0c58261dae0cd52050d85ab6f901a5e219f27046ab4640673bba1046"
ONNX = "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec"
TFLITE = "3db297d54af8e01c6e5618245c956b1d71b6a2b978cb2dedb527173186552676"
NAMES = ("contour", "note", "onset")

pytestmark = pytest.mark.slow


def _sound() -> np.ndarray[Any, Any]:
    """[2, 43844, 1]: a chord that fades, and silence, at 22,050 Hz."""
    time = np.arange(43844) / 22050
    chord = sum(np.sin(2 * np.pi * tone * time) for tone in (261.6, 329.6, 392.0))
    return np.stack([chord * np.exp(-time) / 4, np.zeros_like(time)])[..., None].astype(np.float32)


def _source(form: str) -> Path:
    if form == "savedmodel":
        return fetch_package_folder(*PACKAGE, PLACE, SAVED_MODEL)
    return fetch_package_file(*PACKAGE, f"{PLACE}.{form}", ONNX if form == "onnx" else TFLITE)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The converted file of each form, its gates passed against its own framework."""
    folder = tmp_path_factory.mktemp("basic-pitch")
    np.savez(folder / "sound.npz", input_2=_sound())
    files = {}
    for form in ("savedmodel", "onnx", "tflite"):
        # The ONNX file holds no names for its outputs, just numbers: theirs are the user's word.
        outputs = {"onnx": ["onset", "note", "contour"]}.get(form, [])
        result = api.convert(
            str(_source(form)),
            out=str(folder / form),
            samples=str(folder / "sound.npz"),
            outputs=outputs,
            bench=False,
        )
        assert result.report is not None
        (artifact,) = result.report.artifacts
        assert {gate.status for gate in artifact.gates} == {"passed"}
        files[form] = folder / form / artifact.path
    return files


def test_the_same_names(made: Mapping[str, Path]) -> None:
    """And in the order of the signature, where the file has one."""
    for form, path in made.items():
        model = Model.load(path)
        assert [spec.name for spec in model.inputs] == ["input_2"], form
        names = [spec.name for spec in model.outputs]
        assert names == list(NAMES if form != "onnx" else reversed(NAMES)), form


def test_the_same_outputs(made: Mapping[str, Path]) -> None:
    found = {}
    for form, path in made.items():
        session = OrtSession(path)
        one = [session.run({"input_2": sound[None]}) for sound in _sound()]
        found[form] = {name: np.concatenate([item[name] for item in one]) for name in NAMES}
        session.close()
    for form in ("onnx", "tflite"):
        for name in NAMES:
            expected = found["savedmodel"][name]
            np.testing.assert_allclose(found[form][name], expected, rtol=0, atol=1e-5)
    chord, silence = (found["savedmodel"]["note"][index].max() for index in (0, 1))
    assert chord > 2 * silence  # the comparison was on something that the model hears


def test_an_onnx_file_keeps_the_numbers_of_outputs_without_names() -> None:
    looked = api.inspect(str(_source("onnx")))
    assert [spec["name"] for spec in looked.inputs] == ["input_2"]
    names = [spec["name"] for spec in looked.outputs]
    assert names == ["output_2", "output_1", "output_0"]
