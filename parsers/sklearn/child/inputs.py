"""What a model takes: all columns as one input, or each column as one of its own.

A model that was trained on a table whose columns are of several types, or are called by name, takes
an input for each column that it uses; every other one takes `x`, float32 [batch, columns].
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ...worker.errors import WorkerError
from ...worker.packages import require
from . import steps


class Takes(NamedTuple):
    """The inputs. `columns` are (name, dtype, place) where each is an input of its own."""

    width: int
    columns: List[Tuple[str, str, int]]
    table: Optional[List[str]]

    def joined(self, feeds: Mapping[str, Any]) -> Any:
        """Feeds as the model's own `predict` takes them: an array, or a table by its names."""
        if not self.columns:
            return feeds["x"]
        size = len(feeds[self.columns[0][0]])
        given = {place: feeds[name].reshape(size) for name, _, place in self.columns}
        unused = np.zeros(size, np.float32)
        values = [given.get(place, unused) for place in range(self.width)]
        if self.table is None:
            return np.stack([value.astype(object) for value in values], axis=1)
        pandas = require("pandas", "pandas", "to give the model its columns by name")
        return pandas.DataFrame(dict(zip(self.table, values)))


def of(model: Any) -> Takes:
    """What a model takes. Raises unsupported where it doesn't say how many columns that are."""
    width = getattr(model, "n_features_in_", None)
    if width is None:
        kind = steps.name_of(steps.first(model))
        raise WorkerError(
            "unsupported",
            "the model doesn't say how many columns it takes",
            [f"{kind}: it has no n_features_in_: it isn't fitted, or takes text or dictionaries"],
        )
    names = getattr(model, "feature_names_in_", None)
    table = None if names is None else [str(name) for name in names]
    first = steps.first(model)
    if not hasattr(first, "transformers_"):
        return Takes(int(width), [], table)
    kinds, by_name = _kinds(first, table, int(width))
    if not by_name and set(kinds.values()) <= {"float32"}:
        return Takes(int(width), [], table)
    called = table or [f"x{place}" for place in range(int(width))]
    columns = [(called[place], kinds[place], place) for place in sorted(kinds)]
    return Takes(int(width), columns, table)


def _kinds(first: Any, table: Optional[List[str]], width: int) -> Tuple[Dict[int, str], bool]:
    """The dtype of each column that a ColumnTransformer uses, and whether any is called by name."""
    kinds: Dict[int, str] = {}
    by_name = False
    for _, step, chosen in first.transformers_:
        if isinstance(step, str) and step == "drop":
            continue
        named = isinstance(chosen, str) or any(isinstance(item, str) for item in _listed(chosen))
        by_name = by_name or named
        if named:
            wanted = [chosen] if isinstance(chosen, str) else list(chosen)
            places = [(table or []).index(str(name)) for name in wanted]
        else:
            places = np.atleast_1d(np.arange(width)[chosen]).tolist()
        for number, place in enumerate(places):
            kind = _kind(step, number)
            kinds[place] = kind if kinds.get(place, "float32") == "float32" else kinds[place]
    return kinds, by_name


def _listed(chosen: Any) -> List[Any]:
    return [] if isinstance(chosen, (int, slice)) else list(chosen)


def _kind(step: Any, number: int) -> str:
    """The dtype that a step takes a column in: that of the categories or fillings it has of it."""
    for part in steps.pipeline(step):
        for held in ("categories_", "statistics_"):
            values = getattr(part, held, None)
            if values is not None:
                values = values[number] if held == "categories_" else values
                found = {"O": "string", "U": "string", "i": "int64", "u": "int64"}
                return found.get(np.asarray(values).dtype.kind, "float32")
    return "float32"
