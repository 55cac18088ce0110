"""Elements moved between channels, space and the batch, in blocks."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import FAR, Size, reshape, size, sizes


@reads("depth_to_space")
def depth_to_space(reader: Reader, op: Operation) -> None:
    """DepthToSpace: a channel's number begins with its place in the block."""
    x, block = reader.value(op, "x"), reader.setting(op, "block_size")
    reader.give(op, reader.node("DepthToSpace", [x], {"blocksize": block, "mode": "DCR"}))


@reads("pixel_shuffle")
def pixel_shuffle(reader: Reader, op: Operation) -> None:
    """DepthToSpace: a channel's number ends with its place in the block."""
    x, block = reader.value(op, "x"), reader.setting(op, "upscale_factor")
    reader.give(op, reader.node("DepthToSpace", [x], {"blocksize": block, "mode": "CRD"}))


@reads("space_to_depth")
def space_to_depth(reader: Reader, op: Operation) -> None:
    x, block = reader.value(op, "x"), reader.setting(op, "block_size")
    reader.give(op, reader.node("SpaceToDepth", [x], {"blocksize": block}))


@reads("pixel_unshuffle")
def pixel_unshuffle(reader: Reader, op: Operation) -> None:
    """SpaceToDepth, then the channels in another order: of a channel, its block follows."""
    x, block = reader.value(op, "x"), reader.setting(op, "downscale_factor")
    channels = sizes(x)[1]
    if channels is None:
        raise Refusal("the number of its channels isn't known in advance")
    deep = reader.node("SpaceToDepth", [x], {"blocksize": block})
    order = np.arange(block * block * channels).reshape(block * block, channels).T.ravel()
    reader.give(op, reader.node("Gather", [deep, reader.ints(order.tolist())], {"axis": 1}))


@reads("space_to_batch")
def space_to_batch(reader: Reader, op: Operation) -> None:
    """Padded, cut into blocks; an element's place in its block comes first in the batch."""
    x = reader.value(op, "x")
    rows, columns = reader.setting(op, "block_shape")
    (top, bottom), (left, right) = reader.setting(op, "paddings")
    pads = reader.ints([0, 0, top, left, 0, 0, bottom, right])
    padded = reader.node("Pad", [x, pads, reader.number(0.0, x)])
    count, channels = size(reader, x, 0), size(reader, x, 1)
    height = _scaled(reader, size(reader, x, 2), add=top + bottom, divide=rows)
    width = _scaled(reader, size(reader, x, 3), add=left + right, divide=columns)
    apart = reshape(reader, padded, [count, channels, height, rows, width, columns])
    moved = reader.node("Transpose", [apart], {"perm": [3, 5, 0, 1, 2, 4]})
    reader.give(op, reshape(reader, moved, [-1, channels, height, width]))


@reads("batch_to_space")
def batch_to_space(reader: Reader, op: Operation) -> None:
    """Blocks put together from the batch, then cropped."""
    x = reader.value(op, "x")
    rows, columns = reader.setting(op, "block_shape")
    (top, bottom), (left, right) = reader.setting(op, "crops")
    channels, height, width = (size(reader, x, axis) for axis in (1, 2, 3))
    apart = reshape(reader, x, [rows, columns, -1, channels, height, width])
    moved = reader.node("Transpose", [apart], {"perm": [2, 3, 4, 0, 5, 1]})
    tall = _scaled(reader, height, multiply=rows)
    wide = _scaled(reader, width, multiply=columns)
    joined = reshape(reader, moved, [-1, channels, tall, wide])
    ends = reader.ints([-bottom if bottom else FAR, -right if right else FAR])
    reader.give(op, reader.node("Slice", [joined, reader.ints([top, left]), ends, _space(reader)]))


def _space(reader: Reader) -> onnx_ir.Value:
    return reader.ints([2, 3])


def _scaled(reader: Reader, x: Size, add: int = 0, multiply: int = 1, divide: int = 1) -> Size:
    """A size, with something added, times a number, divided by another."""
    if isinstance(x, int):
        return (x + add) * multiply // divide
    for kind, number in (("Add", add), ("Mul", multiply), ("Div", divide)):
        if number != (0 if kind == "Add" else 1):
            x = reader.node(kind, [x, reader.ints([number])], dtype=DataType.INT64)
    return x
