"""Models trained in a moment on the tables that scikit-learn brings, and files of them."""

from __future__ import annotations

import csv
import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas
import skops.io
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn import (
    cluster,
    compose,
    datasets,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
)
from xgboost import XGBClassifier, XGBRegressor

TABLES = {
    "iris": datasets.load_iris, "cancer": datasets.load_breast_cancer, "wine": datasets.load_wine,
    "digits": datasets.load_digits, "diabetes": datasets.load_diabetes,
}  # fmt: skip

MODELS = {
    "pipeline": ("iris", lambda: pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression())),
    "forest": ("digits", lambda: ensemble.RandomForestClassifier(20, random_state=1)),
    "boosting": ("diabetes", lambda: ensemble.GradientBoostingRegressor(random_state=1)),
    "histogram": ("diabetes", lambda: ensemble.HistGradientBoostingRegressor(max_iter=20)),
    "svc": ("wine", lambda: pipeline.make_pipeline(
        preprocessing.StandardScaler(), svm.SVC(probability=True, random_state=1))),
    "linear_svc": ("iris", lambda: svm.LinearSVC(random_state=1)),
    "svc_of_two": ("cancer", lambda: pipeline.make_pipeline(
        preprocessing.StandardScaler(), svm.SVC())),
    "discriminant_of_two": ("cancer", lambda: pipeline.make_pipeline(
        preprocessing.StandardScaler(), discriminant_analysis.LinearDiscriminantAnalysis())),
    "ridge_of_two": ("cancer", lambda: linear_model.RidgeClassifier()),
    "votes": ("iris", lambda: ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())],
        voting="soft", flatten_transform=False)),
    "network": ("wine", lambda: pipeline.make_pipeline(
        preprocessing.StandardScaler(), feature_selection.SelectKBest(k=5),
        neural_network.MLPClassifier(max_iter=30))),
    "kmeans": ("iris", lambda: cluster.KMeans(3, n_init=2, random_state=1)),
    "pca": ("wine", lambda: decomposition.PCA(3)),
    "neighbors": ("iris", lambda: neighbors.KNeighborsClassifier(algorithm="brute")),
    "outliers": ("iris", lambda: ensemble.IsolationForest(n_estimators=10, random_state=1)),
    "xgboost": ("iris", lambda: XGBClassifier(n_estimators=10)),
    "xgboost_value": ("diabetes", lambda: XGBRegressor(n_estimators=10)),
    "lightgbm": ("diabetes", lambda: LGBMRegressor(n_estimators=20, verbose=-1)),
    "lightgbm_classes": ("wine", lambda: LGBMClassifier(n_estimators=10, verbose=-1)),
}  # fmt: skip
"""The table that each is trained on, and what makes it."""


@cache
def table(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows in float32, and what is to be told of them."""
    rows, wanted = TABLES[name](return_X_y=True)
    return rows.astype(np.float32), wanted


@cache
def trained(name: str) -> Any:
    """One of :data:`MODELS`."""
    of, make = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's of what it is going to change
        return make().fit(*table(of))


def rows_of(name: str) -> np.ndarray[Any, Any]:
    """The rows that a model was trained on."""
    return table(MODELS[name][0])[0]


def mixed() -> tuple[Any, pandas.DataFrame]:
    """A pipeline over columns of text and of numbers, by their names, and a table of them."""
    rows, wanted = table("iris")
    frame = pandas.DataFrame({"length": rows[:, 0], "unused": 1.0, "width": rows[:, 1]})
    frame["colour"] = np.array(["red", "green", "blue"], object)[np.arange(len(rows)) % 3]
    columns = compose.ColumnTransformer([
        ("numbers", preprocessing.StandardScaler(), ["length", "width"]),
        ("texts", preprocessing.OneHotEncoder(), ["colour"]),
    ])  # fmt: skip
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression())
    return model.fit(frame, wanted), frame


def samples(path: Path, rows: np.ndarray[Any, Any] | pandas.DataFrame, count: int = 60) -> Path:
    """A CSV of some rows, from first to last."""
    chosen = np.asarray(rows, object)[:: max(len(rows) // count, 1)]
    named = isinstance(rows, pandas.DataFrame)
    names = list(rows) if named else [f"x_{i}" for i in range(chosen.shape[1])]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *chosen.tolist()])
    return path


def saved(model: Any, path: Path) -> Path:
    """A model in a file, in the format of its suffix."""
    if path.suffix == ".skops":
        skops.io.dump(model, path)
    elif path.suffix == ".joblib":
        joblib.dump(model, path, compress=3)
    elif path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(model))
    elif path.suffix == ".txt":
        model.booster_.save_model(path)
    else:
        model.save_model(path)
    return path
