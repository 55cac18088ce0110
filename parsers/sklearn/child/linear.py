"""LinearDiscriminantAnalysis of two classes: skl2onnx makes a softmax of -s and s, which is the
sigmoid of 2 s, where scikit-learn has that of s."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx.common import shape_calculator
from skl2onnx.operator_converters.linear_classifier import convert_sklearn_linear_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from .nodes import Changed

_OPTIONS = {
    "nocl": [True, False],
    "zipmap": [True, False, "columns"],
    "raw_scores": [True, False],
    "output_class_labels": [False, True],
}


def register() -> None:
    """Make skl2onnx take this converter."""
    update_registered_converter(
        LinearDiscriminantAnalysis,
        "SklearnLinearDiscriminantAnalysis",
        shape_calculator.calculate_linear_classifier_output_shapes,
        _convert,
        options=_OPTIONS,
    )


def _convert(scope: Any, operator: Any, container: Any) -> None:
    two = len(operator.raw_operator.classes_) == 2
    convert_sklearn_linear_classifier(
        scope, operator, Changed(container, _halved) if two else container
    )


def _halved(attributes: Dict[str, Any]) -> Dict[str, Any]:
    """The scores that a softmax is made of."""
    if attributes.get("post_transform") == "SOFTMAX":
        for name in ("coefficients", "intercepts"):
            attributes[name] = (np.asarray(attributes[name]) / 2).tolist()
    return attributes
