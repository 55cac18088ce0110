"""non_maximum_suppression.

What Apple's own tests of Core ML expect of it: boxes go by their best class's score; with
suppression per class, boxes only suppress others of the same best class. The result is in the
order of the scores, cut to max_boxes, and padded with zeros, indices with -1. Where no box has the
score that is asked for, the best one is given all the same.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.registry import reads
from parsers.coreml.sizes import part, reshape

BOOL, FLOAT, INT64 = DataType.BOOL, DataType.FLOAT, DataType.INT64


@reads("non_maximum_suppression")
def non_maximum_suppression(reader: Reader, op: Operation) -> None:
    """NonMaxSuppression of each batch, then the kept boxes by score. From iOS17 on the boxes are
    along the last axis, no score is asked for, and nothing is counted."""
    boxes, scores = reader.value(op, "boxes"), reader.value(op, "scores")
    last = len(op.outputs) == 3
    if last:
        boxes, scores = _turned(reader, boxes), _turned(reader, scores)
    best = _reduced(reader, reader.cast(scores, FLOAT), 2)
    found = _indices(reader, op, reader.cast(boxes, FLOAT), reader.cast(scores, FLOAT), best)
    valid = reader.node("GreaterOrEqual", [found, reader.ints([0])], dtype=BOOL)
    rows = reader.node("Max", [found, reader.ints([0])])
    outputs = [_taken(reader, x, rows, valid) for x in (boxes, scores)]
    if last:
        outputs = [_turned(reader, x) for x in outputs]
    outputs.append(reader.cast(found, DataType.INT32))
    if not last:
        ones = reader.cast(valid, DataType.INT32)
        outputs.append(reader.node("ReduceSum", [ones, reader.ints([1])], {"keepdims": 0}))
    reader.give(op, *outputs)


def _turned(reader: Reader, x: onnx_ir.Value) -> onnx_ir.Value:
    return reader.node("Transpose", [x], {"perm": [0, 2, 1]})


def _reduced(reader: Reader, x: onnx_ir.Value, axis: int, keep: int = 0) -> onnx_ir.Value:
    return reader.node("ReduceMax", [x, reader.ints([axis])], {"keepdims": keep})


def _indices(
    reader: Reader,
    op: Operation,
    boxes: onnx_ir.Value,
    scores: onnx_ir.Value,
    best: onnx_ir.Value,
) -> onnx_ir.Value:
    """[batch, max_boxes]: the boxes that stay, best first, then -1."""
    count = reader.setting(op, "max_boxes")
    never = reader.const(-np.inf, np.float32)
    kept = _kept(reader, op, boxes, scores, best)
    ranked = reader.node("Where", [kept, best, never], dtype=FLOAT)
    none = reader.node("Equal", [_reduced(reader, ranked, 1, 1), never], dtype=BOOL)
    first = reader.node("ArgMax", [best], {"axis": 1, "keepdims": 1}, INT64)
    numbers = reader.node("Squeeze", [part(reader, best, 1, 2), reader.ints([0])])
    zero, one = reader.const(0, np.int64), reader.const(1, np.int64)
    places = reader.node("Range", [zero, numbers, one])
    only = reader.node("Equal", [places, first], dtype=BOOL)
    alone = reader.node("And", [none, only])
    ranked = reader.node("Where", [alone, best, ranked], dtype=FLOAT)
    pads = reader.ints([0, 0, 0, count])
    padded = reader.node("Pad", [ranked, pads, never])
    values, indices = reader.nodes_of("TopK", [padded, reader.ints([count])], 2, {"axis": 1})
    indices.type = onnx_ir.TensorType(INT64)
    real = reader.node("Greater", [values, never], dtype=BOOL)
    return reader.node("Where", [real, indices, reader.ints([-1])], dtype=INT64)


def _kept(
    reader: Reader,
    op: Operation,
    boxes: onnx_ir.Value,
    scores: onnx_ir.Value,
    best: onnx_ir.Value,
) -> onnx_ir.Value:
    """[batch, boxes]: which aren't suppressed."""
    classes = (
        _by_class(reader, scores, best)
        if reader.setting(op, "per_class_suppression", False)
        else reader.node("Unsqueeze", [best, reader.ints([1])])
    )
    overlap = np.float32(reader.setting(op, "iou_threshold"))
    lowest = np.float32(reader.setting(op, "score_threshold", -np.inf))
    inputs = [
        boxes,
        classes,
        reader.const(np.iinfo(np.int32).max, np.int64),
        reader.const(overlap, np.float32),
        reader.const(np.nextafter(lowest, np.float32(-np.inf)), np.float32),
    ]
    picked = reader.node("NonMaxSuppression", inputs, {"center_point_box": 1}, INT64)
    where = reader.node("Gather", [picked, reader.ints([0, 2])], {"axis": 1})
    zeros = reader.node(
        "ConstantOfShape",
        [part(reader, best, 0)],
        {"value": onnx_ir.Tensor(np.zeros(1, np.float32))},
        FLOAT,
    )
    rows = part(reader, picked, 0, 1)
    ones = reader.node("Expand", [reader.const(1.0, np.float32), rows])
    marks = reader.node("ScatterND", [zeros, where, ones])
    return reader.node("Greater", [marks, reader.const(0.5, np.float32)], dtype=BOOL)


def _by_class(reader: Reader, scores: onnx_ir.Value, best: onnx_ir.Value) -> onnx_ir.Value:
    """[batch, classes, boxes]: a box's score at its best class, at others none."""
    turned = _turned(reader, scores)
    winner = reader.node("ArgMax", [turned], {"axis": 1, "keepdims": 1}, INT64)
    count = reader.node("Squeeze", [part(reader, turned, 1, 2), reader.ints([0])])
    zero, one = reader.const(0, np.int64), reader.const(1, np.int64)
    numbers = reshape(reader, reader.node("Range", [zero, count, one]), [-1, 1])
    own = reader.node("Equal", [numbers, winner], dtype=BOOL)
    return reader.node("Where", [own, turned, reader.const(-np.inf, np.float32)], dtype=FLOAT)


def _taken(
    reader: Reader, x: onnx_ir.Value, rows: onnx_ir.Value, valid: onnx_ir.Value
) -> onnx_ir.Value:
    """[batch, max_boxes, ...]: the rows of each batch, zeros where there is none."""
    column = reader.node("Unsqueeze", [rows, reader.ints([-1])])
    found = reader.node("GatherND", [x, column], {"batch_dims": 1}, x.dtype)
    mask = reader.node("Unsqueeze", [valid, reader.ints([-1])])
    return reader.node("Where", [mask, found, reader.number(0.0, x)], dtype=x.dtype)
