"""NaN that is a value: trees send it one way, imputers fill it; elsewhere it is refused."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas
import pytest
import xgboost
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn import compose, ensemble, impute, linear_model, pipeline, preprocessing

from converter.errors import UnsupportedError
from converter.runtime.worker import Worker
from tests.acceptance.cli import command
from tests.sklearn.conftest import both
from tests.sklearn.models import saved

NAMES = ["height", "Work class", "c", "d"]


def rows(missing: float = 0.25, count: int = 200) -> tuple[Any, Any]:
    """Rows of which a share is missing, and their classes; one row is all missing."""
    generator = np.random.default_rng(3)
    made = generator.standard_normal((count, 4)).astype(np.float32)
    classes = (made[:, 0] + made[:, 1] * made[:, 2] > 0).astype(int)
    made[generator.random(made.shape) < missing] = np.nan
    if missing:
        made[1] = np.nan
    return made, classes


MODELS = {
    "forest": ensemble.RandomForestClassifier(5, random_state=1),
    "extra": ensemble.ExtraTreesRegressor(5, random_state=1),
    "histogram": ensemble.HistGradientBoostingClassifier(max_iter=5),
    "xgboost": xgboost.XGBClassifier(n_estimators=5),
    "lightgbm": LGBMClassifier(n_estimators=5, verbose=-1),
    "imputed": pipeline.make_pipeline(
        impute.SimpleImputer(strategy="median", add_indicator=True), linear_model.Ridge()),
    "neighbours": impute.KNNImputer(n_neighbors=3, add_indicator=True),
}  # fmt: skip


@pytest.mark.parametrize("trained_on", [0.25, 0.0], ids=["with NaN", "without"])
@pytest.mark.parametrize("name", MODELS)
def test_nan_gives_what_the_model_gives(
    name: str, trained_on: float, worker: Worker, tmp_path: Path
) -> None:
    path = saved(MODELS[name].fit(*rows(trained_on)), tmp_path / "m.joblib")
    for output, wanted, found in both(worker, path, {"x": rows(0.4)[0]}):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=output)


@pytest.mark.slow
def test_empty_cells_are_missing_values(tmp_path: Path) -> None:
    table, classes = rows()
    model = xgboost.XGBClassifier(n_estimators=5)
    model.fit(pandas.DataFrame(table, columns=NAMES), classes)
    out = tmp_path / "out"
    cells = written(tmp_path / "rows.csv", table[:30])
    path = saved(model, tmp_path / "m.json")
    command("convert", path, "--samples", cells, "--out", out, "--no-bench", code=0)
    session = onnxruntime.InferenceSession(out / "onnx" / "fp32" / "model.onnx")
    found = session.run(["probabilities"], {"x": rows(0.5)[0]})[0]
    np.testing.assert_allclose(found, model.predict_proba(rows(0.5)[0]), atol=1e-5)
    report = json.loads((out / "report.json").read_text())
    assert report["samples"]["origin"] == "rows.csv (30 lines, without 'id')"


def written(path: Path, table: Any) -> Path:
    """A CSV, in which NaN is an empty cell, with a column that no model takes."""
    cells = [["" if np.isnan(value) else value for value in row] for row in table.tolist()]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*NAMES, "id"], *([*row, n] for n, row in enumerate(cells))])
    return path


@pytest.mark.slow
def test_where_the_model_has_no_answer_row_and_column_are_named(tmp_path: Path) -> None:
    columns = compose.ColumnTransformer([
        ("filled", impute.SimpleImputer(), ["height"]),
        ("as it is", preprocessing.StandardScaler(), ["Work class", "c"]),
    ])  # fmt: skip
    table, classes = rows(0.0)
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression())
    model.fit(pandas.DataFrame(table, columns=NAMES), classes)
    table = table[:5].copy()
    table[1, 0] = table[3, 1] = np.nan
    path = saved(model, tmp_path / "m.skops")
    csv = written(tmp_path / "rows.csv", table)
    said = command("convert", path, "--samples", csv, "--no-bench", cwd=tmp_path)
    assert said.code == 2
    told = " ".join(said.err.split())
    assert "rows.csv, line 5, column 'Work class': '' isn't of type float32" in told
    assert "the model has no answer where it is missing" in told


@pytest.mark.parametrize(("model", "says"), [
    (LGBMRegressor(n_estimators=3, verbose=-1, zero_as_missing=True), "zero_as_missing"),
    (xgboost.XGBRegressor(n_estimators=3, booster="dart"), "booster dart"),
    (pipeline.make_pipeline(impute.KNNImputer(weights="distance"), linear_model.Ridge()),
     "weights that aren't uniform"),
    (ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features=[0]),
     "split on categories"),
])  # fmt: skip
def test_what_onnx_has_not_is_named(model: Any, says: str, worker: Worker, tmp_path: Path) -> None:
    table, classes = rows(0.0)
    table[:, 0] = np.floor(3 * np.abs(table[:, 0]))
    with pytest.raises(UnsupportedError) as caught:
        both(worker, saved(model.fit(table, classes), tmp_path / "m.joblib"), {"x": table})
    assert says in str(caught.value.items)


def test_texts_that_are_missing_are_empty(worker: Worker, tmp_path: Path) -> None:
    texts = np.array([["a", "x"], ["b", np.nan], [np.nan, "y"], ["a", "y"]], object)
    filled = pipeline.make_pipeline(
        impute.SimpleImputer(strategy="most_frequent"),
        preprocessing.OneHotEncoder(handle_unknown="ignore"),
    )
    feeds = {
        "x0": np.array([["a"], [""], ["zz"]], object),
        "x1": np.array([[""], ["y"], ["x"]], object),
    }
    for model in (filled, preprocessing.OneHotEncoder(handle_unknown="ignore")):
        path = saved(model.fit(texts), tmp_path / "m.joblib")
        for _, wanted, found in both(worker, path, feeds):
            assert found.tolist() == wanted.tolist()
            assert wanted.sum(1).tolist() == [2, 2, 1]


@pytest.mark.slow
def test_an_onnx_file_of_trees_takes_what_is_missing(worker: Worker, tmp_path: Path) -> None:
    table, classes = rows()
    path = saved(xgboost.XGBClassifier(n_estimators=5).fit(table, classes), tmp_path / "m.json")
    both(worker, path, {"x": table})
    np.savez(tmp_path / "rows.npz", x=table[:20])
    asked = ("--samples", "rows.npz", "--no-bench", "--out", "out")
    command("convert", "m.onnx", *asked, cwd=tmp_path, code=0)
