"""KNNImputer in ONNX: what is missing becomes the mean of the nearest rows that have it.

Distances are scikit-learn's `nan_euclidean`: of the columns that both rows have, scaled up to all
of them. They are summed from differences, column by column, and not by products, so that rounding
doesn't choose other neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from skl2onnx import update_registered_converter
from skl2onnx.common import data_types
from sklearn.impute import KNNImputer

from .nodes import Nodes, untranslated


def register() -> None:
    """Make skl2onnx take this converter."""
    update_registered_converter(KNNImputer, "SklearnKNNImputer", _set_shape, _convert)


def _kept(part: Any) -> Any:
    """The columns that it gives: those that some row that it was trained on has."""
    known = ~part._mask_fit_X.all(axis=0)
    return np.arange(len(known)) if part.keep_empty_features else np.flatnonzero(known)


def _set_shape(operator: Any) -> None:
    part = operator.raw_operator
    width = len(_kept(part)) + (len(part.indicator_.features_) if part.add_indicator else 0)
    first = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = data_types.FloatTensorType([first, width])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    nodes, part = Nodes(scope, operator, container), operator.raw_operator
    if not np.isnan(part.missing_values) or part.metric != "nan_euclidean":
        raise untranslated(
            part, "missing values other than NaN, or a metric other than nan_euclidean"
        )
    if part.weights != "uniform":
        raise untranslated(
            part,
            "weights that aren't uniform: scikit-learn's float32 distances have errors near "
            "1e-3, and their inverse decides which rows are near",
        )
    rows = nodes.cast(nodes.joined(), onnx.TensorProto.FLOAT)
    gone = nodes.node("IsNaN", rows)
    distances = _distances(nodes, rows, gone, part)
    made = []
    for column in _kept(part):
        place = nodes.constant(np.array([column]))
        value, missing = (nodes.node("Gather", tensor, place, axis=1) for tensor in (rows, gone))
        filled = _filling(nodes, distances, part, int(column))
        if part._mask_fit_X[:, column].all():  # scikit-learn makes 0 of all of it
            value = filled
        made.append(nodes.node("Where", missing, filled, value))
    if part.add_indicator:
        marked = nodes.constant(np.asarray(part.indicator_.features_))
        made.append(nodes.cast(nodes.node("Gather", gone, marked, axis=1), onnx.TensorProto.FLOAT))
    nodes.finish(nodes.node("Concat", *made, axis=1))


def _distances(nodes: Nodes, rows: str, gone: str, part: Any) -> str:
    """Of each row to each that it was trained on [rows, trained]; infinite where they have no
    column in common."""
    known = ~part._mask_fit_X
    trained = np.where(known, part._fit_X, 0).astype(np.float32)[None]
    zero, one = nodes.constant(np.float32(0)), nodes.constant(np.float32(1))
    axis, last = nodes.constant(np.array([1])), nodes.constant(np.array([2]))
    plain = nodes.node("Unsqueeze", nodes.node("Where", gone, zero, rows), axis)
    has = nodes.cast(nodes.node("Not", nodes.node("Unsqueeze", gone, axis)), 1)
    both = nodes.node("Mul", has, nodes.constant(known[None].astype(np.float32)))
    apart = nodes.node("Mul", nodes.node("Sub", plain, nodes.constant(trained)), both)
    squares = nodes.node("ReduceSum", nodes.node("Mul", apart, apart), last, keepdims=0)
    common = nodes.node("ReduceSum", both, last, keepdims=0)
    some = nodes.node("Greater", common, zero)
    scale = nodes.constant(np.float32(trained.shape[2]))
    share = nodes.node("Div", scale, nodes.node("Where", some, common, one))
    found = nodes.node("Sqrt", nodes.node("Mul", squares, share))
    return nodes.node("Where", some, found, nodes.constant(np.float32(np.inf)))


def _filling(nodes: Nodes, distances: str, part: Any, column: int) -> str:
    """What a column is filled with [rows, 1]: of its nearest donors, or where a row has nothing in
    common with any, the mean of all of them."""
    donors = np.flatnonzero(~part._mask_fit_X[:, column])
    if not len(donors):
        return nodes.constant(np.zeros((1, 1), np.float32))
    values = part._fit_X[donors, column].astype(np.float32)
    count = nodes.constant(np.array([min(part.n_neighbors, len(donors))]))
    zero, one = nodes.constant(np.float32(0)), nodes.constant(np.float32(1))
    away = nodes.node("Gather", distances, nodes.constant(donors), axis=1)
    near, order = nodes.outputs("TopK", 2, away, count, largest=0)
    weights = nodes.node("Less", near, nodes.constant(np.float32(np.inf)))
    weights = nodes.cast(weights, onnx.TensorProto.FLOAT)
    axis = nodes.constant(np.array([1]))
    chosen = nodes.node("Mul", nodes.node("Gather", nodes.constant(values), order), weights)
    total = nodes.node("ReduceSum", weights, axis, keepdims=1)
    none = nodes.node("Equal", total, zero)
    mean = nodes.node("ReduceSum", chosen, axis, keepdims=1)
    mean = nodes.node("Div", mean, nodes.node("Where", none, one, total))
    return nodes.node("Where", none, nodes.constant(np.float32(values.mean())), mean)
