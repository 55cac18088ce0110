"""A booster of LightGBM's as an estimator: what its files hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ...worker.errors import WorkerError

_VALUES = ("regression", "poisson", "gamma", "quantile", "huber", "fair", "mape", "tweedie")
_CLASSES = ("binary", "multiclass")


class _Boosted(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both kinds have; the names are those that onnxmltools asks for."""

    called, library = "LightGBM Booster", "lightgbm"

    def __init__(self, booster: Any = None, rf: bool = False) -> None:
        self.booster = self.booster_ = booster
        self.rf = rf
        self.boosting_type = "rf" if rf else "gbdt"
        self.n_features_in_ = booster.num_feature()


class BoostedRegressor(RegressorMixin, _Boosted):  # type: ignore[misc]
    """Of the objectives that give a value."""

    def predict(self, rows: Any) -> Any:
        """A value for each row."""
        return self.booster.predict(rows)


class BoostedClassifier(ClassifierMixin, _Boosted):  # type: ignore[misc]
    """Of the objectives that give probabilities; classes are numbers from 0 on."""

    def __init__(self, booster: Any = None, rf: bool = False) -> None:
        super().__init__(booster, rf)
        self.classes_ = np.arange(max(booster.num_model_per_iteration(), 2))

    def predict_proba(self, rows: Any) -> Any:
        """Each class's probability, for each row."""
        found = self.booster.predict(rows)
        return found if found.ndim == 2 else np.stack([1 - found, found], axis=1)

    def predict(self, rows: Any) -> Any:
        """The likeliest class of each row."""
        return self.classes_[np.argmax(self.predict_proba(rows), axis=1)]


def model(booster: Any) -> Any:
    """The estimator that a booster's objective calls for. Raises unsupported for a ranker."""
    told = booster.dump_model(num_iteration=1)
    objective = str(told.get("objective", "")).partition(" ")[0]
    for names, kind in ((_VALUES, BoostedRegressor), (_CLASSES, BoostedClassifier)):
        if objective.startswith(names):
            return kind(booster, bool(told.get("average_output")))
    raise WorkerError(
        "unsupported",
        "onnxmltools can't translate LightGBM's objective",
        [f"objective {objective or '(its own)'}"],
    )
