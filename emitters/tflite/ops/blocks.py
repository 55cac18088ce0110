"""DepthToSpace and SpaceToDepth, CenterCropPad and Col2Im: pixels in other places."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir

from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import Array, DataType, Tensor, known
from emitters.tflite.registry import CHANNELS_LAST, lowers

TAKEN = {DataType.FLOAT, DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64}
"""What DEPTH_TO_SPACE and SPACE_TO_DEPTH take."""


@lowers("DepthToSpace", domain=CHANNELS_LAST, integer=True)
def depth_to_space(context: Context, node: onnx_ir.Node) -> None:
    """DEPTH_TO_SPACE, which takes a pixel's channels as rows, columns, channels: ONNX's DCR. For
    CRD, channels, rows, columns, a GATHER puts them in that order first."""
    x, size = context.tensor(node.inputs[0]), node.attributes["blocksize"].as_int()
    mode = node.attributes.get("mode")
    if mode is not None and mode.as_string() == "CRD":
        x = _reordered(context, x, size)
    _between(context, node, "DEPTH_TO_SPACE", x, size)


@lowers("SpaceToDepth", domain=CHANNELS_LAST, integer=True)
def space_to_depth(context: Context, node: onnx_ir.Node) -> None:
    """SPACE_TO_DEPTH, in ONNX's order: rows and columns of a block, then channels."""
    x = context.tensor(node.inputs[0])
    _between(context, node, "SPACE_TO_DEPTH", x, node.attributes["blocksize"].as_int())


def _between(context: Context, node: onnx_ir.Node, op: str, x: Tensor, size: int) -> None:
    if x.dtype not in TAKEN:
        raise Refused(f"LiteRT's {op} doesn't take {x.dtype.name.lower()}")
    if size == 1:
        context.give(node.outputs[0], _rescaled(context, node, x))
        return
    shape = context.shape(node.outputs[0])
    made = context.emit(op, [x], shape, quant=x.quant, options={"blockSize": size})
    context.give(node.outputs[0], _rescaled(context, node, made))


def _rescaled(context: Context, node: onnx_ir.Node, x: Tensor) -> Tensor:
    """With the scales of the node's output, which may differ from its input's."""
    quant = node.outputs[0].meta.get(QUANT)
    if quant is None or quant.same(x.quant):
        return x
    return context.emit("QUANTIZE", [x], x.shape, x.dtype, quant=quant)


def _reordered(context: Context, x: Tensor, size: int) -> Tensor:
    """The channels of [C, rows, columns] as [rows, columns, C]."""
    depth = x.shape[-1]
    if not isinstance(depth, int):
        raise Refused("a DepthToSpace whose channels aren't known")
    order = np.arange(depth, dtype=np.int32).reshape(-1, size * size).T.ravel()
    return context.emit(
        "GATHER",
        [x, context.constant(order)],
        x.shape,
        quant=x.quant,
        options={"axis": x.rank - 1, "batchDims": 0},
    )


# -- CenterCropPad -----------------------------------------------------------------------


@lowers("CenterCropPad", integer=True)
def center_crop_pad(context: Context, node: onnx_ir.Node) -> None:
    """SLICE and PAD to a known shape: what is odd goes to the end."""
    x = context.tensor(node.inputs[0])
    wanted = [int(size) for size in context.needed(node, 1, "shape").ravel()]
    attribute = node.attributes.get("axes")
    axes = list(attribute.as_ints()) if attribute is not None else list(range(x.rank))
    begin, sizes = [0] * x.rank, [-1] * x.rank
    before, after = [0] * x.rank, [0] * x.rank
    kept = list(x.shape)
    for axis, size in zip((axis % x.rank for axis in axes), wanted, strict=True):
        have = x.shape[axis]
        if not isinstance(have, int):
            raise Refused("a CenterCropPad of a free dimension", "fix it with --input NAME:DIMS")
        if have > size:
            begin[axis], sizes[axis], kept[axis] = (have - size) // 2, size, size
        else:
            before[axis] = (size - have) // 2
            after[axis] = size - have - before[axis]
    if tuple(kept) != x.shape:
        limits = [context.integers(begin), context.integers(sizes)]
        x = context.emit("SLICE", [x, *limits], kept, quant=x.quant)
    context.give(node.outputs[0], _rescaled(context, node, build.pad(context, x, before, after)))


# -- Col2Im ------------------------------------------------------------------------------


@lowers("Col2Im")
def col2im(context: Context, node: onnx_ir.Node) -> None:
    """SCATTER_ND, which adds what falls on the same place, into an image with its padding; a
    SLICE takes that off.

    Given:   x [N, C * window, blocks]     Result:   y [N, C, *image]
    """
    x = context.tensor(node.inputs[0])
    if x.dtype != DataType.FLOAT:
        raise Refused(f"a Col2Im of {x.dtype.name.lower()}")
    image = [int(size) for size in context.needed(node, 1, "image_shape").ravel()]
    block = [int(size) for size in context.needed(node, 2, "block_shape").ravel()]
    rank = len(image)
    strides, dilations = _ints(node, "strides", [1] * rank), _ints(node, "dilations", [1] * rank)
    pads = _ints(node, "pads", [0] * 2 * rank)
    whole = [size + pads[i] + pads[rank + i] for i, size in enumerate(image)]
    places = _places(whole, block, strides, dilations)
    numbers = known(x.shape[1:])
    if numbers is None or numbers[0] % int(np.prod(block)) or numbers[1] != places.shape[1]:
        raise Refused(f"a Col2Im of data {x.shape}, where {places.shape[1]} blocks fit the image")
    batch, depth = x.shape[0], numbers[0] // int(np.prod(block))
    flat = build.reshape(context, x, (batch, depth, places.size))
    moved = build.transpose(context, flat, [2, 1, 0])
    area = int(np.prod(whole))
    index = context.constant(places.reshape(-1, 1).astype(np.int32))
    target = (area, depth, batch)
    made = context.emit("SCATTER_ND", [index, moved, context.sizes(target)], target, x.dtype)
    made = build.transpose(context, made, [2, 1, 0])
    made = build.reshape(context, made, (batch, depth, *whole))
    if any(pads):
        begin = context.integers([0, 0, *pads[:rank]])
        made = context.emit(
            "SLICE", [made, begin, context.integers([-1, -1, *image])], (batch, depth, *image)
        )
    context.give(node.outputs[0], made)


def _places(whole: list[int], block: list[int], strides: list[int], dilations: list[int]) -> Array:
    """Where in the flat image each element of each block goes: [window, blocks]."""
    steps = np.cumprod([1, *whole[:0:-1]])[::-1]
    starts = [
        range(0, size - d * (k - 1), s)
        for size, k, s, d in zip(whole, block, strides, dilations, strict=True)
    ]
    window = np.asarray(list(product(*map(range, block)))) * dilations @ steps
    return window[:, None] + (np.asarray(list(product(*starts))) @ steps)[None, :]


def _ints(node: onnx_ir.Node, name: str, default: list[int]) -> list[int]:
    attribute = node.attributes.get(name)
    return list(attribute.as_ints()) if attribute is not None else default
