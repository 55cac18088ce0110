"""OneHotEncoder and OrdinalEncoder with all that decides on rare and unknown categories."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from sklearn import compose, preprocessing

from converter.runtime.worker import Worker
from tests.sklearn.conftest import both
from tests.sklearn.models import saved

COLUMNS = ["a text", "number", "part", "flag"]


def table() -> pandas.DataFrame:
    """A column of texts, of integers, of floats that float32 doesn't hold, and of booleans."""
    generator = np.random.default_rng(5)
    texts = generator.choice(["a", "b", "c", "rare", "é"], 80, p=[0.4, 0.3, 0.2, 0.05, 0.05])
    numbers = generator.integers(0, 4, 80)
    parts = generator.choice([0.1, 0.2, 1.5], 80, p=[0.6, 0.36, 0.04])
    return pandas.DataFrame({
        "a text": texts, "number": numbers, "part": parts, "flag": numbers > 1,
    })  # fmt: skip


def feeds(unknown: bool) -> dict[str, Any]:
    """Rows of known categories, and of others."""
    strange = [["a", "é", "rare", "zz", ""], [0, 3, 2, 9, -1], [0.1, 0.2, 1.5, 7, 0.3]]
    rows = [column if unknown else [*column[:3], *column[:2]] for column in strange]
    kinds = (object, np.int64, np.float64, np.bool_)
    rows.append([True, False, True, False, True])
    each = zip(COLUMNS, kinds, rows, strict=True)
    return {name: np.array(column, kind)[:, None] for name, kind, column in each}


OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"drop": "first"}, {"drop": "if_binary"}, {"min_frequency": 5}, {"max_categories": 2},
    {"min_frequency": 5, "drop": "first"}, {"dtype": np.int64},
)  # fmt: skip
UNKNOWN = ("error", "ignore", "infrequent_if_exist", "warn")


@pytest.mark.parametrize(("unknown", "options"), itertools.product(UNKNOWN, OPTIONS))
def test_one_hot(unknown: str, options: Any, worker: Worker, tmp_path: Path) -> None:
    encoder = preprocessing.OneHotEncoder(handle_unknown=unknown, **options)
    model = compose.ColumnTransformer([("codes", encoder, COLUMNS)]).fit(table())
    path = saved(model, tmp_path / "m.joblib")
    ((name, wanted, found),) = both(worker, path, feeds(unknown != "error"))
    assert name == "value"
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("options", [
    {}, {"min_frequency": 5}, {"handle_unknown": "use_encoded_value", "unknown_value": -7},
    {"handle_unknown": "use_encoded_value", "unknown_value": np.nan},
])  # fmt: skip
def test_ordinal(options: Any, worker: Worker, tmp_path: Path) -> None:
    encoder = preprocessing.OrdinalEncoder(**options)
    model = compose.ColumnTransformer([("codes", encoder, COLUMNS)]).fit(table())
    path = saved(model, tmp_path / "m.joblib")
    given = feeds("unknown_value" in options)
    ((_, wanted, found),) = both(worker, path, given)
    np.testing.assert_array_equal(found, wanted)
    assert len({str(value) for value in found.ravel()}) > 3


@pytest.mark.parametrize("kind", [preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder])
@pytest.mark.parametrize("column", COLUMNS[:3])
def test_an_unknown_category_that_is_an_error_stays_one(
    kind: Any, column: str, worker: Worker, tmp_path: Path
) -> None:
    model = compose.ColumnTransformer([("codes", kind(), [column])]).fit(table()[[column]])
    path = saved(model, tmp_path / "m.joblib")
    both(worker, path, {column: feeds(unknown=False)[column]})
    session = onnxruntime.InferenceSession(path.with_suffix(".onnx"))
    with pytest.raises(Fail, match="Unknown Category"):
        session.run(None, {column: feeds(unknown=True)[column]})
