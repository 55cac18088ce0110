"""Windows of convolutions and pools: their borders."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from converter.ir.refused import Refused
from emitters.code.context import Context

MOST = 3
"""Axes of space that frameworks' windows have."""


def has_space(node: onnx_ir.Node) -> bool:
    """Whether it has as many axes of space as frameworks' windows have."""
    value = node.inputs[0]
    return value is not None and value.shape is not None and 1 <= len(value.shape) - 2 <= MOST


def padding_of(
    c: Context, space: int, kernel: Sequence[int], sizes: Sequence[int | str | None] | None = None
) -> list[int]:
    """What is added before each axis of space and, from the middle on, behind.

    Args:
        c: At the node.
        space: How many axes of space there are.
        kernel: Its window.
        sizes: Of the axes of space; else those behind the channels.
    """
    how = c.attr("auto_pad", "NOTSET")
    if how == "VALID":
        return [0] * (2 * space)
    if how not in ("SAME_UPPER", "SAME_LOWER"):
        return c.attr("pads") or [0] * (2 * space)
    strides = c.attr("strides") or [1] * space
    dilations = c.attr("dilations") or [1] * space
    sizes = (c.shape(0) or [])[2:] if sizes is None else sizes
    before, behind = [], []
    for size, window, stride, gap in zip(sizes, kernel, strides, dilations, strict=True):
        reach = (window - 1) * gap + 1
        if not isinstance(size, int):
            if stride > 1:
                raise Refused("its padding depends on a free size", "fix it (--dim)")
            whole = reach - 1
        else:
            whole = max((-(-size // stride) - 1) * stride + reach - size, 0)
        first = whole // 2 if how == "SAME_UPPER" else whole - whole // 2
        before.append(first)
        behind.append(whole - first)
    return before + behind


def cut_of(
    c: Context,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    more: Sequence[int],
    sizes: Sequence[int | str | None],
) -> list[int]:
    """What a transposed convolution cuts off before and behind, by ONNX's formula for
    ``output_shape``.

    Args:
        c: The node's context.
        kernel: The window's size along each axis of space.
        strides: Its step along each.
        dilations: The distance between its elements along each.
        more: Elements added behind (``output_padding``) along each.
        sizes: Of the input's axes of space; a free one is a name or None.

    Returns:
        What is cut off before each axis of space, then what is cut off behind.

    Raises:
        Refused: A size that the formula needs is free.
    """
    space = len(kernel)
    wanted, how = c.attr("output_shape"), c.attr("auto_pad", "NOTSET")
    if wanted is None and how in ("NOTSET", "VALID"):
        return c.attr("pads") or [0] * (2 * space)
    before, behind = [], []
    for axis, size in enumerate(sizes):
        if not isinstance(size, int):
            raise Refused("its borders depend on a free size", "fix it (--dim)")
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        out = wanted[-space:][axis] if wanted is not None else size * strides[axis]
        whole = strides[axis] * (size - 1) + more[axis] + reach - out
        half = whole // 2
        first = half if how == "SAME_UPPER" else whole - half
        before.append(first)
        behind.append(whole - first)
    return before + behind


def is_even(pads: Sequence[int]) -> bool:
    """Whether as much is added before as behind."""
    space = len(pads) // 2
    return list(pads[:space]) == list(pads[space:])
