"""Whether XGBoost's trees lead where they can: it reads them by their sizes alone, and follows them
without looking. The fields: https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping

from ...worker.errors import WorkerError


def hold(booster: Any) -> None:
    """Raise broken for a tree that leads out of its nodes, columns, categories or classes, or back
    to a node that it has passed."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    shape = learner["learner_model_param"]
    columns = int(shape["num_feature"])
    groups = max(int(shape.get("num_class", 0)), int(shape.get("num_target", 1)), 1)
    for model in _models(learner["gradient_booster"]):
        trees, info = model["trees"], model["tree_info"]
        steps = model.get("iteration_indptr", [0, len(trees)])
        kept = len(info) == len(trees) and all(0 <= group < groups for group in info)
        kept = kept and steps == sorted(steps) and all(0 <= step <= len(trees) for step in steps)
        if not kept or not all(_held(tree, columns) for tree in trees):
            raise WorkerError(
                "broken", "a tree refers to nodes, columns or classes that don't exist"
            )


def _models(booster: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Those of trees: gbtree's, dart's within it, and none of gblinear's."""
    model = booster.get("gbtree", booster).get("model", {})
    if "trees" in model:
        yield model


def _held(tree: Mapping[str, Any], columns: int) -> bool:
    import numpy as np

    left, right, column, start, size, node = (
        np.asarray(tree[name], np.int64)
        for name in ("left_children", "right_children", "split_indices", "categories_segments",
                     "categories_sizes", "categories_nodes")
    )  # fmt: skip
    inner = left != -1
    ways = np.concatenate([left[inner], right[inner]])
    # Each node but the first has one way to it, and none leads to that: so there is no way back.
    apart = len(np.unique(ways)) == len(ways) and bool(np.all((ways > 0) & (ways < len(left))))
    held = apart and bool(np.all((column[inner] >= 0) & (column[inner] < columns)))
    held = held and bool(np.all(right[~inner] == -1))
    inside = (start >= 0) & (size >= 0) & (start + size <= len(tree["categories"]))
    held = held and bool(np.all(inside)) and bool(np.all((node >= 0) & (node < len(left))))
    chosen = np.flatnonzero(np.asarray(tree["split_type"]) == 1)
    return held and bool(np.all(np.isin(chosen[inner[chosen]], node)))
