"""ConvTranspose and Col2Im: conv_transpose."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.graph.attributes import ints, number
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.ops.convolution import need_spatial, split_bias, with_bias
from emitters.coreml.ops.windows import padded
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, Array
from emitters.lowering.plans.transposed_windows import TransposedWindow, transposed_window_of
from emitters.lowering.refused import Refused


@lowers("ConvTranspose")
def conv_transpose(context: Context, node: onnx_ir.Node) -> None:
    """conv_transpose: see :mod:`emitters.lowering.plans.transposed_windows`."""
    x, weight = context.var(node.inputs[0]), context.var(node.inputs[1])
    need_spatial(node, x)
    if not weight.is_descendant_of_const and context.target < 17:
        raise Refused("a ConvTranspose with computed weights", "needs --coreml-target iOS17")
    window = transposed_window_of(node, x.shape[2:], weight.shape[2:])
    bias, later = split_bias(context.optional(node, 2), computed=False)
    if any(n > 0 for n in window.added):
        bias, later = None, bias if bias is not None else later
    made = transposed(context, x, weight, bias, window, number(node, "group", 1))
    context.give(node.outputs[0], with_bias(context, made, later))


def transposed(
    context: Context,
    x: Var,
    weight: Var,
    bias: Var | None,
    window: TransposedWindow,
    groups: int,
) -> Var:
    """conv_transpose, then the zeros at the end."""
    pairs = zip(window.cut, window.added, strict=True)
    pad = [n for before, added in pairs for n in (before, max(-added, 0))]
    made = context.op(
        "conv_transpose",
        x=x,
        weight=weight,
        bias=bias,
        strides=list(window.strides),
        dilations=list(window.dilations),
        groups=groups,
        pad_type="custom" if any(pad) else "valid",
        pad=pad if any(pad) else None,
    )
    ends = [n for added in window.added for n in (0, max(added, 0))]
    return padded(context, made, [0, 0, 0, 0, *ends], 0.0)


@lowers("Col2Im")
def col2im(context: Context, node: onnx_ir.Node) -> None:
    """conv_transpose, each channel an image: the kernel's element k puts the k-th row of a block
    on its place, and what falls on the same place is added.

    Given:   x [N, C * window, blocks]     Result:   y [N, C, *image]
    """
    x = context.var(node.inputs[0])
    image = [int(n) for n in context.needed(node, 1, "image_shape").ravel()]
    block = [int(n) for n in context.needed(node, 2, "block_shape").ravel()]
    count, window = len(image), int(np.prod(block))
    if count > 3:
        raise Refused(f"a Col2Im of {count} spatial axes: MIL has those of one to three")
    strides, dilations = ints(node, "strides", [1] * count), ints(node, "dilations", [1] * count)
    pads = ints(node, "pads", [0] * (2 * count))
    reach = [(k - 1) * d + 1 for k, d in zip(block, dilations, strict=True)]
    whole = [size + pads[i] + pads[count + i] for i, size in enumerate(image)]
    blocks = [(w - r) // s + 1 for w, r, s in zip(whole, reach, strides, strict=True)]
    ends = [(b - 1) * s + r for b, s, r in zip(blocks, strides, reach, strict=True)]
    added = [w - e - pads[count + i] for i, (w, e) in enumerate(zip(whole, ends, strict=True))]
    n, rows, columns = sizing.sizes(context, x)
    if free(rows) or int(rows) % window or (not free(columns) and columns != np.prod(blocks)):
        raise Refused(f"a Col2Im of data {tuple(x.shape)}, where {blocks} blocks fit the image")
    kind, channels = context.type_of(x), int(rows) // window
    kernel: Array = np.eye(window, dtype=NUMPY[kind]).reshape(window, 1, *block)
    each = sizing.compute(context, "mul", n, channels)
    grid = sizing.reshape(context, x, [each, window, *blocks])
    cut = TransposedWindow(
        tuple(block), tuple(strides), tuple(dilations), tuple(pads[:count]), tuple(added)
    )
    made = transposed(context, grid, context.const(kernel), None, cut, 1)
    context.give(node.outputs[0], sizing.reshape(context, made, [n, channels, *image]))
