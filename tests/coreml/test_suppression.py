"""non_maximum_suppression: box by box in numpy."""

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, agrees, check, compute, op

MOST, OVERLAP = 6, 0.3


def boxes_and_scores(count: int, classes: int) -> tuple[Array, Array]:
    chance = np.random.default_rng(count)
    sizes = [chance.uniform(*limits, (2, count, 2)) for limits in ((0, 4), (1, 3))]
    boxes = np.concatenate(sizes, 2).astype(np.float32)
    scores = chance.permutation(2 * count * classes).reshape(2, count, classes)
    return boxes, (scores / scores.size).astype(np.float32)


def overlap(a: Array, b: Array) -> float:
    low = np.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2)
    high = np.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2)
    shared = np.prod(np.maximum(high - low, 0))
    return float(shared / (np.prod(a[2:]) + np.prod(b[2:]) - shared))


def kept(boxes: Array, scores: Array, lowest: float, by_class: bool) -> list[int]:
    """The boxes that stay, best first."""
    best, of = scores.max(1), scores.argmax(1)
    found: list[int] = []
    for box in np.argsort(-best):
        rivals = [other for other in found if not by_class or of[other] == of[box]]
        if best[box] >= lowest and all(overlap(boxes[box], boxes[r]) <= OVERLAP for r in rivals):
            found.append(int(box))
    return (found or [int(best.argmax())])[:MOST]


def expected(boxes: Array, scores: Array, lowest: float, by_class: bool) -> list[Array]:
    picked = [kept(*pair, lowest, by_class) for pair in zip(boxes, scores, strict=True)]
    rows = np.zeros((2, MOST, 4), np.float32), np.zeros((2, MOST, scores.shape[2]), np.float32)
    indices = np.full((2, MOST), -1, np.int32)
    for batch, found in enumerate(picked):
        rows[0][batch, : len(found)] = boxes[batch, found]
        rows[1][batch, : len(found)] = scores[batch, found]
        indices[batch, : len(found)] = found
    return [*rows, indices, np.array([len(found) for found in picked], np.int32)]


@pytest.mark.parametrize(("count", "classes", "lowest"), [(20, 1, 0.3), (12, 3, 0.5), (4, 2, 9.0)])
def test_until_ios16(count: int, classes: int, lowest: float) -> None:
    boxes, scores = boxes_and_scores(count, classes)
    how = {"iou_threshold": OVERLAP, "score_threshold": lowest, "max_boxes": MOST}
    cases = [
        (op.non_maximum_suppression(**how, per_class_suppression=by_class),
         expected(boxes, scores, lowest, by_class)) for by_class in (False, True)
    ]  # fmt: skip
    check(cases, {"boxes": boxes, "scores": scores}, target=16)


@pytest.mark.parametrize("by_class", [False, True])
def test_from_ios17_on_boxes_are_along_the_last_axis(by_class: bool) -> None:
    boxes, scores = boxes_and_scores(9, 2)

    def body(mb: Any, **given: Any) -> Any:
        turned = {name: mb.transpose(x=value, perm=[0, 2, 1]) for name, value in given.items()}
        how = {"iou_threshold": OVERLAP, "max_boxes": MOST, "per_class_suppression": by_class}
        return mb.non_maximum_suppression(**turned, **how)[:3]

    wanted = expected(boxes, scores, -np.inf, by_class)
    for at, y in enumerate(compute(body, {"boxes": boxes, "scores": scores})):
        agrees(y, wanted[at].transpose(0, 2, 1) if at < 2 else wanted[at])
