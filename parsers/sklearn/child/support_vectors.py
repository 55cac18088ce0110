"""Whether the numbers of a support vector machine, and of gradient boosting, belong together:
scikit-learn's native code (libsvm) reads by the sizes that they name, without looking."""

from __future__ import annotations

from typing import Any

from ...worker.errors import WorkerError

_MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
_BOOSTING = ("GradientBoostingClassifier", "GradientBoostingRegressor")


def hold(part: Any) -> None:
    """Raise broken for a machine or gradient boosting that leads out of its numbers."""
    kind = type(part)
    if kind.__module__ == "sklearn.svm._classes" and kind.__name__ in _MACHINES:
        _require(part, _machine_held)
    if kind.__module__ == "sklearn.ensemble._gb" and kind.__name__ in _BOOSTING:
        _require(part, _boosting_held)


def _require(part: Any, held: Any) -> None:
    if not hasattr(part, "n_features_in_"):
        return  # never trained
    try:
        if held(part):
            return
    except (AttributeError, IndexError, TypeError, ValueError):  # a number is of another kind
        pass
    raise WorkerError("broken", f"a {type(part).__name__} refers to numbers that don't exist")


def _machine_held(part: Any) -> bool:
    import numpy as np

    classifier = type(part).__name__ in ("SVC", "NuSVC")
    counts = np.asarray(part._n_support, np.int64)[: None if classifier else 1]
    support = np.asarray(part.support_, np.int64)
    trained, width = part.shape_fit_
    pairs = len(counts) * (len(counts) - 1) // 2 if classifier else 1
    held = bool((counts >= 0).all()) and int(counts.sum()) == len(support)
    if callable(part.kernel) or part.kernel == "precomputed":
        # No vectors are kept: their numbers say which columns of the kernel count.
        held = held and bool(((support >= 0) & (support < trained)).all())
        held = held and (callable(part.kernel) or part.n_features_in_ == trained)
    else:
        held = held and part.support_vectors_.shape == (len(support), width)
        held = held and part.n_features_in_ == width
    held = held and (not classifier or len(counts) >= 2)
    held = held and part._dual_coef_.shape == (max(len(counts) - 1, 1), len(support))
    held = held and part._intercept_.size == pairs
    return bool(held and {part._probA.size, part._probB.size} <= {0, pairs})


def _boosting_held(part: Any) -> bool:
    stages = part.estimators_
    return bool(stages.ndim == 2 and stages.shape[1] == part.n_trees_per_iteration_)
