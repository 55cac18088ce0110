"""ConvTranspose and Col2Im: conv_transpose.

The whole of a transposed convolution is (size - 1) * stride + reach elements an axis. ONNX cuts
padding from both ends of it, or adds zeros to its end where ``output_padding`` is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.ops.convolution import need_spatial, split_bias, with_bias
from emitters.coreml.ops.windows import padded
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, Array
from emitters.lowering.attributes import ints, number, text
from emitters.lowering.refused import Refused


@dataclass(frozen=True)
class Cut:
    """A transposed convolution's numbers, for each spatial axis.

    Attributes:
        strides, dilations: As the node has them.
        before: Elements cut from the start of the whole.
        after: Elements cut from its end; added to it, where negative.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        """Elements added to the end."""
        return tuple(max(-n, 0) for n in self.after)

    @property
    def pad(self) -> list[int]:
        """MIL's ``pad``: what is cut before and after, axis by axis."""
        pairs = zip(self.before, self.after, strict=True)
        return [n for before, after in pairs for n in (before, max(after, 0))]


@lowers("ConvTranspose")
def conv_transpose(context: Context, node: onnx_ir.Node) -> None:
    """See the module."""
    x, weight = context.var(node.inputs[0]), context.var(node.inputs[1])
    need_spatial(node, x)
    if not weight.is_descendant_of_const and context.target < 17:
        raise Refused("a ConvTranspose with computed weights", "needs --coreml-target iOS17")
    cut = cut_of(node, x.shape[2:], weight.shape[2:])
    bias, later = split_bias(context.optional(node, 2), computed=False)
    if any(cut.added):
        bias, later = None, bias if bias is not None else later
    made = transposed(context, x, weight, bias, cut, number(node, "group", 1))
    context.give(node.outputs[0], with_bias(context, made, later))


def transposed(
    context: Context, x: Var, weight: Var, bias: Var | None, cut: Cut, groups: int
) -> Var:
    """conv_transpose, then the zeros at the end."""
    made = context.op(
        "conv_transpose",
        x=x,
        weight=weight,
        bias=bias,
        strides=list(cut.strides),
        dilations=list(cut.dilations),
        groups=groups,
        pad_type="custom" if any(cut.pad) else "valid",
        pad=cut.pad if any(cut.pad) else None,
    )
    ends = [n for added in cut.added for n in (0, added)]
    return padded(context, made, [0, 0, 0, 0, *ends], 0.0)


def cut_of(node: onnx_ir.Node, dims: Sequence[Any], kernel: Sequence[Any]) -> Cut:
    """A node's numbers. With ``output_shape`` or ``auto_pad``, padding follows from the output's
    size: (size - 1) * stride + output_padding + reach - output, a half of it on each side."""
    known = sizing.numbers(kernel)
    if known is None:
        raise Refused("a kernel of free dimensions", "fix them with --input NAME:DIMS")
    count = len(known)
    strides = ints(node, "strides", [1] * count)
    dilations = ints(node, "dilations", [1] * count)
    more = ints(node, "output_padding", [0] * count)
    pads = ints(node, "pads", [0] * (2 * count))
    mode = text(node, "auto_pad", "NOTSET")
    wanted = ints(node, "output_shape", [])
    before, after = [], []
    for axis, dim in enumerate(dims):
        reach = (known[axis] - 1) * dilations[axis] + 1
        first, last = (pads[axis], pads[axis + count]) if mode == "NOTSET" else (0, 0)
        if wanted or mode in ("SAME_UPPER", "SAME_LOWER"):
            target = wanted[axis - count] if wanted else None
            total = _total(dim, strides[axis], reach + more[axis], target)
            small = max(total, 0) // 2
            first = small if mode == "SAME_UPPER" else max(total, 0) - small
            last = total - first
        before.append(first)
        after.append(last - more[axis])
    if min(before) < 0:
        raise Refused("negative pads", "pad the output by a Pad instead")
    return Cut(tuple(strides), tuple(dilations), tuple(before), tuple(after))


def _total(dim: Any, stride: int, reach: int, target: int | None) -> int:
    """Padding for an output of ``target`` elements, or of size * stride; below 0, that many are
    added to the end."""
    if target is None:
        return max(reach - stride, 0)
    if free(dim):
        raise Refused("an output_shape of a free dimension", "fix it with --input NAME:DIMS")
    return (int(dim) - 1) * stride + reach - target


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
    after = [pads[count + i] - (w - e) for i, (w, e) in enumerate(zip(whole, ends, strict=True))]
    n, rows, columns = sizing.sizes(context, x)
    if free(rows) or int(rows) % window or (not free(columns) and columns != np.prod(blocks)):
        raise Refused(f"a Col2Im of data {tuple(x.shape)}, where {blocks} blocks fit the image")
    kind, channels = context.type_of(x), int(rows) // window
    kernel: Array = np.eye(window, dtype=NUMPY[kind]).reshape(window, 1, *block)
    each = sizing.compute(context, "mul", n, channels)
    grid = sizing.reshape(context, x, [each, window, *blocks])
    cut = Cut(tuple(strides), tuple(dilations), tuple(pads[:count]), tuple(after))
    made = transposed(context, grid, context.const(kernel), None, cut, 1)
    context.give(node.outputs[0], sizing.reshape(context, made, [n, channels, *image]))
