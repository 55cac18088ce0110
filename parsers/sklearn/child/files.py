"""Reads a file as what it is; of what isn't trusted nothing but known types, and those are held.

skops makes only objects of types that are trusted by name. Its own list is of types that can do
nothing; :data:`OURS` are others that do nothing but hold numbers, once these are looked at.
"""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Callable, Dict, Mapping

from ...worker import archive
from ...worker.errors import WorkerError, from_user_code
from ...worker.packages import require
from . import lightgbm_trees, steps, support_vectors, xgboost_trees

_TREE = "sklearn.tree._tree.Tree"
_PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
_TESTS = ("f_classif", "f_regression", "chi2")
OURS = frozenset(
    (
        *(_TREE, _PREDICTOR, "collections.OrderedDict", "numpy.dtype", "xgboost.core.Booster"),
        *(f"xgboost.sklearn.XGB{name}" for name in ("Classifier", "Regressor")),
        *(f"xgboost.sklearn.XGBRF{name}" for name in ("Classifier", "Regressor")),
        *("lightgbm.basic.Booster", "lightgbm.sklearn.LGBMClassifier"),
        *("lightgbm.sklearn.LGBMRegressor", "sklearn.utils._bunch.Bunch"),
        *(f"sklearn.neural_network._stochastic_optimizers.{n}Optimizer" for n in ("Adam", "SGD")),
        *(f"sklearn.feature_selection._univariate_selection.{name}" for name in _TESTS),
    )
)
"""Types that skops doesn't trust: trees, whose numbers are held by `_hold`; boosters, whose
libraries read their own format out of bytes; a dictionary; the type of an array that NumPy reads
without objects; what only training calls."""


def opened(params: Mapping[str, Any], warn: Callable[[str], None]) -> Any:
    """The model in a file; the parameters are `load`'s.

    Raises untrusted, with every type that isn't known; broken; source, for what a trusted file's
    own code raises; unsupported, where it isn't an estimator.
    """
    path = Path(params["file"])
    read = {"skops": _skops, "pickle": _pickle, "xgboost": _xgboost, "lightgbm": _lightgbm}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = read[params["kind"]](path, params)
    for text in dict.fromkeys(str(w.message).partition(". ")[0] for w in said if _is_older(w)):
        warn(f"MADE BY ANOTHER SCIKIT-LEARN: {text}")
    warnings.simplefilter("ignore")  # arrays for a model that knows its columns by name, and such
    if not hasattr(model, "predict") and not hasattr(model, "transform"):
        what = f"{type(model).__module__}.{type(model).__qualname__}"
        raise WorkerError("unsupported", f"{path.name} holds no estimator", [f"it is a {what}"])
    return model


def _is_older(warning: warnings.WarningMessage) -> bool:
    return warning.category.__name__ == "InconsistentVersionWarning"


def _skops(path: Path, params: Mapping[str, Any]) -> Any:
    skops = require("skops.io", "skops", "to read .skops files")
    with archive.opened(path) as members:
        if problem := next(archive.grown(members), ""):
            raise WorkerError("broken", problem)
        if _count(json.loads(members.read("schema.json")), {}) > _MOST:
            raise WorkerError("broken", f"its schema has more than {_MOST:,} values")
    data = path.read_bytes()
    found = skops.get_untrusted_types(data=data)
    unknown = [name for name in found if name not in OURS]
    if unknown and not params["trust"]:
        raise WorkerError(
            "untrusted", f"{path.name} holds types that may run code when it is read", unknown
        )
    _import_found(found)
    boosters = any(name.startswith("lightgbm.") for name in found) and not params["trust"]
    with lightgbm_trees.holding() if boosters else nullcontext():
        model = skops.loads(data, trusted=found)
    if not params["trust"]:
        for part, columns in steps.parts(model):
            _hold(part, columns)
    return model


_MOST = 1_000_000
"""Values that a schema may come to, what it names again counted as often."""


def _count(value: Any, counted: Dict[Any, int]) -> int:
    """The values in one of a schema; what has an id is told once, and is named by that later."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    total = 1 + sum(_count(item, counted) for item in inner)
    if isinstance(value, dict) and (known := str(value.get("__id__", ""))):
        total = counted[known] = max(total, counted.get(known, 0))
    return total


def _import_found(names: Any) -> None:
    for library in ("xgboost", "lightgbm"):
        if any(name.startswith(f"{library}.") for name in names):
            require(library, _PACKAGES[library], "to read the model")


_PACKAGES = {"xgboost": "xgboost-cpu", "lightgbm": "lightgbm"}


def _pickle(path: Path, params: Mapping[str, Any]) -> Any:
    if not params["trust"]:
        raise WorkerError("untrusted", f"{path.name} is a pickle, which may run code")
    joblib = require("joblib", "joblib", "to read pickles")
    sys.path[:0] = [*params["search_paths"], str(path.parent)]
    try:
        return joblib.load(path)
    # A pickle runs whatever it names.
    except Exception as error:
        raise from_user_code(error, f"reading {path.name}") from error


def _xgboost(path: Path, params: Mapping[str, Any]) -> Any:
    """The model in the class of XGBoost's that its objective calls for."""
    xgboost = require("xgboost", "xgboost-cpu", "to read XGBoost's files")
    data = bytearray(path.read_bytes())  # its suffix says nothing to XGBoost that bytes don't
    booster = xgboost.Booster(model_file=data)
    xgboost_trees.hold(booster)
    objective = _objective(booster)
    classes = objective.startswith(("binary:", "multi:"))
    model = xgboost.XGBClassifier() if classes else xgboost.XGBRegressor()
    model.load_model(data)
    model.set_params(objective=objective)
    return model


def _objective(booster: Any) -> str:
    return str(json.loads(booster.save_config())["learner"]["objective"]["name"])


def _lightgbm(path: Path, params: Mapping[str, Any]) -> Any:
    lightgbm = require("lightgbm", "lightgbm", "to read LightGBM's files")
    from . import boosted

    return boosted.model(lightgbm.Booster(model_str=lightgbm_trees.held(path.read_text())))


def _hold(part: Any, columns: float) -> None:
    """Raise broken for a tree that leads out of its nodes, or asks for columns that aren't there:
    scikit-learn follows it without looking. It writes what follows a node behind it."""
    import numpy as np

    kind = f"{type(part).__module__}.{type(part).__qualname__}"
    if kind == _TREE:
        if part.node_count > part.capacity:
            raise WorkerError("broken", "a Tree has fewer nodes than it says")
        nodes, fields = part.__getstate__()["nodes"], ("left_child", "right_child", "feature")
        inner = nodes["left_child"] != -1
    elif kind == _PREDICTOR:
        nodes, fields = part.nodes, ("left", "right", "feature_idx")
        inner = nodes["is_leaf"] == 0
    else:
        if kind == "xgboost.core.Booster":
            xgboost_trees.hold(part)
        support_vectors.hold(part)
        return
    left, right, column = (nodes[inner][name].astype(np.int64) for name in fields)
    place = np.flatnonzero(inner)
    held = (left > place) & (right > place) & (np.maximum(left, right) < len(nodes))
    held &= (column >= 0) & (column < columns)
    if kind == _PREDICTOR:
        sets = min(len(part.raw_left_cat_bitsets), len(part.binned_left_cat_bitsets))
        held &= (nodes[inner]["is_categorical"] == 0) | (nodes[inner]["bitset_idx"] < sets)
    if not np.all(held):
        raise WorkerError(
            "broken", f"a {type(part).__name__} refers to nodes or columns that don't exist"
        )
