"""Between TFLite's layout (channels last) and that of ONNX's spatial operators (channels first).

Each of them gets a Transpose before and one behind; a pass cancels those that meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from parsers.tflite.context import Context

SAME, VALID = 0, 1
"""The schema's ``Padding``."""


def channels_first(ctx: Context, value: onnx_ir.Value, rank: int = 4) -> onnx_ir.Value:
    """A tensor with its channels second.

    Args:
        ctx: Takes the nodes.
        value: [batch, space..., channels].
        rank: How many axes it has.
    """
    return ctx.transpose(value, [0, rank - 1, *range(1, rank - 1)])


def channels_last(ctx: Context, value: onnx_ir.Value, rank: int = 4) -> onnx_ir.Value:
    """A tensor with its channels last.

    Args:
        ctx: Takes the nodes.
        value: [batch, channels, space...].
        rank: How many axes it has.
    """
    return ctx.transpose(value, [0, *range(2, rank), 1])


@dataclass(frozen=True)
class Window:
    """A window over the spatial dimensions; one item for each of them."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


def padding(ctx: Context, window: Window, sizes: tuple[int, ...]) -> dict[str, object]:
    """The attributes ``pads`` or ``auto_pad`` for TFLite's padding.

    SAME gives ceil(size / stride) results, what is missing split in two, the larger half
    behind. Where that depends on a size that is free, it is left to ``auto_pad=SAME_UPPER``,
    which means the same.

    Args:
        ctx: Gives the operator's options.
        window: Its numbers along each spatial dimension.
        sizes: Of the spatial dimensions; -1 for free ones.
    """
    if ctx.option("padding") == VALID:
        return {"pads": [0] * (2 * len(sizes))}
    before, after = [], []
    for size, k, stride, dilation in zip(
        sizes, window.kernel, window.strides, window.dilations, strict=True
    ):
        reach = (k - 1) * dilation + 1
        if stride == 1 or size >= 0:
            # with stride 1 the size doesn't matter: results are as many as elements
            total = same_padding(size if stride > 1 else 1, reach, stride)
            before.append(total // 2)
            after.append(total - total // 2)
        elif dilation > 1:
            ctx.refuse("SAME padding with a stride and a dilation over a dimension of free size")
        else:
            return {"auto_pad": "SAME_UPPER"}
    return {"pads": before + after}


def same_padding(size: int, reach: int, stride: int) -> int:
    """How many elements are missing for ceil(size / stride) results.

    Args:
        size: Of the dimension, without padding.
        reach: Elements from the window's first to its last.
        stride: The window's step.
    """
    count = -(-size // stride)
    return max((count - 1) * stride + reach - size, 0)
