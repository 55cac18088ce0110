"""LightGBM's text written anew, of trees that lead where they can: it follows them without looking.

It reads a text by rules of its own: of a tree so many lines, of each as many numbers as there have
to be, wherever the line ends. So it gets none but what was read here, each name once. The fields:
`Tree::ToString` and `GBDT::SaveModelToString` in its sources.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ...worker.errors import WorkerError

_HEAD = ("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx",
         "objective", "feature_names", "monotone_constraints", "feature_infos")  # fmt: skip
_FLAGS = ("average_output",)
_INNER = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_OF_NODES = (*_INNER, "split_gain", "internal_value", "internal_weight", "internal_count")
_OF_LEAVES = ("leaf_value", "leaf_weight", "leaf_count", "leaf_const", "num_features")
_COUNTED = ("num_leaves", "num_cat", "is_linear", "shrinkage")
_OF_LISTS = ("cat_boundaries", "cat_threshold", "leaf_features", "leaf_coeff")
_KNOWN = frozenset((*_HEAD, *_FLAGS, *_COUNTED, *_OF_NODES, *_OF_LEAVES, *_OF_LISTS))

_MOST_TREES, _DEEPEST = 100_000, 1000
"""LightGBM goes down a tree by calls in calls."""

Fields = Dict[str, List[str]]
"""The words of each line, by its name."""


def held(text: str) -> str:
    """The text of the same model, for LightGBM to read.

    Without the sizes of trees they are read one after the other: what is wrong with one in another
    thread would end the process. What it was trained with is left out.

    Raises broken for a tree that leads out of its nodes, columns, categories or classes, or back,
    and for lines of other lengths than they say.
    """
    lines, end, _ = "\n".join(text.splitlines()).partition("\nend of trees")
    first, *rest = re.split(r"(?m)^Tree=\d+$", lines)
    if not end or not rest:
        raise WorkerError("broken", "it is cut short, or holds no trees")
    if len(rest) > _MOST_TREES:
        raise WorkerError("broken", f"it has {len(rest):,} trees; the limit is {_MOST_TREES:,}")
    head, trees = _fields(first), [_fields(tree) for tree in rest]
    columns = _number(head, "max_feature_idx") + 1
    classes = _number(head, "num_tree_per_iteration")
    names = (head.get(name, []) for name in ("feature_names", "feature_infos"))
    fits = all(len(given) == columns for given in names)
    fits = fits and 0 < classes == _number(head, "num_class") and len(trees) % classes == 0
    fits = fits and _classes(head) in (None, classes)
    if not fits or not all(_leads(tree, columns) for tree in trees):
        raise WorkerError("broken", "a tree refers to nodes, columns or classes that don't exist")
    parts = ["tree", *_lines(head, _HEAD), *(name for name in _FLAGS if name in head)]
    for number, tree in enumerate(trees):
        parts += ["", f"Tree={number}", *_lines(tree, tree), ""]
    return "\n".join([*parts, "", "end of trees", ""])


@contextmanager
def holding() -> Iterator[None]:
    """Has boosters that are made from a state (`pickle`'s) get none but such a text."""
    from lightgbm.basic import Booster

    own = Booster.__setstate__

    def set_state(booster: Any, state: Mapping[str, Any]) -> None:
        texts = [state[name] for name in ("_handle", "handle") if name in state]
        if len(texts) != 1 or not isinstance(texts[0], str):
            raise WorkerError("broken", "a booster of LightGBM is empty")
        rest = {name: value for name, value in state.items() if name not in ("_handle", "handle")}
        own(booster, {**rest, "_handle": held(texts[0])})

    Booster.__setstate__ = set_state  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Booster.__setstate__ = own  # type: ignore[method-assign]


def _fields(lines: str) -> Fields:
    found: Fields = {}
    for line in lines.split("\n"):
        name, _, value = line.strip().partition("=")
        if name in _KNOWN:
            if name in found:
                raise WorkerError("broken", f"it has two lines of {name}, but only one is allowed")
            found[name] = value.split()
    return found


def _lines(fields: Fields, names: Any) -> Iterator[str]:
    for name in names:
        if fields.get(name):
            yield f"{name}={' '.join(fields[name])}"


def _number(fields: Fields, name: str) -> int:
    (word,) = fields.get(name) or ["0"]
    return int(word)


def _classes(head: Fields) -> Optional[int]:
    """How many an objective of several classes says there are."""
    name, *settings = head.get("objective") or [""]
    told = [word[len("num_class:") :] for word in settings if word.startswith("num_class:")]
    return int(told[-1]) if told else 0 if name.startswith("multiclass") else None


def _leads(tree: Fields, columns: int) -> bool:
    """Whether an inner node's ways lead to later ones, or to a leaf; and all that it says is as
    long as it has to be."""
    import numpy as np

    leaves, sets = _number(tree, "num_leaves"), _number(tree, "num_cat")
    sizes = {**dict.fromkeys(_OF_NODES, leaves - 1), **dict.fromkeys(_OF_LEAVES, leaves)}
    if leaves < 1 or sets < 0 or any(len(tree.get(name, [])) != sizes[name] for name in _INNER):
        return False
    if any(tree.get(name) and len(tree[name]) != size for name, size in sizes.items()):
        return False
    for name in tree:
        np.array(tree[name], np.float64)  # raises for what is no number
    always = ("leaf_value", "leaf_const", "num_features")[: 3 if _number(tree, "is_linear") else 1]
    if not all(tree.get(name) for name in always):
        return False
    if leaves == 1 and not sets and len(always) == 1:
        return True
    column, kind, left, right = (
        np.array(tree.get(name, []), np.int64)
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    place = np.arange(leaves - 1)
    ways = np.stack([left, right])
    leading = ((ways > place) & (ways < leaves - 1)) | ((ways < 0) & (~ways < leaves))
    within = bool(np.all(leading)) and bool(np.all((column >= 0) & (column < columns)))
    chosen = np.array(tree["threshold"], np.float64)[kind & 1 == 1]
    within = within and bool(np.all((chosen >= 0) & (chosen < sets)))
    return within and _lists(tree, sets, columns) and _depth(ways) <= _DEEPEST


def _depth(ways: Any) -> int:
    """Of a tree whose ways lead to later nodes, or to leaves."""
    depths = [1] * ways.shape[1]
    for place, children in enumerate(ways.T.tolist()):
        for child in children:
            if child > 0:
                depths[child] = depths[place] + 1
    return max(depths, default=0)


def _lists(tree: Fields, sets: int, columns: int) -> bool:
    """Whether the lists of categories, and of a leaf's columns, are as long as others say."""
    import numpy as np

    ends, features, used = (
        np.array(tree.get(name, []), np.int64)
        for name in ("cat_boundaries", "num_features", "leaf_features")
    )
    lists: Tuple[Tuple[Any, str], ...] = ((features, "leaf_features"), (features, "leaf_coeff"))
    fits = all(len(tree.get(name, [])) == counts.sum() for counts, name in lists)
    fits = fits and bool(np.all(features >= 0) and np.all((used >= 0) & (used < columns)))
    if sets:
        fits = fits and len(ends) == sets + 1 and ends[0] == 0 and bool(np.all(np.diff(ends) >= 0))
        fits = fits and ends[-1] == len(tree.get("cat_threshold", []))
    return fits
