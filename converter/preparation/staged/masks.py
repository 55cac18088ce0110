"""Answers that are masks and keypoints of a picture."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

from converter.preparation.staged.base import Array, Known, Seen, library_of
from converter.preparation.staged.boxes import input_size
from converter.preparation.staged.classes import labelled


def masks(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Each pixel's class as a PNG of the picture's size (base64), and each class's share.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name.
        seen: The picture's size, and where it is in the model's.
    """
    whole = pixel_classes(known, outputs[known["output"]], seen)
    numbers, counts = np.unique(whole, return_counts=True)
    file = BytesIO()
    library_of("PIL.Image").fromarray(whole.astype(np.uint8)).save(file, "PNG")
    return {"masks": {
        "width": whole.shape[1], "height": whole.shape[0],
        "classes": [
            {"index": int(number), "share": float(count / whole.size),
             **labelled(known["labels"], int(number))}
            for number, count in zip(numbers, counts, strict=True)
        ],
        "png": b64encode(file.getvalue()).decode(),
    }}  # fmt: skip


def pixel_classes(known: Known, found: Array, seen: Seen, size: Any = None) -> Array:
    """The class of each pixel of a picture: the nearest of the output's, [height, width].

    Args:
        known: The declaration, of ``channels_last``.
        found: The output.
        seen: Where the picture's pixels are in the model's.
        size: Height and width of another picture of the same; None for the picture's own.
    """
    if found.ndim == 4:
        found = found.argmax(axis=-1 if known["channels_last"] else 1)
    found, places = found.reshape(found.shape[-2:]), []
    for axis, side in enumerate(input_size(seen)):
        count = seen.size[1 - axis] if size is None else size[axis]
        scale, offset, steps = seen.scale[1 - axis], seen.offset[1 - axis], found.shape[axis]
        at = ((np.arange(count) + 0.5) * scale + offset) * steps / side
        places.append(np.clip(np.floor(at).astype(int), 0, steps - 1))
    return np.asarray(found[np.ix_(*places)]).astype(np.int64)


def keypoints(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Points in the picture's own pixels, by their names where they have some.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name: [..., points, 2 or 3].
        seen: Where the picture is in the model's.
    """
    rows = placed_points(known, outputs[known["output"]], seen)
    found = []
    for number, row in enumerate(rows):
        score = {"score": float(row[2])} if len(row) > 2 else {}
        if score.get("score", known["threshold"]) >= known["threshold"]:
            name = {"name": known["names"][number]} if number < len(known["names"]) else {}
            x, y = (round(float(value), 2) for value in row[:2])
            found.append({**name, "x": x, "y": y, **score})
    return {"keypoints": found}


def placed_points(known: Known, values: Array, seen: Seen) -> Array:
    """Points in the picture's own pixels.

    Args:
        known: The declared answer: the order of x and y, and whether they are shares.
        values: [..., points, 2 or 3].
        seen: Where the picture is in the model's.

    Returns:
        x, y and the score where there is one: float64 [points, 2 or 3].
    """
    rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
    points = rows[:, 1::-1] if known["order"] == "yx" else rows[:, :2]
    if known["relative"]:
        points = points * np.array(input_size(seen)[::-1])
    points = (points - np.array(seen.offset)) / np.array(seen.scale)
    return np.concatenate([points, rows[:, 2:]], axis=1)
