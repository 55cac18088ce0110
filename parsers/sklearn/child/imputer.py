"""SimpleImputer in ONNX's plain operators: numbers and texts, with `add_indicator`."""

from __future__ import annotations

from typing import Any

import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx.common import data_types
from sklearn.impute import SimpleImputer

from .encoders import is_missing
from .nodes import Nodes, untranslated


def register() -> None:
    """Make skl2onnx take this converter."""
    update_registered_converter(SimpleImputer, "SklearnSimpleImputer", _set_shape, _convert)


def _set_shape(operator: Any) -> None:
    part, given = operator.raw_operator, operator.inputs[0].type
    width = len(_kept(part)) + len(_marked(part))
    text = isinstance(given, data_types.StringTensorType)
    kind = type(given) if text else data_types.FloatTensorType
    operator.outputs[0].type = kind([operator.inputs[0].get_first_dimension(), width])


def _kept(part: Any) -> Any:
    """The columns that it gives: those that it has something to fill with."""
    filled = [not is_missing(item) for item in part.statistics_]
    return np.flatnonzero(filled)


def _marked(part: Any) -> Any:
    """The columns that it says of where they were missing."""
    return part.indicator_.features_ if part.add_indicator else np.empty(0, np.int64)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    nodes, part = Nodes(scope, operator, container), operator.raw_operator
    value, kind = nodes.joined(), operator.inputs[0].type
    text = isinstance(kind, data_types.StringTensorType)
    if text and part.add_indicator:
        raise untranslated(part, "add_indicator of texts: its output is text and numbers")
    if not text:
        value = nodes.cast(value, 1)
    fill = part.statistics_ if text else np.asarray(part.statistics_, np.float64)
    missing = _missing(nodes, value, part.missing_values, text)
    chosen = nodes.constant(np.asarray(fill, str if text else np.float32)[None])
    filled = nodes.node("Where", missing, chosen, value)
    kept = _kept(part)
    if len(kept) < len(fill):
        filled = nodes.node("Gather", filled, nodes.constant(kept), axis=1)
    marked = _marked(part)
    if len(marked):
        marks = nodes.node("Gather", nodes.cast(missing, 1), nodes.constant(marked), axis=1)
        filled = nodes.node("Concat", filled, marks, axis=1)
    nodes.finish(filled)


def _missing(nodes: Nodes, value: str, wanted: Any, text: bool) -> str:
    """Where a value is missing: NaN, the empty text, or the value that stands for it."""
    if not text and is_missing(wanted):
        return nodes.node("IsNaN", value)
    sought = np.array("" if is_missing(wanted) else str(wanted)) if text else np.float32(wanted)
    return nodes.node("Equal", value, nodes.constant(sought))
