"""What a model is made of."""

from __future__ import annotations

from typing import Any, Iterator, List, Tuple


def name_of(part: Any) -> str:
    """The class of an estimator, as scikit-learn's users call it."""
    return str(getattr(part, "called", None) or type(part).__name__)


def library_of(part: Any) -> str:
    """The module that an estimator is of: `xgboost`, `lightgbm`, or `sklearn` for any other."""
    named = getattr(part, "library", None) or type(part).__module__.partition(".")[0]
    return str(named) if named in ("xgboost", "lightgbm") else "sklearn"


def pipeline(model: Any) -> List[Any]:
    """The steps of a pipeline, those of pipelines in it in their place; else the model alone."""
    if type(model).__name__ != "Pipeline":
        return [model]
    steps = [step for _, step in model.steps if step not in (None, "passthrough")]
    return [inner for step in steps for inner in pipeline(step)]


def found(model: Any) -> Any:
    """What a search over parameters (GridSearchCV) found; any other model itself."""
    while hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    return model


def first(model: Any) -> Any:
    """The step that takes the inputs."""
    return pipeline(model)[0]


def last(model: Any) -> Any:
    """The step that gives the outputs."""
    return pipeline(model)[-1]


def names(model: Any) -> List[str]:
    """The classes of the steps, in order."""
    return [name_of(step) for step in pipeline(model)]


def parts(model: Any) -> Iterator[Tuple[Any, float]]:
    """Every object that can be reached from a model, whatever holds it, and the most columns that
    what is around it takes (infinite where nothing says so)."""
    import numpy as np

    waiting: List[Tuple[Any, float]] = [(model, np.inf)]
    seen = set()
    keep = []  # an object that goes leaves its id to another
    while waiting:
        item, columns = waiting.pop()
        if isinstance(item, (str, bytes, int, float, type(None))) or (id(item), columns) in seen:
            continue
        seen.add((id(item), columns))
        keep.append(item)
        columns = _columns(item, columns)
        yield item, columns
        waiting += [(inner, columns) for inner in _inside(item)]


_TREES = ("sklearn.tree.", "sklearn.ensemble._forest", "sklearn.ensemble._gb",
          "sklearn.ensemble._hist_gradient_boosting")  # fmt: skip


def _columns(item: Any, columns: float) -> float:
    """How many columns the trees of an estimator see: those of another one are its own affair."""
    taken = getattr(item, "n_features_in_", None) if hasattr(item, "get_params") else None
    if taken is None:
        return columns
    if not type(item).__module__.startswith(_TREES):
        return float("inf")
    return min(columns, int(taken))


def _inside(item: Any) -> List[Any]:
    import numpy as np

    if isinstance(item, dict):
        return list(item.values())
    if isinstance(item, (list, tuple, set, frozenset)):
        return list(item)
    if isinstance(item, np.ndarray):
        return list(item.ravel()) if item.dtype == object else []
    return [] if isinstance(item, type) else list(getattr(item, "__dict__", {}).values())
