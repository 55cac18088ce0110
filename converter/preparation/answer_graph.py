"""What a model's outputs mean as ONNX operators behind it: probabilities, the best classes, boxes
after non-maximum suppression, pooled vectors of length 1; masks, points and letters are
:mod:`converter.preparation.answer_places`'.

They do what :mod:`converter.preparation.stages` does. What they leave to do is declared anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.batch import fix_batch
from converter.ir.model import Model
from converter.passes.legalize.builder import Builder, rank
from converter.preparation.answer_places import put_keypoints, put_letters, put_masks
from converter.preparation.answers import (
    Boxes,
    Classes,
    Embedding,
    Keypoints,
    Masks,
    Meaning,
    Spelled,
)
from converter.preparation.declared import top_names
from converter.preparation.graph_ends import activated, behind, output_of, refused
from converter.preparation.picture_graph import Placed

Array = np.ndarray[Any, Any]
Value = onnx_ir.Value
DataType = onnx_ir.DataType

LEAST = np.array(-3e38, np.float32)
"""The score of a box as a class that it isn't."""

Size = tuple[int | None, int | None]


def put_answers(
    model: Model, meanings: Sequence[Meaning], placed: Placed | None, size: Size
) -> list[Meaning]:
    """Has a model give what its outputs mean, as far as operators can; names stay.

    Args:
        model: Of the pipeline's opset; changed in place.
        meanings: What they mean.
        placed: Where a picture's pixels are in the model's; None where nobody in the graph knows.
        size: Height and width of the model's picture, where they are known.

    Returns:
        What is left to do.

    Raises:
        UsageError: Operators can't do it.
    """
    left: list[Meaning] = []
    for known in meanings:
        if getattr(known, "outside", False):
            left.append(known)
        elif isinstance(known, Classes):
            left.append(_put_classes(model, known))
        elif isinstance(known, Boxes):
            left.append(_put_boxes(model, known, placed, size))
        elif isinstance(known, Embedding):
            left.append(_put_embedding(model, known))
        elif isinstance(known, Masks):
            left.append(put_masks(model, known, placed, size))
        elif isinstance(known, Keypoints):
            left.append(put_keypoints(model, known, placed, size))
        elif isinstance(known, Spelled):
            left.append(put_letters(model, known))
        else:
            left.append(known)
    return left


def _put_classes(model: Model, known: Classes) -> Classes:
    value = output_of(model, known.output)
    count = value.shape[-1] if value.shape else None
    several = isinstance(count, int) and count > 1
    if not (several or known.activation):
        return known
    b = behind(model, value)
    x = b.cast(value, DataType.FLOAT)
    fused: list[str] = []
    if known.activation:
        x = activated(b, x, known.activation)
        fused.append(known.activation)
    if isinstance(count, int) and several:
        fused.append("top")
        k = np.array([min(known.top, count)], np.int64)
        made = b.ops("TopK", 2, x, k, axis=-1)
        for item, name in zip(made, top_names(known.output), strict=True):
            item.name = name
            item.shape = onnx_ir.Shape([*list(x.shape or ())[:-1], int(k[0])])
            model.graph.graph.outputs.append(item)
    b.put([x])
    span = (0.0, 1.0) if known.activation else None
    model.describe(known.output, activation=None, **({"value_range": span} if span else {}))
    return known.model_copy(update={"activation": "", "fused": tuple(fused)})


def _put_embedding(model: Model, known: Embedding) -> Embedding:
    value = output_of(model, known.output)
    if known.pool == "none" and not known.normalize:
        return known
    if value.shape is None:
        raise refused(f"the number of axes of {known.output} isn't known")
    mask = next((v for v in model.graph.graph.inputs if v.name == known.mask), None)
    b = behind(model, value)
    fused: list[str] = []
    x = b.cast(value, DataType.FLOAT)
    if known.pool != "none":
        fused.append(known.pool)
        x = _pooled(b, x, known.pool, mask)
    if known.normalize:
        fused.append("normalize")
        x = x if rank(x) == 2 else b.op("Flatten", x, axis=1)
        length = b.op("Max", b.reduce("ReduceL2", x, [1]), np.array(1e-12, np.float32))
        x = b.op("Div", x, length)
    b.put([x])
    b.node.outputs[0].shape = x.shape
    return known.model_copy(
        update={"pool": "none", "mask": None, "normalize": False, "fused": tuple(fused)}
    )


def _pooled(b: Builder, x: Value, pool: str, mask: Value | None) -> Value:
    if pool == "first":
        return b.op("Gather", x, np.array(0, np.int64), axis=1)
    if mask is None:
        return b.reduce("ReduceMean", x, [1], keep=False)
    weights = b.unsqueeze(b.cast(mask, DataType.FLOAT), [2])
    total = b.reduce("ReduceSum", b.op("Mul", x, weights), [1], keep=False)
    return b.op("Div", total, b.reduce("ReduceSum", weights, [1], keep=False))


# -- boxes -----------------------------------------------------------------------------


def _put_boxes(model: Model, known: Boxes, placed: Placed | None, size: Size) -> Boxes:
    fix_batch(model, 1)
    names = known.output, known.scores, known.classes
    values = [output_of(model, name) if name else None for name in names]
    if any(value is not None and value.shape is None for value in values):
        raise refused(f"the sizes of {', '.join(filter(None, names))} aren't known")
    assert values[0] is not None
    b = behind(model, values[0])
    made = _Boxes(b, known, placed, size).found(values[0], *values[1:])
    named = (
        known.output,
        known.scores or f"{known.output}_scores",
        known.classes or f"{known.output}_classes",
    )
    graph = model.graph.graph
    for value in values[1:]:
        if value is not None:
            graph.outputs.remove(value)
            value.name = f"{value.name}/source"
    b.put([made[0]])
    for item, name, sizes in zip(made, named, (("found", 4), ("found",), ("found",)), strict=True):
        item.shape = onnx_ir.Shape(sizes)
        if name != known.output:
            item.name = name
            graph.outputs.append(item)
        model.meanings.pop(name, None)
    fused = [*filter(None, [known.activation]), *(["suppression"] if known.iou else []), "corners"]
    return Boxes(
        output=named[0], scores=named[1], classes=named[2], labels=known.labels,
        threshold=known.threshold, most=known.most, fused=tuple(fused),
    )  # fmt: skip


class _Boxes:
    """The operators that choose boxes.

    Args:
        b: What writes them.
        known: What the outputs mean.
        placed: Where a picture's pixels are in the model's.
        size: Height and width of the model's picture.
    """

    def __init__(self, b: Builder, known: Boxes, placed: Placed | None, size: Size) -> None:
        self.b, self.known, self.placed, self.size = b, known, placed, size

    def found(self, boxes: Value, scores: Value | None, classes: Value | None) -> list[Value]:
        """Corners [found, 4], scores and classes [found], the best first."""
        b, known = self.b, self.known
        rows = self._matrix(boxes)
        if known.transposed:
            rows = b.transpose(rows, (1, 0))
        places = self._columns(rows, 0, 4)
        rest = self._columns(rows, 4) if scores is None else self._scores(scores)
        score, index, count = self._best(rest, classes)
        corners = self._corners(places)
        picked = self._picked(corners, score, index, count)
        chosen = b.op("Gather", score, picked)
        most = b.op("Min", b.op("Shape", chosen), np.array([known.most], np.int64))
        best, order = b.ops("TopK", 2, chosen, most)
        kept = b.op("Gather", picked, order)
        corners = b.op("Gather", corners, kept, axis=0)
        if self.placed is not None:
            ends = b.cast(self._twice(self.placed.size), DataType.FLOAT)
            corners = b.op("Min", b.op("Max", corners, np.array(0, np.float32)), ends)
        return [corners, best, b.op("Gather", index, kept)]

    def _matrix(self, x: Value) -> Value:
        x = self.b.cast(x, DataType.FLOAT)
        shape = list(x.shape or ())
        if len(shape) == 3 and shape[0] == 1:
            return self.b.squeeze(x, [0])
        if len(shape) == 2:
            return x
        raise refused(f"{self.known.output} has the sizes {shape}, and not [1, n, values]")

    def _scores(self, x: Value) -> Value:
        """Scores as [n, classes]."""
        shape = list(x.shape or ())
        if len(shape) == 3 and shape[0] == 1:
            return self.b.squeeze(self.b.cast(x, DataType.FLOAT), [0])
        if len(shape) == 1 or (len(shape) == 2 and shape[0] == 1):
            flat = self.b.cast(x, DataType.FLOAT)
            return self.b.op("Reshape", flat, np.array([-1, 1], np.int64))
        raise refused(f"{self.known.scores} has the sizes {shape}, and not [1, n, classes]")

    def _columns(self, x: Value, first: int, end: int = 2**31 - 1) -> Value:
        ends = (np.array([item], np.int64) for item in (first, end, 1))
        return self.b.op("Slice", x, *ends)

    def _best(self, rest: Value, classes: Value | None) -> tuple[Value, Value, int]:
        """Of each box the best score, [n], whose it is, [n], and how many classes there are."""
        b, known = self.b, self.known
        flat = np.array([-1], np.int64)
        if classes is not None:
            index = b.cast(b.op("Reshape", classes, flat), DataType.INT64)
            score = b.op("Reshape", self._columns(rest, 0, 1), flat)
            return score, index, len(known.labels)
        factor = None
        if known.objectness:
            factor = b.op("Reshape", self._columns(rest, 0, 1), flat)
            rest = self._columns(rest, 1)
            if known.activation == "softmax":
                raise refused("a softmax of one objectness is always 1")
            factor = activated(b, factor, known.activation) if known.activation else factor
        rest = activated(b, rest, known.activation) if known.activation else rest
        rest = self._columns(rest, 0, -1) if known.background else rest
        count = rest.shape[1] if rest.shape is not None else None
        score = b.reduce("ReduceMax", rest, [1], keep=False)
        index = b.op("ArgMax", rest, axis=1, keepdims=0)
        score = score if factor is None else b.op("Mul", score, factor)
        return score, index, count if isinstance(count, int) else len(known.labels)

    def _corners(self, places: Value) -> Value:
        """Corners in the picture's pixels; in the model's, where nobody in the graph knows."""
        b, known = self.b, self.known
        one, two, three, four = (self._columns(places, i, i + 1) for i in range(4))
        ways: dict[str, Callable[[], tuple[Value, ...]]] = {
            "xyxy": lambda: (one, two, three, four),
            "yxyx": lambda: (two, one, four, three),
            "xywh": lambda: (one, two, b.op("Add", one, three), b.op("Add", two, four)),
            "cxcywh": lambda: tuple(
                b.op(op, middle, b.op("Mul", side, np.array(0.5, np.float32)))
                for op in ("Sub", "Add")
                for middle, side in ((one, three), (two, four))
            ),
        }
        corners = b.op("Concat", *ways[known.format](), axis=1)
        if known.relative:
            corners = b.op("Mul", corners, self._model_size())
        if self.placed is not None and self.placed.offset is not None:
            corners = b.op("Sub", corners, self._twice(self.placed.offset))
        if self.placed is not None and self.placed.scale is not None:
            corners = b.op("Div", corners, self._twice(self.placed.scale))
        return corners

    def _model_size(self) -> Array:
        """Width, height, width, height of the model's picture, float32."""
        height, width = self.size
        if height is None or width is None:
            raise refused("the boxes are relative to the model's picture, whose size is free")
        return np.array([width, height] * 2, np.float32)

    def _twice(self, pair: Value) -> Value:
        """Of height and width: width, height, width, height."""
        return self.b.op("Gather", pair, np.array([1, 0, 1, 0], np.int64))

    def _picked(self, corners: Value, score: Value, index: Value, count: int) -> Value:
        """The numbers of the boxes that are kept, [found]."""
        b, known = self.b, self.known
        if known.iou is None:
            above = b.op("GreaterOrEqual", score, np.array(known.threshold, np.float32))
            return b.squeeze(b.op("NonZero", above), [0])
        if not count:
            raise refused("the number of classes isn't known: give the labels of the boxes")
        own = b.op("Equal", b.unsqueeze(index, [0]), np.arange(count, dtype=np.int64)[:, None])
        by_class = b.op("Where", own, b.unsqueeze(score, [0]), LEAST)
        below = np.nextafter(np.array(known.threshold, np.float32), np.array(-np.inf, np.float32))
        found = b.op(
            "NonMaxSuppression", b.unsqueeze(corners, [0]), b.unsqueeze(by_class, [0]),
            np.array([known.most], np.int64), np.array([known.iou], np.float32), below.reshape(1),
        )  # fmt: skip
        return b.op("Gather", found, np.array(2, np.int64), axis=1)
