"""fp16 of the catalogue's models: they load, hold no NaN, and are as close as float16 can be.

ONNX Runtime computes chains of float16 in float32 on a CPU, where what would overflow elsewhere
doesn't. So each model is judged with all roundings written out as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import precision_sound as sound
from bench import precision_text as text
from converter import api
from converter.ir import Model
from converter.ort import OrtSession
from converter.quantize.half_strict import strict
from tests.quantize.test_half_real import cosine, edges, pairs

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.slow

NAMES = [
    "silero-vad",
    "silero-vad-sequence",
    "basic-pitch-onnx",
    "pp-ocrv4-rec",
    "efficientnet-lite0",
    "minilm",
    "ccexam-mnist",
]

LEAST = 0.9999


def _samples(name: str, folder: Path) -> dict[str, Any]:
    """More than the catalogue's own samples, where those hold no speech, music or text."""
    if name == "silero-vad":
        return {"samples": str(sound.calibration_speech(folder))}
    if name == "basic-pitch-onnx":
        return {"samples": str(sound.calibration_music(folder))}
    if name == "pp-ocrv4-rec":
        return {"samples": str(text.calibration_lines(folder)), "samples_limit": 8}
    return {}


def _feeds(spec_shape: tuple[int | str, ...] | None, dtype: str) -> Array:
    sizes = {"length": 576, "width": 320, "height": 48}
    shape = [d if isinstance(d, int) else sizes.get(d, 1) for d in spec_shape or ()]
    return np.zeros(shape, dtype)


@pytest.mark.parametrize("name", NAMES)
def test_fp16(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = api.convert(
        f"zoo:{name}",
        precision=["fp32", "fp16"],
        min_cosine=LEAST,
        few_samples=True,
        out=str(out),
        bench=False,
        **_samples(name, tmp_path),
    )
    assert made.report is not None
    for artifact in made.report.artifacts:
        assert {gate.status for gate in artifact.gates} == {"passed"}, artifact.title
    whole, half = (Model.load(out / "onnx" / p / "model.onnx") for p in ("fp32", "fp16"))
    assert not pairs(half), "a Cast right behind another"
    before = OrtSession(whole.graph, plain=True)
    for after in (OrtSession(half.graph), OrtSession(strict(half).graph, plain=True)):
        for feeds in _edges(whole):
            expected, found = before.run(feeds), after.run(feeds)
            for output, array in found.items():
                if array.dtype.kind == "f":
                    assert np.isfinite(array).all(), output
                    if np.linalg.norm(expected[output]) > 1e-3:
                        assert cosine(expected[output], array) > 0.999, output


def _edges(model: Model) -> list[dict[str, Array]]:
    """Zeros, and the same number everywhere; integers that a model takes."""
    zeros = {}
    for spec in model.inputs:
        zeros[spec.name] = _feeds(spec.shape, spec.dtype)
        if spec.name == "sr":
            zeros[spec.name] = np.array(16000, np.int64)
        if spec.dtype == "int64" and spec.shape:
            zeros[spec.name] = np.full((1, 8), spec.name != "token_type_ids", np.int64)
    return [zeros, *edges(zeros)]
