"""A table as it was trained on: its CSV, its columns' names, texts, gaps and labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas
import pytest
from sklearn import (
    compose,
    impute,
    linear_model,
    model_selection,
    pipeline,
    preprocessing,
)
from sklearn.feature_extraction.text import TfidfVectorizer

from converter.runtime.worker import Worker
from tests.acceptance.cli import command
from tests.sklearn.conftest import both
from tests.sklearn.models import saved

WORDS = ["good product", "very good thing", "bad product", "naïve café good", "ÇA va"]


def customers(count: int = 80) -> pandas.DataFrame:
    """Numbers, gaps, categories, texts, a number for each row, and what is to be told."""
    generator = np.random.default_rng(4)
    frame = pandas.DataFrame({
        "customer": np.arange(count), "Work class": generator.choice(
            ["Private", "Self emp", "rare", "State"], count, p=[0.5, 0.25, 0.05, 0.2]),
        "Age": generator.integers(18, 80, count), "income": generator.normal(3e4, 1e4, count),
        "note": generator.choice(WORDS, count),
    })  # fmt: skip
    frame.loc[::7, "income"] = np.nan
    frame["tier"] = np.where((frame["Age"] > 45) ^ (frame["Work class"] == "State"), "gold", "blue")
    return frame


def trained() -> Any:
    """A pipeline on all of these columns but the number and what is to be told."""
    columns = compose.ColumnTransformer([
        ("classes", preprocessing.OneHotEncoder(
            min_frequency=6, handle_unknown="infrequent_if_exist"), ["Work class"]),
        ("numbers", pipeline.make_pipeline(
            impute.SimpleImputer(), preprocessing.StandardScaler()), ["Age", "income"]),
        ("words", TfidfVectorizer(ngram_range=(1, 2)), "note"),
    ])  # fmt: skip
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression(max_iter=300))
    frame = customers()
    return model.fit(frame.drop(columns=["customer", "tier"]), frame["tier"])


@pytest.mark.slow
@pytest.mark.smoke
def test_a_table_is_converted_from_the_csv_that_it_was_trained_on(tmp_path: Path) -> None:
    model, out = trained(), tmp_path / "out"
    customers().head(40).to_csv(tmp_path / "rows.csv", index=False)
    said = command(
        "convert", saved(model, tmp_path / "m.skops"), "--samples", tmp_path / "rows.csv",
        "--labels", "tier", "--out", out, "--no-bench", code=0,
    )  # fmt: skip
    assert "TEXT IS LOWERCASED in the locale C.UTF-8" in " ".join((said.out + said.err).split())
    report = json.loads((out / "report.json").read_text())
    assert report["samples"]["origin"] == "rows.csv (40 lines, without 'customer')"
    session = onnxruntime.InferenceSession(out / "onnx" / "fp32" / "model.onnx")
    assert {item.name for item in session.get_inputs()} == {"Work class", "Age", "income", "note"}
    others = customers().tail(5).drop(columns=["customer", "tier"])
    others["Work class"] = ["never seen", "rare", "State", "", "Private"]
    feeds = {name: _column(others[name]) for name in others}
    label, probabilities = session.run(["label", "probabilities"], feeds)
    assert label.tolist() == model.predict(others).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(others), atol=1e-5)


def test_what_a_search_found_is_the_model(worker: Worker, tmp_path: Path) -> None:
    frame = customers()
    search = model_selection.GridSearchCV(trained(), {"logisticregression__C": [0.1, 1]}, cv=2).fit(
        frame.drop(columns=["customer", "tier"]), frame["tier"]
    )
    feeds = {name: _column(frame[name]) for name in ("Work class", "Age", "income", "note")}
    found = both(worker, saved(search, tmp_path / "m.joblib"), feeds)
    assert found[0][2].tolist() == search.predict(frame).tolist()
    np.testing.assert_allclose(found[1][2], search.predict_proba(frame), atol=1e-5)


def _column(values: Any) -> Any:
    text = not pandas.api.types.is_numeric_dtype(values)
    return values.to_numpy(object if text else np.float32)[:, None]
