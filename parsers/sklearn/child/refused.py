"""What skl2onnx's and onnxmltools' converters would write wrong, or refuse without a reason."""

from __future__ import annotations

import json
import re
from typing import Any, Iterator

import numpy as np

from ...worker.errors import WorkerError
from . import steps


def require_translated(model: Any) -> None:
    """Raise unsupported, with all that is in a model and can't be translated."""
    found = list(dict.fromkeys(text for part, _ in steps.parts(model) for text in _of(part)))
    if found:
        raise WorkerError(
            "unsupported", "the model has parts that Modelyard doesn't translate to ONNX", found
        )


def _of(part: Any) -> Iterator[str]:
    kind = f"{type(part).__module__}.{type(part).__qualname__}"
    if kind.endswith("_hist_gradient_boosting.predictor.TreePredictor"):
        if np.any(part.nodes["is_categorical"]):
            yield "HistGradientBoosting: trees that split on categories (categorical_features)"
    elif kind == "lightgbm.basic.Booster":
        if re.search(r"(?m)^is_linear=1$", part.model_to_string()):
            yield "LightGBM: linear_tree: leaves that are linear models aren't translated"
        if _skips_zeros(part):
            yield "LightGBM: zero_as_missing: ONNX's trees take zeros as any other number"
    elif kind == "xgboost.core.Booster":
        yield from _of_xgboost(json.loads(part.save_config())["learner"])


def _skips_zeros(booster: Any) -> bool:
    """Whether a node sends zeros where it sends what is missing: bits 2 and 3 of its type are 1."""
    written = re.findall(r"(?m)^decision_type=(.*)$", booster.model_to_string())
    return any(int(number) >> 2 & 3 == 1 for line in written for number in line.split())


def _of_xgboost(learner: Any) -> Iterator[str]:
    kind = learner["gradient_booster"]["name"]
    if kind != "gbtree":
        yield f"XGBoost: booster {kind}: only gbtree is translated"
        return
    forest = learner["gradient_booster"]["gbtree_model_param"]["num_parallel_tree"]
    classes = learner["learner_model_param"]["num_class"]
    if int(forest) > 1 and int(classes) > 1:
        yield "XGBoost: num_parallel_tree (XGBRFClassifier): of more than two classes it isn't"
