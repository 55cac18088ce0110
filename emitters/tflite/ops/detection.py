"""NonMaxSuppression: NON_MAX_SUPPRESSION_V4 for each image and class, in a WHILE over them.

LiteRT's operator is of one class, and differs from ONNX's in three ways:

1. It suppresses from its threshold on, ONNX what is above: it gets the next larger float32.
2. Equal scores come in any order, in ONNX by their index: it gets the boxes sorted by TOPK_V2,
   which keeps that order, and for a score the number of boxes behind each, which is unique.
3. Its indices are as many as may be at most, and a count of those that are meant.
4. It relies on a box that is chosen to suppress itself, which one without an area doesn't: such
   boxes, which overlap nothing, are put far away from all others, with an area. And where ONNX
   suppresses nothing, from a threshold of 1 on, all is left to TOPK_V2.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context, strided
from emitters.tflite.graph import DataType, Tensor, known
from emitters.tflite.ops.arithmetic import select
from emitters.tflite.registry import lowers
from emitters.tflite.subgraphs import Body, loop

_AXIS_0 = {"axis": 0, "batchDims": 0}
_MOST = 1 << 24
"""Boxes up to which float32 counts them one by one."""


@lowers("NonMaxSuppression")
def non_max_suppression(context: Context, node: onnx_ir.Node) -> None:
    boxes, scores = (context.tensor(value) for value in node.inputs[:2])
    batch, classes, count = scores.shape
    if isinstance(count, int) and count >= _MOST:
        raise Refused(f"a NonMaxSuppression of {count} boxes: float32 counts up to {_MOST}")
    name = f"{node.outputs[0].name}?0"
    most = _most(context, node, count)
    if most is None or scores.size == 0:
        context.give(node.outputs[0], context.constant(np.zeros((0, 3), np.int64)))
        return
    centred = bool(number(node, "center_point_box", 0))
    if centred:
        boxes = _corners(context, boxes)
    boxes = _with_areas(context, boxes, centred)
    limit = _limit(context, node)
    least = _number(context, node, 4, -np.inf)
    kinds = build.reshape(context, context.sizes([classes]), ())
    images = build.reshape(context, context.sizes([batch]), ())
    rounds = build.binary(context, "MUL", kinds, images)
    table = _one_row_each(context, scores, f"{name}rows")

    def more(body: Body, now: list[Tensor]) -> Tensor:
        return build.binary(body, "LESS", now[0], body.capture(rounds), DataType.BOOL)

    def step(body: Body, now: list[Tensor]) -> list[Tensor]:
        place, rows = now
        image, kind = (
            build.binary(body, op, place, body.capture(kinds)) for op in ("FLOOR_DIV", "FLOOR_MOD")
        )
        own = body.emit("GATHER", [body.capture(boxes), image], (count, 4), options=_AXIS_0)
        score = body.capture(table)
        for index in (image, kind) if score.rank == 3 else (place,):
            score = body.emit("GATHER", [score, index], score.shape[1:], options=_AXIS_0)
        settings = (body.capture(most), limit, body.capture(least))
        found = _one_class(body, own, score, settings, f"{name}found")
        made = _rows(body, image, kind, found)
        rows = body.joined([rows, made], 0, (name, 3))
        return [build.binary(body, "ADD", place, body.integer(1)), rows]

    empty = context.emit(
        "FILL",
        [context.integers([0, 3]), context.constant(np.asarray(0, np.int32))],
        (0, 3),
        DataType.INT32,
    )
    start = context.constant(np.asarray(0, np.int32))
    rows = loop(context, [start, empty], more, step, [(), (name, 3)])[1]
    context.give(node.outputs[0], build.cast(context, rows, DataType.INT64))


def _one_row_each(context: Context, scores: Tensor, symbol: str) -> Tensor:
    """A row for each image and class, where RESHAPE can make that."""
    pairs = known(scores.shape[:2])
    rows = symbol if pairs is None else pairs[0] * pairs[1]
    free = sum(isinstance(dim, str) for dim in (rows, scores.shape[2]))
    return scores if free > 1 else build.reshape(context, scores, (rows, scores.shape[2]))


def _most(context: Context, node: onnx_ir.Node, count: int | str) -> Tensor | None:
    """How many boxes of a class there may be at most, int32; None for none."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None:
        return None
    known = context.array(value)
    if known is not None:
        whole = min(int(known.item()), _MOST)
        if whole <= 0:
            return None
        if isinstance(count, int):
            return context.constant(np.asarray(min(whole, count), np.int32))
        most = context.constant(np.asarray(whole, np.int32))
    else:
        wide = build.reshape(context, context.tensor(value), ())
        low, high = build.scalar(context, 0, wide), build.scalar(context, _MOST, wide)
        wide = build.binary(context, "MAXIMUM", build.binary(context, "MINIMUM", wide, high), low)
        most = build.cast(context, wide, DataType.INT32)
    sizes = build.reshape(context, context.sizes([count]), ())
    return build.binary(context, "MINIMUM", most, sizes)


def _corners(context: Context, boxes: Tensor) -> Tensor:
    """[x, y, width, height] as [y1, x1, y2, x2]."""
    shape = (*boxes.shape[:2], 1)
    x, y, width, height = context.emit_many(
        "SPLIT",
        [context.constant(np.asarray(2, np.int32)), boxes],
        [(shape, DataType.FLOAT, None)] * 4,
        options={"numSplits": 4},
    )
    half = build.scalar(context, 0.5, boxes)
    ends = []
    for op in ("SUB", "ADD"):
        for centre, size in ((y, height), (x, width)):
            ends.append(build.binary(context, op, centre, build.binary(context, "MUL", size, half)))
    return context.joined(ends, 2)


def _number(context: Context, node: onnx_ir.Node, index: int, default: float) -> Tensor:
    """A threshold: float32 of no axes."""
    tensor = context.optional(node, index)
    if tensor is None:
        return context.constant(np.asarray(default, np.float32))
    return build.reshape(context, tensor, ())


def _limit(context: Context, node: onnx_ir.Node) -> Tensor:
    """The overlap from which on boxes are suppressed; 2 for none."""
    value = node.inputs[3] if len(node.inputs) > 3 else None
    number = context.needed(node, 3, "IoU threshold").item() if value is not None else 0.0
    above = np.nextafter(np.float32(number), np.float32(np.inf), dtype=np.float32)
    smallest = np.finfo(np.float32).tiny  # what is less may count as 0
    return context.constant(np.asarray(2 if number >= 1 else max(above, smallest), np.float32))


def _with_areas(context: Context, boxes: Tensor, centred: bool) -> Tensor:
    """Boxes without an area, or less than none, as squares of 1 beyond all others: each its own."""
    count = boxes.shape[1]
    low, high = (_columns(context, boxes, first) for first in (0, 2))
    extent = build.binary(context, "SUB", high, low)
    sides = extent if centred else build.unary(context, "ABS", extent)
    shape = (*boxes.shape[:2], 1)
    axes, keep = context.integers([2]), {"keepDims": True}
    area = context.emit("REDUCE_PROD", [sides, axes], shape, options=keep)
    least = context.emit("REDUCE_MIN", [sides, axes], shape, options=keep)
    zero = build.scalar(context, 0.0, area)
    both = build.binary(context, "MINIMUM", area, least)
    flat = build.binary(context, "LESS_EQUAL", both, zero, DataType.BOOL)
    size = build.unary(context, "ABS", boxes)
    top = context.emit(
        "REDUCE_MAX", [size, context.integers([0, 1, 2])], (), options={"keepDims": False}
    )
    beyond = build.unary(context, "CEIL", build.binary(context, "ADD", top, top))
    numbers = build.reshape(context, _counted(context, count), (1, count, 1))
    four = build.scalar(context, 4.0, area)
    steps = build.binary(context, "MUL", build.cast(context, numbers, DataType.FLOAT), four)
    start = build.binary(context, "ADD", steps, build.binary(context, "ADD", beyond, four))
    square = context.constant(np.asarray([[[0, 0, 1, 1]]], np.float32))
    far = build.binary(context, "ADD", start, square)
    return select(context, flat, far, boxes)


def _columns(context: Context, boxes: Tensor, first: int) -> Tensor:
    limits = [context.integers(n) for n in ([0, 0, first], [0, 0, first + 2], [1, 1, 1])]
    shape = (*boxes.shape[:2], 2)
    return context.emit("STRIDED_SLICE", [boxes, *limits], shape, options=strided(3, 3))


def _counted(context: Context, count: int | str) -> Tensor:
    size = build.reshape(context, context.sizes([count]), ())
    zero, one = (context.constant(np.asarray(number, np.int32)) for number in (0, 1))
    return context.emit("RANGE", [zero, size, one], (count,), DataType.INT32)


def _one_class(
    body: Body, boxes: Tensor, scores: Tensor, settings: tuple[Tensor, Tensor, Tensor], name: str
) -> Tensor:
    """The indices of one image's boxes that stay for one class: int32 [name].

    ``settings`` are how many, from which overlap on, and from above which score.
    """
    most, limit, least = settings
    count = scores.shape[0]
    size = build.reshape(body, body.sizes([count]), ())
    ordered, order = body.emit_many(
        "TOPK_V2", [scores, size], [((count,), None, None), ((count,), DataType.INT32, None)]
    )
    sorted_boxes = body.emit("GATHER", [boxes, order], (count, 4), options=_AXIS_0)
    zero, one = body.integer(0), body.integer(1)
    places = body.emit("RANGE", [zero, size, one], (count,), DataType.INT32)
    behind = build.cast(body, build.binary(body, "SUB", size, places), DataType.FLOAT)
    above = build.binary(body, "GREATER", ordered, least, DataType.BOOL)
    ranks = select(body, above, behind, build.scalar(body, -1.0, behind))
    nothing = build.scalar(body, 0.0, behind)
    if limit.data is not None and limit.data > 1:
        return _first(body, order, above, most, name)
    length: int | str = int(most.data) if most.data is not None else f"{name}most"
    chosen, number = body.emit_many(
        "NON_MAX_SUPPRESSION_V4",
        [sorted_boxes, ranks, most, limit, nothing],
        [((length,), DataType.INT32, None), ((), DataType.INT32, None)],
    )
    limits = [body.integers([0]), build.reshape(body, number, (1,)), body.integers([1])]
    kept = body.emit("STRIDED_SLICE", [chosen, *limits], (name,), options=strided())
    return body.emit("GATHER", [order, kept], (name,), options=_AXIS_0)


def _first(body: Body, order: Tensor, above: Tensor, most: Tensor, name: str) -> Tensor:
    """The first of the sorted boxes, as many as may be and score enough."""
    ones = build.cast(body, above, DataType.INT32)
    number = body.emit("SUM", [ones, body.integers([0])], (), options={"keepDims": False})
    number = build.binary(body, "MINIMUM", number, most)
    limits = [body.integers([0]), build.reshape(body, number, (1,)), body.integers([1])]
    return body.emit("STRIDED_SLICE", [order, *limits], (name,), options=strided())


def _rows(body: Body, image: Tensor, kind: Tensor, found: Tensor) -> Tensor:
    """[n, 3]: image, class and box, int32."""
    size = (found.shape[0], 1)
    boxes = build.reshape(body, found, size)
    zeros = build.binary(body, "MUL", boxes, body.integer(0))
    columns = [build.binary(body, "ADD", zeros, number) for number in (image, kind)]
    return body.joined([*columns, boxes], 1)
