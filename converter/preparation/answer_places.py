"""Masks, points and letters as ONNX operators behind a model: see :mod:`answer_graph`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.model import Model
from converter.passes.legalize.builder import Builder
from converter.preparation.answers import Keypoints, Masks, Spelled
from converter.preparation.graph_ends import activated, behind, output_of, put_other, refused
from converter.preparation.picture_graph import Placed

Array = np.ndarray[Any, Any]
Value = onnx_ir.Value
DataType = onnx_ir.DataType

Size = tuple[int | None, int | None]


def put_masks(model: Model, known: Masks, placed: Placed | None, size: Size) -> Masks:
    """Puts each pixel's class behind a model, int64 [batch, height, width].

    It has the picture's own size where the graph knows it, else the output's.

    Args:
        model: The model, which is changed.
        known: The declared answer.
        placed: Where the picture is in the model's; None where the graph doesn't know.
        size: Height and width of the model's picture, in pixels; None for a free one.

    Returns:
        The answer that is left to do outside of the graph.

    Raises:
        UsageError: The output's axes, or the sizes of the model's picture, aren't known.
    """
    value = output_of(model, known.output)
    if value.shape is None or len(value.shape) not in (3, 4):
        raise refused(f"{known.output} isn't [batch, classes, height, width]")
    if len(value.shape) == 3 and placed is None:
        return known
    b = behind(model, value)
    fused: list[str] = []
    if len(value.shape) == 4:
        fused.append("argmax")
        x = b.cast(value, DataType.FLOAT)
        x = b.op("ArgMax", x, axis=3 if known.channels_last else 1, keepdims=0)
    else:
        x = b.cast(value, DataType.INT64)
    if placed is not None:
        fused.append("size")
        for axis in (0, 1):
            x = b.op("Gather", x, _nearest(b, x, placed, size, axis), axis=axis + 1)
    put_other(b, model, x)
    return known.model_copy(update={"fused": tuple(fused)})


def _nearest(b: Builder, x: Value, placed: Placed, size: Size, axis: int) -> Value:
    """Which of an output's rows (``axis`` 0) or columns each of the picture's is."""
    if size[axis] is None:
        raise refused("the masks are relative to the model's picture, whose size is free")
    place = np.array(axis, np.int64)
    count = b.op("Gather", placed.size, place)
    steps = b.op("Gather", b.op("Shape", x), np.array(axis + 1, np.int64))
    at = b.op("Range", np.array(0, np.int64), count, np.array(1, np.int64))
    at = b.op("Add", b.cast(at, DataType.FLOAT), np.array(0.5, np.float32))
    if placed.scale is not None:
        at = b.op("Mul", at, b.op("Gather", placed.scale, place))
    if placed.offset is not None:
        at = b.op("Add", at, b.op("Gather", placed.offset, place))
    at = b.op("Mul", at, b.cast(steps, DataType.FLOAT))
    at = b.op("Floor", b.op("Div", at, np.array(size[axis], np.float32)))
    last = b.op("Sub", steps, np.array(1, np.int64))
    at = b.op("Max", b.cast(at, DataType.INT64), np.array(0, np.int64))
    return b.op("Min", at, last)


def put_keypoints(model: Model, known: Keypoints, placed: Placed | None, size: Size) -> Keypoints:
    """Puts points as x and y in pixels behind a model.

    They are of the picture where the graph knows where it is in the model's, else of the model's.

    Args:
        model: The model, which is changed.
        known: The declared answer.
        placed: Where the picture is in the model's; None where the graph doesn't know.
        size: Height and width of the model's picture, in pixels; None for a free one.

    Returns:
        The answer that is left to do outside of the graph.

    Raises:
        UsageError: The output isn't points, or the size of the model's picture isn't known.
    """
    value = output_of(model, known.output)
    width = value.shape[-1] if value.shape else None
    if width not in (2, 3):
        raise refused(f"{known.output} isn't [batch, points, 2 or 3]")
    if not known.relative and known.order == "xy" and placed is None:
        return known
    b = behind(model, value)
    x = b.cast(value, DataType.FLOAT)
    first = [1, 0] if known.order == "yx" else [0, 1]
    points = b.op("Gather", x, np.array(first, np.int64), axis=-1)
    if known.relative:
        if None in size:
            raise refused("the points are relative to the model's picture, whose size is free")
        points = b.op("Mul", points, np.array(size[::-1], np.float32))
    across = np.array([1, 0], np.int64)  # of height and width: width and height
    if placed is not None and placed.offset is not None:
        points = b.op("Sub", points, b.op("Gather", placed.offset, across))
    if placed is not None and placed.scale is not None:
        points = b.op("Div", points, b.op("Gather", placed.scale, across))
    if width == 3:
        rest = b.op("Gather", x, np.array([2], np.int64), axis=-1)
        points = b.op("Concat", points, rest, axis=-1)
    put_other(b, model, points)
    return known.model_copy(update={"relative": False, "order": "xy", "fused": ("pixels",)})


def put_letters(model: Model, known: Spelled) -> Spelled:
    """CTC's best path, int64 [batch, steps]: at each step a letter's index, or -1 for a blank and
    for what repeats the step before; and beside it, as ``NAME_scores``, what each step scores.

    Raises:
        UsageError: The output's axes are others.
    """
    if known.scores is not None:
        return known
    value = output_of(model, known.output)
    if value.shape is None or len(value.shape) != 3 or value.shape[1] == 1:
        raise refused(f"{known.output} isn't [batch, steps, letters]")
    b = behind(model, value)
    x = b.cast(value, DataType.FLOAT)
    best = b.op("ArgMax", x, axis=-1, keepdims=0)
    sure = activated(b, x, known.activation) if known.activation else x
    sure = b.reduce("ReduceMax", sure, [-1], keep=False)
    first, rest, before = (_steps(b, best, *ends) for ends in ((0, 1), (1, None), (0, -1)))
    begins = b.op("Equal", first, first)
    anew = b.op("Concat", begins, b.op("Not", b.op("Equal", rest, before)), axis=1)
    letter = b.op("Not", b.op("Equal", best, np.array(known.blank, np.int64)))
    told = b.op("Where", b.op("And", anew, letter), best, np.array(-1, np.int64))
    sure.name = f"{known.output}_scores"
    put_other(b, model, told)
    model.graph.graph.outputs.append(sure)
    return known.model_copy(update={"scores": sure.name, "activation": "", "fused": ("best path",)})


def _steps(b: Builder, x: Value, first: int, end: int | None) -> Value:
    ends = (first, 2**31 - 1 if end is None else end, 1)
    return b.op("Slice", x, *(np.array([item], np.int64) for item in ends))
