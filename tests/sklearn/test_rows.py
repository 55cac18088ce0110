"""A CSV's columns, as a model's file names them: samples, and what a loaded model is asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import skops.io
from sklearn import compose, datasets, linear_model, pipeline, preprocessing

import modelyard
from tests.acceptance.cli import typed, written
from tests.serving.test_files_package import asked

ROW = {"kind": "row", "inputs": [{"name": "x", "columns": ["b", "a"], "dtype": "float32"}]}


def test_a_pipeline_takes_its_csv(tmp_path: Path) -> None:
    """Columns in another order, and more of them: those that it was trained on count."""
    iris = datasets.load_iris(as_frame=True)
    rows = iris.data.astype("float32")
    names = np.array(iris.target_names)[iris.target]
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression()
    ).fit(rows, names)
    skops.io.dump(model, tmp_path / "m.skops")
    table = rows[rows.columns[::-1]].assign(note=1, label=names)[::10]
    table.to_csv(tmp_path / "a.csv", index=False)
    served = "--prepare server --serve litserve"
    typed(f"convert m.skops --samples a.csv {served} --no-bench --out out", tmp_path)
    declared = json.loads((tmp_path / "out/manifest.json").read_text())["declared"]
    assert "prepare (row): from the columns that it was trained on" in declared["notes"]
    right = model.predict_proba(rows[::10])
    with modelyard.load(tmp_path / "out") as net:
        for given in (tmp_path / "a.csv", str(tmp_path / "a.csv")):
            told = net(given).told["classes"]
            assert [row[0]["label"] for row in told] == list(model.predict(rows[::10]))
            best = [row[0]["score"] for row in told]
            np.testing.assert_allclose(best, right.max(axis=1), atol=1e-5)
        np.testing.assert_allclose(net(table)["probabilities"], right, atol=1e-5)
    sent = (tmp_path / "a.csv").read_text()
    [(_, said)] = asked(tmp_path / "out/serving/litserve/m", (sent, "text/csv"))
    for row, known in zip(said["classes"], told, strict=True):
        assert [item["label"] for item in row] == [item["label"] for item in known]
        assert row[0]["score"] == pytest.approx(known[0]["score"], abs=1e-5)


@pytest.mark.slow
def test_columns_of_texts_and_numbers(tmp_path: Path) -> None:
    table = pandas.DataFrame({"age": [1.0, 2, 3] * 8, "city": ["a", "b", "c", "b"] * 6,
                              "pay": np.arange(24.0)})  # fmt: skip
    parts = [("n", preprocessing.StandardScaler(), ["age", "pay"]),
             ("c", preprocessing.OneHotEncoder(), ["city"])]  # fmt: skip
    model = pipeline.make_pipeline(
        compose.ColumnTransformer(parts), linear_model.LogisticRegression()
    ).fit(table, np.arange(24) % 2)
    skops.io.dump(model, tmp_path / "m.skops")
    table[["pay", "city", "age"]].to_csv(tmp_path / "a.csv", index=False)
    typed("convert m.skops --samples a.csv --no-bench --out out", tmp_path)
    right = model.predict_proba(table)
    with modelyard.load(tmp_path / "out") as net:
        told = net(str(tmp_path / "a.csv")).told["classes"]
        np.testing.assert_allclose([row[0]["score"] for row in told], right.max(1), atol=1e-5)
        np.testing.assert_allclose(net(table)["probabilities"], right, atol=1e-5)


def test_a_row_that_is_written_names_the_samples_columns(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", "g (float[batch, 2] x) => (float[batch, 2] y) { y = Neg(x) }")
    (tmp_path / "a.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    made = modelyard.convert(tmp_path / "m.onnx", samples=tmp_path / "a.csv", bench=False,
                             prepare=ROW, out=tmp_path / "out")  # fmt: skip
    assert made.report is not None and made.report.samples is not None
    assert made.report.samples.count == 2
    with modelyard.load(made.out) as net:
        assert net(tmp_path / "a.csv")["y"].tolist() == [[-2.0, -1.0], [-5.0, -4.0]]
    typed("convert m.onnx --samples a.csv --no-bench --out no", tmp_path, code=2)
