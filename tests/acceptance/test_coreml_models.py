"""Real models as Core ML packages, checked against their source frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter import api
from converter.plugins import Artifact
from converter.recipe import make_request
from emitters.coreml.declared import read_description
from emitters.coreml.emitter import CoremlEmitter
from parsers.coreml_import.importer import read
from tests.acceptance.cli import modelyard

pytestmark = pytest.mark.slow

MODELS = {
    "basic-pitch-onnx": 0.999999,
    "ccexam-mnist": 0.999999,
    "minilm": 0.999999,
    "pp-ocrv4-det": 0.999999,
    "pp-ocrv4-rec": 0.999999,
    "silero-vad-ifless": 0.999999,
    "silero-vad-op15": 0.999999,
}
"""Models of the zoo, and the smallest cosine: what is computed is the same, in float32."""


def converted(name: str, folder: Path, **options: Any) -> Any:
    """The report's artifacts, every gate of theirs passed but that they ran in Core ML."""
    made = api.convert(f"zoo:{name}", to=["coreml"], out=str(folder), bench=False, **options)
    assert made.report is not None
    for artifact in made.report.artifacts:
        gates = {gate.name: gate.status for gate in artifact.gates}
        assert gates.pop("runs") == "not judged"
        assert set(gates.values()) == {"passed"}
        assert artifact.runtime["stands_for"] == "model.mlpackage"
        assert artifact.latency == []
    assert any("HAS NOT BEEN RUN" in alert.text for alert in made.report.alerts)
    return made.report.artifacts


@pytest.mark.parametrize("name", MODELS)
def test_it_converts_and_passes(name: str, tmp_path: Path) -> None:
    (artifact,) = converted(name, tmp_path / "out")
    assert artifact.accuracy is not None
    assert (artifact.accuracy.cosine or 0) > MODELS[name]
    for metric in artifact.metrics:
        assert metric.candidate == metric.source


def test_an_image_classifier(tmp_path: Path) -> None:
    """EfficientNet-Lite0 takes pictures, and gives ImageNet's names; in fp32 and fp16."""
    options = {"precision": ["fp32", "fp16"], "coreml_images": ["image"], "coreml_classifier": True}
    artifacts = converted("efficientnet-lite0", tmp_path / "out", **options)
    for artifact in artifacts:
        description = read_description(tmp_path / "out" / artifact.path)
        image = description.input[0].type.imageType
        assert (image.width, image.height, image.colorSpace) == (224, 224, image.RGB)
        assert description.predictedFeatureName == "classLabel"
        top1 = artifact.metrics[0]
        assert top1.candidate == top1.source == pytest.approx(85.0)
    assert artifacts[1].bytes < 0.55 * artifacts[0].bytes


def test_a_row_that_is_all_masked_gives_no_nan(tmp_path: Path) -> None:
    """MiniLM in fp16: its masks are sentinels that float16 doesn't hold."""
    converted("minilm", tmp_path / "out", precision=["fp16"])
    path = tmp_path / "out" / "coreml" / "fp16" / "model.mlpackage"
    held = [value.const_value for value in read(path).graph.graph.initializers.values()]
    arrays = [tensor.numpy() for tensor in held if tensor is not None]
    assert all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")
    session = CoremlEmitter().open(
        Artifact("coreml", "fp16", path, [path]), make_request({"source": "minilm"})
    )
    tokens = np.array([[101, 7592, 2088, 102], [101, 7592, 2088, 102]])
    feeds = {spec.name: np.zeros_like(tokens) for spec in session.inputs}
    feeds["input_ids"] = tokens
    feeds["attention_mask"] = np.array([[1, 1, 1, 1], [0, 0, 0, 0]])
    found = session.run(feeds)
    session.close()
    assert all(np.isfinite(array).all() for array in found.values())


def test_the_command_line(tmp_path: Path) -> None:
    """convert, check and bench; what a Mac is needed for says so."""
    out = tmp_path / "out"
    said = modelyard("convert", "zoo:ccexam-mnist", "--to", "coreml", "--no-bench", "--out", out)
    assert said.code == 0, said.err
    assert "HAS NOT BEEN RUN" in said.out + said.err
    package = out / "coreml" / "fp32" / "model.mlpackage"
    assert "MLModel" in (out / "coreml" / "fp32" / "usage.swift").read_text()
    manifest = (out / "manifest.json").read_text()
    assert '"coreml_target": "iOS17"' in manifest
    assert '"compute_units": "all"' in manifest
    said = modelyard("check", package, "--against", "zoo:ccexam-mnist")
    assert said.code == 0, said.err
    assert "model.mlpackage HAS NOT BEEN RUN" in " ".join(said.out.split())
    said = modelyard("bench", package).no_traceback()
    assert said.code == 5
    assert "Apple's systems alone" in said.err
