"""What is left of a tensor by the places of its elements: triangles, maxima, blocks and borders."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir

from converter.ir.attributes import ints, number, text
from converter.ir.refused import Refused
from converter.passes.legalize.builder import (
    Array,
    Builder,
    DataType,
    Size,
    Value,
    dims,
    rank,
)
from converter.passes.legalize.formulas import Numbers, joined

BROADCAST = 4
"""Axes up to which targets broadcast whatever a Where takes."""


def _beside_diagonal(b: Builder, x: Value, op: str, k: Array | Value) -> Array | Value:
    """Where column - row compares with ``k``: bool [rows, columns]."""
    rows, columns = (Numbers.counted(b, b.size(x, axis)) for axis in (-2, -1))
    off = (columns - rows.expanded([1])).content
    if isinstance(off, Value) or isinstance(k, Value):
        return b.op(op, off, k)
    compare = {"Equal": np.equal, "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal}
    return np.asarray(compare[op](off, k))


def trilu(b: Builder, node: onnx_ir.Node) -> Value:
    """Zero beside the triangle on and above the diagonal ``k``, or on and below it."""
    x, given = node.inputs[0], b.input(1)
    assert x is not None
    known = b.constant(given)
    k: Array | Value = np.asarray(0) if known is None else known.reshape(())
    if given is not None and known is None:
        k = b.reshape(given, [])
    upper = number(node, "upper", 1)
    mask = _beside_diagonal(b, x, "GreaterOrEqual" if upper else "LessOrEqual", k)
    sizes = b.sizes(x)
    flat = x
    if rank(x) > BROADCAST:
        flat = b.reshape(x, [b.product(sizes[:-2]), *sizes[-2:]])
    return b.reshape(b.op("Where", mask, flat, b.number(0, x)), sizes)


def eye_like(b: Builder, node: onnx_ir.Node) -> Value:
    """One where the column is the row plus ``k``."""
    x, dtype = node.inputs[0], node.outputs[0].dtype
    assert x is not None and dtype is not None
    made = _beside_diagonal(b, x, "Equal", np.asarray(number(node, "k", 0)))
    return Numbers(b, made, dtype).value


def hardmax(b: Builder, node: onnx_ir.Node) -> Value:
    """One at the place of the first largest number, zero elsewhere."""
    x = node.inputs[0]
    assert x is not None and x.dtype is not None
    axis = number(node, "axis", -1) % rank(x)
    first = b.op("ArgMax", x, axis=axis, keepdims=1)
    own = Numbers.counted(b, b.size(x, axis)).expanded(range(1, rank(x) - axis))
    return b.cast(b.op("Equal", own.content, first), x.dtype)


def compress(b: Builder, node: onnx_ir.Node) -> Value:
    """A Gather where the condition holds; without an axis, of the flat data."""
    x, condition = node.inputs[:2]
    assert x is not None
    if "axis" not in node.attributes:
        x = b.reshape(x, [b.product(b.sizes(x))])
    places = b.squeeze(b.op("NonZero", condition), [0])
    return b.op("Gather", x, places, axis=number(node, "axis", 0))


def center_crop_pad(b: Builder, node: onnx_ir.Node) -> Value:
    """A Slice and a Pad: what is odd goes to the end."""
    x, wanted = node.inputs[0], b.input(1)
    assert x is not None and wanted is not None
    known = b.constant(wanted)
    nothing = Numbers(b, 0, DataType.INT64)
    begin, before, after = ([nothing] * rank(x) for _ in range(3))
    end = [Numbers.of_size(b, size, DataType.INT64) for size in b.sizes(x)]
    for place, given in enumerate(ints(node, "axes", range(rank(x)))):
        axis, at = given % rank(x), np.asarray(place)
        asked = known.ravel()[place] if known is not None else b.op("Gather", wanted, at)
        size, have = Numbers(b, asked, DataType.INT64), end[axis]
        begin[axis] = (have - size).at_least(0) / 2
        end[axis] = begin[axis] + size.at_most(have)
        before[axis] = (size - have).at_least(0) / 2
        after[axis] = (size - have).at_least(0) - before[axis]
    ends, pads = joined(b, end), joined(b, [*before, *after])
    if isinstance(ends, Value) or ends.tolist() != dims(x):
        x = b.op("Slice", x, joined(b, begin), ends, np.arange(rank(x)))
    return b.op("Pad", x, pads) if isinstance(pads, Value) or pads.any() else x


# -- blocks ------------------------------------------------------------------------------


def depth_to_space(b: Builder, node: onnx_ir.Node) -> Value:
    """Rows and columns of a block, before channels (DCR) or behind, beside the image's."""
    x, block = node.inputs[0], number(node, "blocksize", 1)
    assert x is not None
    n, depth, *image = b.sizes(x)
    channels, square = _parts(b, depth, block * block), [block, block]
    first = text(node, "mode", "DCR") == "DCR"
    apart = b.reshape(x, [n, *([*square, channels] if first else [channels, *square]), *image])
    made = b.transpose(apart, [0, 3, 4, 1, 5, 2] if first else [0, 1, 4, 2, 5, 3])
    return b.reshape(made, [n, channels, *(b.product([size, block]) for size in image)])


def space_to_depth(b: Builder, node: onnx_ir.Node) -> Value:
    """The way back from DCR."""
    x, block = node.inputs[0], number(node, "blocksize", 1)
    assert x is not None
    n, channels, *image = b.sizes(x)
    height, width = (_parts(b, size, block) for size in image)
    apart = b.reshape(x, [n, channels, height, block, width, block])
    depth = b.product([channels, block * block])
    return b.reshape(b.transpose(apart, [0, 3, 5, 1, 2, 4]), [n, depth, height, width])


def _parts(b: Builder, size: Size, count: int) -> Size:
    return (Numbers.of_size(b, size, DataType.INT64) / count).size()


# -- Col2Im ------------------------------------------------------------------------------


def col2im(b: Builder, node: onnx_ir.Node) -> Value:
    """A scatter that adds what falls on the same place, into an image with its padding; sums of
    float16 in float32, since ONNX Runtime has no such scatter of float16.

    Given:   x [N, C * window, blocks]     Result:   y [N, C, *image]
    """
    x = node.inputs[0]
    assert x is not None and x.dtype is not None
    image = [int(size) for size in b.needed(1, "image_shape").ravel()]
    block = [int(size) for size in b.needed(2, "block_shape").ravel()]
    count = len(image)
    strides, dilations = (ints(node, name, [1] * count) for name in ("strides", "dilations"))
    pads = ints(node, "pads", [0] * 2 * count)
    whole = [size + pads[i] + pads[count + i] for i, size in enumerate(image)]
    places = _places(whole, block, strides, dilations)
    depth, blocks = dims(x)[1:]
    if not isinstance(depth, int) or depth % int(np.prod(block)) or blocks != places.shape[1]:
        raise Refused(f"a Col2Im of data {dims(x)}, where {places.shape[1]} blocks fit the image")
    channels = depth // int(np.prod(block))
    each: Size = b.product([b.size(x, 0), channels])
    area = int(np.prod(whole))
    moved = b.transpose(b.reshape(x, [each, places.size]), [1, 0])
    moved = b.cast(moved, DataType.FLOAT) if x.dtype == DataType.FLOAT16 else moved
    zeros = b.op("Expand", b.number(0, moved), b.vector([area, each]))
    made = b.op("ScatterND", zeros, places.reshape(-1, 1), moved, reduction="add")
    made = b.cast(made, x.dtype)
    made = b.reshape(b.transpose(made, [1, 0]), [b.size(x, 0), channels, *whole])
    if not any(pads):
        return made
    limits = (pads[:count], [pads[i] + size for i, size in enumerate(image)], range(2, count + 2))
    return b.op("Slice", made, *(np.asarray(list(part)) for part in limits))


def _places(whole: list[int], block: list[int], strides: list[int], dilations: list[int]) -> Array:
    """Where in the flat image each element of each block goes: [window, blocks]."""
    steps = np.cumprod([1, *whole[:0:-1]])[::-1]
    starts = [
        range(0, size - d * (k - 1), s)
        for size, k, s, d in zip(whole, block, strides, dilations, strict=True)
    ]
    window = np.asarray(list(product(*map(range, block)))) * dilations @ steps
    return window[:, None] + (np.asarray(list(product(*starts))) @ steps)[None, :]


REWRITES = {
    "CenterCropPad": center_crop_pad,
    "Col2Im": col2im,
    "Compress": compress,
    "DepthToSpace": depth_to_space,
    "EyeLike": eye_like,
    "Hardmax": hardmax,
    "SpaceToDepth": space_to_depth,
    "Trilu": trilu,
}
