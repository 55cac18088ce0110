"""classify: labels beside the probabilities that they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.coreml_file import coremltools
from parsers.coreml_import.importer import import_opened, read
from parsers.coreml_import.opened import open_file
from tests.coreml.running import agrees, run


def _classifier(folder: Path, labels: list[Any]) -> Path:
    ct = coremltools()
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    @mb.program(input_specs=[mb.TensorSpec((1, 3), types.fp32)], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.softmax(x=x, name="scores")

    model = ct.convert(
        program,
        source="milinternal",
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS16,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
        classifier_config=ct.ClassifierConfig(labels),
    )
    path = folder / "labels.mlpackage"
    model.save(str(path))
    return path


@pytest.mark.parametrize("labels", [["cat", "dog", "owl"], [7, 8, 9]])
def test_the_probabilities_are_the_output(tmp_path: Path, labels: list[Any]) -> None:
    path = _classifier(tmp_path, labels)
    x = np.array([[1, 2, 0.5]], np.float32)
    model = read(path)
    (name,) = (spec.name for spec in model.outputs)
    (found,) = run(model, {"x": x})
    power = np.exp(x)
    agrees(found, power / power.sum())
    assert import_opened(open_file(path)).classes == {name: [str(label) for label in labels]}
