"""Convolutions; with constant kernels they are layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.registry import channels_last, op
from emitters.code.keras.types import dtype_argument
from emitters.code.literals import listed, same_or_tuple
from emitters.code.steps import UNIT, Array
from emitters.code.weights import is_weight
from emitters.code.windows import cut_of, has_space, padding_of


def transposed(c: Context, x: str, order: Sequence[int]) -> str:
    """A tensor with its axes in another order.

    Args:
        c: The node's context.
        x: The tensor, as an expression.
        order: The axis of ``x`` for each axis of the result.
    """
    return f"ops.transpose({x}, {listed(list(order))})"


def last(rank: int) -> list[int]:
    """The order of axes that brings channels last."""
    return [0, *range(2, rank), 1]


def first(rank: int) -> list[int]:
    """The order of axes that brings channels back."""
    return [0, rank - 1, *range(1, rank - 1)]


def as_last(c: Context) -> str:
    """The first operand, with its channels last."""
    return c.arg(0) if channels_last(c.node) else transposed(c, c.arg(0), last(c.need_rank(0)))


def spatial(c: Context) -> list[int | str | None]:
    """The sizes of its axes of space."""
    shape = c.shape(0) or []
    return shape[1:-1] if channels_last(c.node) else shape[2:]


def is_same(pads: Sequence[int], sizes: Sequence[int | str | None], kernel: Sequence[int],
            strides: Sequence[int], gaps: Sequence[int]) -> bool:  # fmt: skip
    """Whether borders are those that Keras' ``same`` has.

    Args:
        pads: Elements added before each axis of space, then those added behind.
        sizes: Of the input's axes of space; a free one is a name or None.
        kernel: The window's size along each axis of space.
        strides: Its step along each.
        gaps: Its dilation along each.
    """
    space = len(kernel)
    for axis, (size, window, stride, gap) in enumerate(
        zip(sizes, kernel, strides, gaps, strict=True)
    ):
        reach = (window - 1) * gap + 1
        if stride > 1 and not isinstance(size, int):
            return False
        whole = reach - 1
        if stride > 1 and isinstance(size, int):
            whole = max((-(-size // stride) - 1) * stride + reach - size, 0)
        if (pads[axis], pads[axis + space]) != (whole // 2, whole - whole // 2):
            return False
    return True


def padded(c: Context, x: str, pads: Sequence[int], value: str = "") -> str:
    """A tensor whose channels are last with borders.

    Args:
        c: The node's context.
        x: The tensor, as an expression: [batch, space..., channels].
        pads: Elements added before each axis of space, then those added behind.
        value: What the border holds, as an expression; empty: 0.
    """
    space = len(pads) // 2
    pairs = ", ".join(f"({pads[axis]}, {pads[axis + space]})" for axis in range(space))
    more = f", constant_values={value}" if value else ""
    return f"ops.pad({x}, ((0, 0), {pairs}, (0, 0)){more})"


def _kernel(order: Sequence[int]) -> Callable[[Array], Array]:
    return lambda array: array.transpose(order)


def _sizes(c: Context) -> list[int]:
    """The kernel's; raises Refused where they aren't known."""
    sizes = [size for size in c.shape(1) or [] if isinstance(size, int)]
    if len(sizes) != c.need_rank(0):
        raise Refused("its kernel's sizes are free", "fix them (--dim)")
    return sizes


@op("Conv", legal=has_space)
def conv(c: Context) -> None:
    """``layers.Conv2D``, and so on."""
    space = c.need_rank(0) - 2
    outside, inside, *window = _sizes(c)
    kernel = c.attr("kernel_shape") or window
    pads = padding_of(c, space, kernel, spatial(c))
    strides, gaps = c.attr("strides") or [1] * space, c.attr("dilations") or [1] * space
    groups = c.attr("group", 1)
    x, padding = as_last(c), None
    cut = ""
    if max(strides) > 1 and max(gaps) > 1:  # Keras has either
        steps = ", ".join(f"::{step}" if step > 1 else ":" for step in strides)
        cut, strides = f"[:, {steps}]", [1] * space
    if any(pads) and is_same(pads, spatial(c), kernel, strides, gaps) and not cut:
        padding = '"same"'
    elif any(pads):
        x = padded(c, x, pads)
    settings: dict[str, Any] = {
        "strides": _unless_one(strides),
        "padding": padding,
        "dilation_rate": _unless_one(gaps),
    }
    layer = is_weight(c.value(1)) and (not c.has(2) or is_weight(c.value(2)))
    if layer and not cut and channels_last(c.node):
        _layer(c, x, (outside, inside, groups), kernel, settings)
        return
    named = "".join(f", {name}={text}" for name, text in settings.items() if text is not None)
    text = f"ops.conv({x}, {transposed(c, c.arg(1), _hwio(space))}{named}){cut}"
    if c.has(2):
        text = f"{text} + {c.operand(2)}"
    if not channels_last(c.node):
        text = transposed(c, text, first(space + 2))
    c.emit(text, 6 if c.has(2) else 10)


def _hwio(space: int) -> list[int]:
    return [*range(2, space + 2), 1, 0]


def _layer(c: Context, x: str, sizes: tuple[int, int, int], kernel: list[int],
           settings: dict[str, Any]) -> None:  # fmt: skip
    outside, inside, groups = sizes
    space = len(kernel)
    even = len(set(c.attr("strides") or [1])) == 1
    weights = {}
    if groups > 1 and inside == 1 and space <= 2 and even:
        many = outside // groups
        order = [*range(2, space + 2), 0, 1]
        shape = (*kernel, groups, many)
        weights["kernel"] = c.weight(
            c.value(1), lambda array: array.transpose(order).reshape(shape), "by channel"
        )
        kind, given = f"layers.DepthwiseConv{space}D", (same_or_tuple(kernel),)
        settings["depth_multiplier"] = many if many > 1 else None
    else:
        weights["kernel"] = c.weight(c.value(1), _kernel(_hwio(space)), "channels last")
        kind, given = f"layers.Conv{space}D", (outside, same_or_tuple(kernel))  # type: ignore[assignment]
        settings["groups"] = groups if groups > 1 else None
    if c.has(2):
        weights["bias"] = c.weight(c.value(2))
    c.call(
        kind, given, (x,), weights, "conv", **settings,
        use_bias=None if c.has(2) else False, dtype=dtype_argument(c.dtype(0)),
    )  # fmt: skip


def _unless_one(items: list[int] | None) -> str | None:
    return same_or_tuple(items) if items and any(item != 1 for item in items) else None


@op("ConvTranspose", legal=has_space)
def conv_transposed(c: Context) -> None:
    """``layers.Conv2DTranspose``, and so on; borders are cut off behind."""
    space = c.need_rank(0) - 2
    _, outside, *window = _sizes(c)
    kernel = c.attr("kernel_shape") or window
    strides, gaps = c.attr("strides") or [1] * space, c.attr("dilations") or [1] * space
    more = c.attr("output_padding") or [0] * space
    pads = cut_of(c, kernel, strides, gaps, more, spatial(c))
    constant = is_weight(c.value(1)) and (not c.has(2) or is_weight(c.value(2)))
    if max(gaps) > 1 and not constant:
        raise Refused("its kernel is computed and has gaps", "make it constant")
    reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
    cut, grown = _cut(pads, more, strides, reach)
    settings: dict[str, Any] = {"strides": _unless_one(strides)}
    groups = c.attr("group", 1)
    order = [*range(2, space + 2), 1, 0]
    if constant and groups == 1 and channels_last(c.node) and not any(grown):
        weights = {"kernel": c.weight(c.value(1), _widened(order, gaps), f"gaps {gaps}")}
        if c.has(2):
            weights["bias"] = c.weight(c.value(2))
        told = (outside, same_or_tuple(reach))
        unit = c.unit(
            f"layers.Conv{space}DTranspose", told, weights, "conv",
            {**settings, "use_bias": None if c.has(2) else False,
             "dtype": dtype_argument(c.dtype(0))},
        )  # fmt: skip
        c.emit(f"{UNIT}({as_last(c)}){cut}", unit=unit)
        return
    if max(gaps) > 1:
        raise Refused("its kernel has gaps, and its channels are in groups", "make it one group")
    named = "".join(f", {name}={text}" for name, text in settings.items() if text is not None)
    w = transposed(c, c.arg(1), order)
    if groups == 1:
        text = f"ops.conv_transpose({as_last(c)}, {w}{named})"
    else:
        text = f"{c.helper('grouped_conv_transpose')}({as_last(c)}, {w}, {groups}{named})"
    if any(grown):
        text = padded(c, text, [0] * space + grown)
    text += cut
    if c.has(2):
        text += f" + {c.operand(2)}"
    if not channels_last(c.node):
        text = transposed(c, text, first(space + 2))
    c.emit(text, 6 if c.has(2) else 10)


def _cut(pads: Sequence[int], more: Sequence[int], strides: Sequence[int],
         reach: Sequence[int]) -> tuple[str, list[int]]:  # fmt: skip
    """What of Keras' result is ONNX's, as an index; and what has to be added behind before.

    Keras gives ``(size - 1) * stride + max(reach, stride)``; ONNX ``(size - 1) * stride + reach +
    more - pads``.
    """
    space = len(strides)
    spans, grown = [], []
    for axis in range(space):
        behind = pads[axis + space] - more[axis] + max(strides[axis] - reach[axis], 0)
        grown.append(max(-behind, 0))
        before = pads[axis]
        if before < 0:
            raise Refused("its borders are negative", "crop the output instead (Slice)")
        start = str(before) if before else ""
        spans.append(f"{start}:-{behind}" if behind > 0 else f"{start}:")
    if all(span == ":" for span in spans):
        return "", grown
    return f"[:, {', '.join(spans)}]", grown


def _widened(order: Sequence[int], gaps: Sequence[int]) -> Callable[[Array], Array]:
    """A kernel with its gaps as zeros, in Keras' order."""

    def change(array: Array) -> Array:
        moved = array.transpose(order)
        if max(gaps) == 1:
            return moved
        sizes = [(k - 1) * gap + 1 for k, gap in zip(moved.shape, gaps, strict=False)]
        wide = np.zeros((*sizes, *moved.shape[len(gaps) :]), array.dtype)
        wide[tuple(slice(None, None, gap) for gap in gaps)] = moved
        return wide

    return change
