"""Answers that are classes, numbers, vectors and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from converter.preparation.staged.base import Array, Known, Seen


def activated(values: Array, activation: str) -> Array:
    """Probabilities of logits, float64, along the last axis."""
    values = values.astype(np.float64)
    if activation == "softmax":
        values = np.exp(values - values.max(axis=-1, keepdims=True))
        return np.asarray(values / values.sum(axis=-1, keepdims=True))
    return np.asarray((1 + np.tanh(values / 2)) / 2 if activation == "sigmoid" else values)


def classes(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """The best classes, the best first; of several rows a list each.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name; scores or logits [..., classes].
        seen: What is known of the file; unused.
    """
    values = outputs[known["output"]]
    rows = activated(values.reshape(-1, values.shape[-1]), known["activation"])
    labels = known["labels"]
    found = []
    for row in rows:
        best = np.argsort(-row, kind="stable")[: known["top"]]
        found.append([
            {"index": int(i), "score": float(row[i]), **labelled(labels, int(i))} for i in best
        ])  # fmt: skip
    return {"classes": found[0] if len(found) == 1 else found}


def labelled(labels: Sequence[str], index: int) -> dict[str, str]:
    return {"label": labels[index]} if 0 <= index < len(labels) else {}


def numbers(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Numbers by their names, with their unit; of several rows a list each.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name; the first axis has the rows.
        seen: What is known of the file; unused.
    """
    values = outputs[known["output"]]
    rows = values.reshape(len(values) if values.ndim else 1, -1)
    named = known["names"] or [known["output"]] * (rows.shape[1] == 1)
    found = [
        dict(zip(named, row.tolist(), strict=False)) if named else row.tolist() for row in rows
    ]
    unit = {"unit": known["unit"]} if known["unit"] else {}
    return {"numbers": found[0] if len(found) == 1 else found, **unit}


def embedding(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """One vector of a file, of length 1 where that is declared.

    Args:
        known: The declared answer; ``pool`` says what is done with [batch, tokens, values].
        outputs: The model's outputs by name.
        seen: The arrays that went in, for a mask over tokens.
    """
    values = outputs[known["output"]].astype(np.float64)
    if known["pool"] == "mean":
        mask = seen.feeds.get(known["mask"] or "")
        weights = np.ones(values.shape[:2]) if mask is None else mask.astype(np.float64)
        values = np.einsum("bth,bt->bh", values, weights) / weights.sum(axis=1, keepdims=True)
    elif known["pool"] == "first":
        values = values[:, 0]
    row = values.reshape(-1)
    if known["normalize"]:
        row = row / max(float(np.linalg.norm(row)), 1e-12)
    return {"embedding": row.tolist()}


def text(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """A text by CTC's best path: repeats are one letter, blanks none.

    Args:
        known: The declared answer, with the letters.
        outputs: The model's outputs by name: scores [..., steps, letters], or the path itself.
        seen: What is known of the file; unused.
    """
    if known.get("scores"):
        path, sure = outputs[known["output"]].ravel(), outputs[known["scores"]].ravel()
    else:
        values = outputs[known["output"]]
        path, sure = best_path(known, values.reshape(-1, values.shape[-1]))
    said = path >= 0
    score = float(sure[said].mean()) if said.any() else 0.0
    return {"text": "".join(known["letters"][i] for i in path[said]), "score": score}


def best_path(known: Known, rows: Array) -> tuple[Array, Array]:
    """At each step a letter's index, or -1 for a blank and for what repeats the step before; and
    what each step scores. Of [steps, letters]."""
    best = rows.argmax(axis=-1)
    first = np.concatenate([[True], best[1:] != best[:-1]]) & (best != known["blank"])
    sure = activated(rows, known["activation"]).max(axis=-1)
    return np.where(first, best, -1), sure
