"""What a model takes: all columns as one input, or each column as one of its own.

A model that was trained on a table whose columns are of several types, or are called by name, takes
an input for each column that it uses; one that begins with a vectorizer of texts takes `text`;
every other one takes `x`, float32 [batch, columns].
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ...worker.errors import WorkerError, is_librarys
from ...worker.packages import require
from . import steps
from .encoders import is_missing

ALL, TEXT = "x", "text"


class Column(NamedTuple):
    """A column as an input. `known` is a value that it may hold; of texts, `blank` is what the
    empty one stands for: itself, or a missing value."""

    name: str
    dtype: str
    place: int
    known: Any
    blank: Any = ""

    def values(self, given: Any) -> Any:
        """An input's values as the model's own `predict` takes them, one a row."""
        flat = given.reshape(-1)
        if not is_missing(self.blank):
            return flat
        made = flat.astype(object)
        made[made == ""] = self.blank
        return made


class Takes(NamedTuple):
    """The inputs: `columns` where each is one of its own. `table` are all columns' names."""

    width: int
    columns: List[Column]
    table: Optional[List[str]]
    texts: bool = False

    def joined(self, feeds: Mapping[str, Any]) -> Any:
        """Feeds as the model's own `predict` takes them: texts, an array, a table by its names."""
        if self.texts:
            return feeds[TEXT].reshape(-1).tolist()
        if not self.columns:
            return feeds[ALL]
        size = len(feeds[self.columns[0].name])
        given = {column.place: column.values(feeds[column.name]) for column in self.columns}
        unused = np.zeros(size, np.float32)
        values = [given.get(place, unused) for place in range(self.width)]
        if self.table is None:
            return np.stack([value.astype(object) for value in values], axis=1)
        pandas = require("pandas", "pandas", "to give the model its columns by name")
        return pandas.DataFrame(dict(zip(self.table, values)))

    def missing(self, model: Any) -> Dict[str, List[int]]:
        """For which columns of which inputs the model has an answer where one is missing. Of texts
        their encoder or imputer says so; of numbers the model is asked, with NaN in a row."""
        plain: Dict[str, Any] = {
            c.name: np.array([[c.known]], _NUMPY[c.dtype]) for c in self.columns
        }
        plain = plain or {ALL: np.zeros((1, self.width), np.float32)}
        if self.texts:
            return {}
        places = [
            (name, place)
            for name, values in plain.items()
            for place in range(values.shape[1] if values.dtype.kind == "f" else 0)
        ]
        if not self._answers(model, plain, places):
            apart = hasattr(steps.first(model), "transformers_")
            places = [one for one in places if apart and self._answers(model, plain, [one])]
        found = {c.name: [0] for c in self.columns if is_missing(c.blank)}
        for name, place in places:
            found.setdefault(name, []).append(place)
        return found

    def _answers(self, model: Any, plain: Dict[str, Any], places: List[Tuple[str, int]]) -> bool:
        feeds = {name: values.copy() for name, values in plain.items()}
        for name, place in places:
            feeds[name][0, place] = np.nan
        asked = "predict_proba" if hasattr(model, "predict_proba") else "predict"
        asked = asked if hasattr(model, asked) else "transform"
        try:
            given = getattr(model, asked)(self.joined(feeds))
        # What the libraries raise of NaN has no class of its own; what isn't theirs goes on.
        except Exception as error:
            if not is_librarys(error):
                raise
            return False
        given = np.asarray(given.toarray() if hasattr(given, "toarray") else given)
        return given.dtype.kind != "f" or not np.isnan(given).any()


_NUMPY = {
    "float32": np.float32, "float64": np.float64, "int64": np.int64, "bool": np.bool_,
    "string": object,
}  # fmt: skip


def of(model: Any) -> Takes:
    """What a model takes. Raises unsupported where it doesn't say how many columns that are."""
    first = steps.first(model)
    if _reads_texts(first):
        return Takes(1, [], None, texts=True)
    width = getattr(model, "n_features_in_", None)
    if width is None:
        kind = steps.name_of(first)
        raise WorkerError(
            "unsupported",
            "the model doesn't say how many columns it takes",
            [
                f"{kind}: it has no n_features_in_, so it isn't fitted, or it takes words or "
                "dictionaries"
            ],
        )
    names = getattr(model, "feature_names_in_", None)
    table = None if names is None else [str(name) for name in names]
    if not hasattr(first, "transformers_"):
        return _of_one(first, int(width), table)
    kinds, by_name = _kinds(first, table, int(width))
    if not by_name and {kind for kind, _, _ in kinds.values()} <= {"float32"}:
        return Takes(int(width), [], table)
    called = table or [f"x{place}" for place in range(int(width))]
    columns = [Column(called[at], kind, at, *rest) for at, (kind, *rest) in sorted(kinds.items())]
    return Takes(int(width), columns, table)


def _reads_texts(first: Any) -> bool:
    """Whether a step is a vectorizer of texts, or several of them side by side."""
    if type(first).__name__ == "FeatureUnion":
        return all(_reads_texts(steps.first(part)) for _, part in first.transformer_list)
    return hasattr(first, "vocabulary_") and hasattr(first, "build_analyzer")


def _of_one(first: Any, width: int, table: Optional[List[str]]) -> Takes:
    """What a first step takes that has all columns to itself: each is an input where it asks for
    other than float32."""
    kinds = [_kind(first, place) for place in range(width)]
    if {kind for kind, _, _ in kinds} <= {"float32"}:
        return Takes(width, [], table)
    called = table or [f"x{place}" for place in range(width)]
    columns = [Column(called[at], *_placed(kind, at)) for at, kind in enumerate(kinds)]
    return Takes(width, columns, table)


Kind = Tuple[str, Any, Any]
"""What a column is taken in: its dtype, a value that it may hold, what the empty text is."""


def _placed(kind: Kind, place: int) -> Tuple[str, int, Any, Any]:
    return kind[0], place, kind[1], kind[2]


def _kinds(first: Any, table: Optional[List[str]], width: int) -> Tuple[Dict[int, Kind], bool]:
    """How each column that a ColumnTransformer uses is taken, and whether any is called by name."""
    kinds: Dict[int, Kind] = {}
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
            plain = kinds.get(place, _PLAIN)[0] == "float32"
            kinds[place] = kind if plain else kinds[place]
    return kinds, by_name


def _listed(chosen: Any) -> List[Any]:
    return [] if isinstance(chosen, (int, slice)) else list(chosen)


_PLAIN: Kind = ("float32", 0.0, "")


def _kind(step: Any, number: int) -> Kind:
    """How a step takes a column: as the categories or fillings are that it has of it."""
    for part in steps.pipeline(step):
        if hasattr(part, "vocabulary_"):
            return "string", "", ""
        if hasattr(part, "categories_"):
            return _of_values(np.asarray(part.categories_[number]))
        if hasattr(part, "statistics_"):
            return _filled(part, part.statistics_[number])
    return _PLAIN


def _filled(part: Any, value: Any) -> Kind:
    """How an imputer takes a column that it fills with a value."""
    if not isinstance(value, str):
        return _PLAIN
    return "string", value, part.missing_values if is_missing(part.missing_values) else ""


def _of_values(categories: Any) -> Kind:
    """How an encoder takes a column of such categories."""
    there = [item for item in categories if not is_missing(item)]
    gone = [item for item in categories if is_missing(item)]
    if all(isinstance(item, str) for item in there):
        return "string", there[0] if there else "", gone[0] if gone else ""
    if all(isinstance(item, (bool, np.bool_)) for item in there):
        return "bool", bool(there[0]), ""
    if not gone and all(isinstance(item, (int, np.integer)) for item in there):
        return "int64", int(there[0]), ""
    exact = any(float(np.float32(item)) != float(item) for item in there)
    return "float64" if exact else "float32", float(there[0]), ""
