"""Answers that are boxes and regions of a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from converter.preparation.staged.base import Array, Known, Seen
from converter.preparation.staged.classes import activated, labelled


def boxes(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """What was found, in the picture's own pixels: x0, y0, x1, y1, the best first.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name.
        seen: Where the picture is in the model's.
    """
    found = [
        {"box": [round(float(v), 2) for v in box], "score": float(score), "index": int(number),
         **labelled(known["labels"], int(number))}
        for box, score, number in zip(*found_boxes(known, outputs, seen), strict=True)
    ]  # fmt: skip
    return {"boxes": found}


def found_boxes(
    known: Known, outputs: Mapping[str, Array], seen: Seen
) -> tuple[Array, Array, Array]:
    """The boxes that are left over a threshold and after suppression, the best first.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name.
        seen: Where the picture is in the model's.

    Returns:
        Corners in the picture's own pixels, [n, 4]; scores and classes, [n].
    """
    places, scores, index = _candidates(known, outputs)
    keep = scores >= known["threshold"]
    corners = _corners(places[keep].astype(np.float64), known, seen)
    scores, index = scores[keep], index[keep]
    chosen = suppressed(corners, scores, index, known["iou"])[: known["most"]]
    if seen.size != (0, 0):
        corners = corners.clip(0, [*seen.size, *seen.size])
    return corners[chosen], scores[chosen], index[chosen]


def _candidates(known: Known, outputs: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Boxes [n, 4], the best class's score of each, and which it is."""
    found = outputs[known["output"]]
    found = found.reshape(found.shape[-2:])
    if known["transposed"]:
        found = found.T
    places, rest = found[:, :4], found[:, 4:]
    if known["scores"]:
        rest = outputs[known["scores"]]
        rest = rest.reshape(len(places), max(1, rest.size // max(len(places), 1)))
    if known["classes"]:
        return places, rest[:, 0], outputs[known["classes"]].reshape(-1)
    factor: Any = 1.0
    if known["objectness"]:
        factor, rest = activated(rest[:, 0], known["activation"]), rest[:, 1:]
    if known["activation"]:
        rest = activated(rest, known["activation"])
    if known["background"]:
        rest = rest[:, :-1]
    index = rest.argmax(axis=-1)
    return places, rest[np.arange(len(rest)), index] * factor, index


def _corners(places: Array, known: Known, seen: Seen) -> Array:
    """Corners in the picture's own pixels."""
    a, b, c, d = places.T
    shapes = {
        "xyxy": (a, b, c, d),
        "yxyx": (b, a, d, c),
        "xywh": (a, b, a + c, b + d),
        "cxcywh": (a - c / 2, b - d / 2, a + c / 2, b + d / 2),
    }
    corners = np.stack(shapes[known["format"]], axis=-1)
    if known["relative"]:
        height, width = input_size(seen)
        corners = corners * np.array([width, height, width, height])
    scale, offset = np.array([*seen.scale] * 2), np.array([*seen.offset] * 2)
    return np.asarray((corners - offset) / scale)


def input_size(seen: Seen) -> tuple[int, int]:
    """Height and width of the model's picture."""
    shape = next((array.shape for array in seen.feeds.values() if array.ndim == 4), (0, 1, 1, 1))
    return (shape[1], shape[2]) if shape[-1] in (1, 3, 4) else (shape[2], shape[3])


def suppressed(corners: Array, scores: Array, index: Array, iou: float | None) -> list[int]:
    """Non-maximum suppression by class: the kept boxes' numbers, the best first.

    Args:
        corners: x0, y0, x1, y1, [n, 4].
        scores: [n].
        index: Classes, [n]; a box is only suppressed by one of its class.
        iou: The least overlap that is too much; None for none.
    """
    order = np.argsort(-scores, kind="stable")
    if iou is None:
        return [int(i) for i in order]
    sizes = np.prod(np.maximum(corners[:, 2:] - corners[:, :2], 0), axis=1)
    kept: list[int] = []
    while len(order):
        first, others = order[0], order[1:]
        kept.append(int(first))
        low = np.maximum(corners[first, :2], corners[others, :2])
        high = np.minimum(corners[first, 2:], corners[others, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        joined = sizes[first] + sizes[others] - shared
        apart = (shared <= iou * joined) | (index[others] != index[first])
        order = others[apart]
    return kept


def regions(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Upright boxes of what is probable, in reading order.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name: a probability for each place, [..., height, width].
        seen: Where the picture is in the model's.
    """
    found = outputs[known["output"]]
    found = found.reshape(found.shape[-2:])
    steps = [side / count for side, count in zip(input_size(seen), found.shape, strict=True)]
    told = []
    for top, left, bottom, right in components(found >= known["threshold"]):
        width, height = right - left, bottom - top
        score = float(found[top:bottom, left:right].mean())
        if min(width, height) < known["least"] or score < known["score"]:
            continue
        more = known["grow"] * width * height / (2 * (width + height))
        corners = np.array([left - more, top - more, right + more, bottom + more])
        corners = corners * np.array([*steps[::-1]] * 2) - np.array([*seen.offset] * 2)
        box = (corners / np.array([*seen.scale] * 2)).clip(0, np.array([*seen.size] * 2))
        told.append({"box": [round(float(v), 2) for v in box], "score": score})
    return {"boxes": in_reading_order(told)[: known["most"]]}


def components(mask: Array) -> list[tuple[int, int, int, int]]:
    """The bounds of each region of 8-connected pixels: top, left, bottom, right, the last two
    exclusive. Runs of a row join those of the row before that they touch (union-find)."""
    parent: list[int] = []
    bounds: list[list[int]] = []

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    before: list[tuple[int, int, int]] = []
    for y, row in enumerate(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)):
        edges = np.flatnonzero(np.diff(row))
        now: list[tuple[int, int, int]] = []
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            own = len(parent)
            parent.append(own)
            bounds.append([y, start, y + 1, end])
            for first, last, number in before:
                if first <= end and start <= last:
                    parent[root(own)] = root(number)
            now.append((start, end, own))
        before = now
    whole: dict[int, list[int]] = {}
    for number, (top, left, bottom, right) in enumerate(bounds):
        known = whole.setdefault(root(number), [top, left, bottom, right])
        known[:] = [min(known[0], top), min(known[1], left), max(known[2], bottom),
                    max(known[3], right)]  # fmt: skip
    return [(a, b, c, d) for a, b, c, d in whole.values()]


def in_reading_order(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Boxes by lines, from the left: one belongs to a line whose middle it spans."""
    lines: list[list[dict[str, Any]]] = []
    for item in sorted(map(dict, found), key=lambda item: (item["box"][1], item["box"][0])):
        middle = (item["box"][1] + item["box"][3]) / 2
        last = lines[-1][-1]["box"] if lines else None
        if last is not None and last[1] <= middle <= last[3]:
            lines[-1].append(item)
        else:
            lines.append([item])
    return [item for line in lines for item in sorted(line, key=lambda item: item["box"][0])]
