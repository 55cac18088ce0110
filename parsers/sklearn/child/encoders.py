"""OneHotEncoder and OrdinalEncoder in ONNX: a table with a row for each category of a column.

The rows are what the encoder itself gives for the category, so that `drop`, `min_frequency`,
`max_categories` and every `handle_unknown` are in them; the last row is what it gives for a value
that it doesn't know. Where that is an error, the graph has none, and ONNX Runtime raises one too.
A category that stands for a missing value is NaN among numbers, the empty text among texts.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from typing import Any, List

import numpy as np
import onnx
from skl2onnx import update_registered_converter
from skl2onnx.common import data_types
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from ...worker.errors import WorkerError
from .nodes import ML, Nodes

UNSEEN = "\x02 a text that was never seen \x03"
_INT64, _FLOAT = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def register() -> None:
    """Make skl2onnx take these converters for the encoders."""
    for kind in (OneHotEncoder, OrdinalEncoder):
        update_registered_converter(kind, f"Sklearn{kind.__name__}", _set_shape, _convert)


def _set_shape(operator: Any) -> None:
    part = operator.raw_operator
    width = sum(_widths(part))
    integers = np.issubdtype(part.dtype, np.signedinteger)
    kind = data_types.Int64TensorType if integers else data_types.FloatTensorType
    operator.outputs[0].type = kind([operator.inputs[0].get_first_dimension(), width])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    nodes, part = Nodes(scope, operator, container), operator.raw_operator
    made = []
    for (name, kind), categories, table in zip(nodes.columns(), part.categories_, tables(part)):
        if table.shape[1]:
            place = _place(nodes, name, kind, categories, len(table) == len(categories))
            made.append(nodes.node("Gather", nodes.constant(table), place, axis=0))
    nodes.finish(made[0] if len(made) == 1 else nodes.node("Concat", *made, axis=1))


def _widths(part: Any) -> List[int]:
    """How many columns the encoder makes of each."""
    if isinstance(part, OrdinalEncoder):
        return [1] * len(part.categories_)
    return [int(width) for width in part._n_features_outs]


def tables(part: Any) -> List[Any]:
    """For each column what the encoder gives for its categories, in order, and for a value that it
    doesn't know, float32 [categories + 1, width]; without that row where such a value is an error.
    """
    strict = part.handle_unknown == "error"
    sizes = [len(categories) for categories in part.categories_]
    rows = np.empty((max(sizes) + (not strict), len(sizes)), object)
    for place, categories in enumerate(part.categories_):
        rows[:, place] = categories[0]
        rows[: len(categories), place] = categories
        if not strict:
            rows[-1, place] = _unseen(categories)
    given = part.transform(_typed(rows, part))
    given = np.asarray(given.toarray() if hasattr(given, "toarray") else given, np.float32)
    ends = np.cumsum(_widths(part))
    pieces = np.split(given, ends[:-1], axis=1)
    last = [] if strict else [-1]
    return [piece[[*range(size), *last]] for piece, size in zip(pieces, sizes)]


def _unseen(categories: Any) -> Any:
    if _is_text(categories):
        return UNSEEN
    if categories.dtype.kind == "b":
        return not categories[0]
    numbers = np.asarray(categories, np.float64)
    return np.asarray(np.nanmax(numbers, initial=0) + 1, categories.dtype)[()]


def _typed(rows: Any, part: Any) -> Any:
    """The rows as numbers where all columns are of one dtype of numbers."""
    kinds = {categories.dtype for categories in part.categories_}
    kind = next(iter(kinds))
    return rows if len(kinds) > 1 or kind.hasobject else rows.astype(kind)


def _is_text(categories: Any) -> bool:
    return any(isinstance(item, str) for item in categories)


def _place(nodes: Nodes, name: str, kind: Any, categories: Any, strict: bool) -> str:
    """The index of each row's category, int64 [rows]; one that isn't known is behind the last, or
    an error."""
    count = len(categories)
    if isinstance(kind, data_types.StringTensorType):
        places: Any = {"values_int64s": list(range(count)), "default_int64": count}
        keys: Any = {"keys_strings": texts(categories)}
        name = nodes.node("LabelEncoder", name, domain=ML, **keys, **places)
    else:
        name = _place_of_number(nodes, name, kind, categories)
    if strict:
        known = list(range(count))
        coded = nodes.node("OneHotEncoder", name, domain=ML, cats_int64s=known, zeros=0)
        name = nodes.node("ArgMax", coded, axis=-1, keepdims=0)
    return nodes.node("Reshape", name, nodes.constant(np.array([-1])))


def _place_of_number(nodes: Nodes, name: str, kind: Any, categories: Any) -> str:
    """As `_place`, of a column of numbers: integers, float32, or float64 where it isn't enough."""
    types = {data_types.DoubleTensorType: np.float64, data_types.Int64TensorType: np.int64}
    numbers = np.asarray(categories).astype(types.get(type(kind), np.float32))
    if isinstance(kind, data_types.BooleanTensorType):
        name = nodes.cast(name, _FLOAT)
    same = nodes.node("Equal", name, nodes.constant(numbers[None]))
    if np.isnan(numbers).any():
        missing = nodes.node("And", nodes.node("IsNaN", name), nodes.constant(np.isnan(numbers)))
        same = nodes.node("Or", same, missing)
    ahead = np.arange(len(numbers), dtype=np.float32)[:, None] - len(numbers)
    from_end = nodes.node("MatMul", nodes.cast(same, _FLOAT), nodes.constant(ahead))
    count = nodes.constant(np.float32(len(numbers)))
    return nodes.cast(nodes.node("Add", from_end, count), _INT64)


def texts(categories: Any) -> List[str]:
    """Categories as ONNX's text has them: the one for a missing value is the empty text.

    Raises unsupported where two would be the same text.
    """
    found = ["" if is_missing(item) else str(item) for item in categories]
    if len(set(found)) < len(found):
        raise WorkerError(
            "unsupported",
            "ONNX's text has only one value for missing data",
            [f"categories {list(categories)!r}: two of them are the same text in ONNX"],
        )
    return found


def is_missing(value: Any) -> bool:
    """Whether a category stands for a missing value: None, NaN, pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or value != value
