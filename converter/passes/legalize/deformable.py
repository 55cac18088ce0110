"""DeformConv as a GridSample at the moved elements of the kernel, and a Conv of what that gives.

    y(p) = sum over the kernel's places k of W_k * x(p * stride - pad + k * dilation + offset_k)

where x between elements is bilinear and nothing beyond its edge. Zeros are put behind the image
until a power of two lies between its outermost pixels: places from -1 to 1 among those are as exact
as in pixels, in whichever way a runtime goes from the one to the other.

Source: the operator page ``DeformConv``.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import ints, number
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Array, Builder, Value, dims


def deform_conv(b: Builder, node: onnx_ir.Node) -> Value:
    """See the module. The batch may be free."""
    x, weight, offsets = node.inputs[:3]
    assert x is not None and weight is not None and offsets is not None
    n, channels, *free = b.sizes(x)
    size = [dim for dim in free if isinstance(dim, int)]
    outputs, inner, *kernel = (dim for dim in dims(weight) if isinstance(dim, int))
    if len(free) != 2:
        raise Refused(f"a DeformConv of {len(free)} spatial axes: only two are possible")
    if len(size) < 2 or len(kernel) < 2 or not isinstance(channels, int):
        raise Refused("a DeformConv over free dimensions", "fix them (--input NAME:DIMS)")
    base = _elements(node, size, kernel)
    count, high, wide = base.shape[:3]
    groups = number(node, "offset_group", 1)
    images = b.product([n, groups])
    moves = b.reshape(offsets, [images, count, 2, high * wide])
    moves = b.reshape(b.transpose(moves, [0, 1, 3, 2]), [images, count * high, wide, 2])
    moves = b.op("Gather", moves, np.asarray([1, 0]), axis=3)  # ONNX has y before x
    assert x.dtype is not None
    dtype = x.dtype.numpy()
    places = b.op("Add", moves, base.reshape(1, count * high, wide, 2).astype(dtype))
    halves = np.asarray([2.0 / _steps(dim) for dim in size[::-1]], dtype)
    normal = b.op("Sub", b.op("Mul", places, halves), b.number(1.0, x))
    more = np.asarray([0] * 6 + [_steps(dim) + 1 - dim for dim in size])
    image = b.op("Pad", b.reshape(x, [images, channels // groups, *size]), more)
    found = b.op("GridSample", image, normal, mode="linear", padding_mode="zeros", align_corners=1)
    mask = b.input(4)
    if mask is not None:
        found = b.op("Mul", found, b.reshape(mask, [images, 1, count * high, wide]))
    columns = b.reshape(found, [n, channels * count, high, wide])
    flat = b.reshape(weight, [outputs, inner * count, 1, 1])
    bias, group = b.input(3), number(node, "group", 1)
    return b.op("Conv", columns, flat, *([bias] if bias is not None else []), group=group)


def _steps(size: int) -> int:
    """The power of two that isn't below the steps from the first pixel to the last."""
    return 1 << max(size - 2, 0).bit_length()


def _elements(node: onnx_ir.Node, size: list[int], kernel: list[int]) -> Array:
    """Where the kernel's elements lie without offsets, x before y: [elements, H', W', 2]."""
    pads = ints(node, "pads", [0] * 4)
    strides, dilations = (ints(node, name, [1, 1]) for name in ("strides", "dilations"))
    axes = []
    for axis in (0, 1):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        out = (size[axis] + pads[axis] + pads[axis + 2] - reach) // strides[axis] + 1
        starts = np.arange(out) * strides[axis] - pads[axis]
        steps = np.arange(kernel[axis]) * dilations[axis]
        axes.append(steps[:, None] + starts)
    (rows, high), (columns, wide) = axes[0].shape, axes[1].shape
    down = np.broadcast_to(axes[0][:, None, :, None], (rows, columns, high, wide))
    across = np.broadcast_to(axes[1][None, :, None, :], (rows, columns, high, wide))
    return np.stack([across, down], axis=-1).reshape(rows * columns, high, wide, 2)


REWRITES = {"DeformConv": deform_conv}
