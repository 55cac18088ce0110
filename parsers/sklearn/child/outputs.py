"""What a model gives, by the names of its ONNX outputs."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np

Gives = Tuple[str, str, int]
"""An output: its name, its numpy dtype ("str" for text) and how many axes it has."""


def predicted(model: Any, rows: Any, gives: List[Gives]) -> Dict[str, Any]:
    """What a model itself says, in the types and shapes of the ONNX outputs.

    Args:
        model: The fitted estimator.
        rows: What it takes: [rows, columns], a table, or texts.
        gives: Name, type and number of axes of each output.
    """
    return {name: _shaped(_method(model, name)(rows), dtype, rank) for name, dtype, rank in gives}


def _method(model: Any, name: str) -> Callable[[Any], Any]:
    """`label`: predict. `probabilities`: predict_proba. `scores`: decision_function, or of a
    cluster the distances, transform. `value`: predict, or transform."""
    methods = {
        "label": ("predict",),
        "probabilities": ("predict_proba",),
        "scores": ("decision_function", "transform"),
        "value": ("predict", "transform"),
    }
    found: Callable[[Any], Any] = next(
        getattr(model, method) for method in methods[name] if hasattr(model, method)
    )
    return found


def _shaped(found: Any, dtype: str, rank: int) -> Any:
    array = np.asarray(found.toarray() if hasattr(found, "toarray") else found)
    array = array.astype(np.str_ if dtype == "str" else dtype)
    return array[:, None] if array.ndim == 1 and rank == 2 else array
