"""Convolutions; with constant kernels they are layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.literals import listed, same_or_tuple
from emitters.code.weights import is_weight
from emitters.code.windows import cut_of, has_space, is_even, padding_of
from emitters.pytorch.ops.linear import dtype_argument
from emitters.pytorch.registry import op


def padded(c: Context, pads: Sequence[int], value: str = "") -> str:
    """The input with borders, as ``F.pad`` takes them.

    Args:
        c: The node's context.
        pads: Elements added before each axis of space, then those added behind.
        value: What the border holds, as an expression; empty: 0.
    """
    space = len(pads) // 2
    flat = [pads[at] for axis in reversed(range(space)) for at in (axis, axis + space)]
    more = f", value={value}" if value else ""
    return f"F.pad({c.arg(0)}, {listed(flat)}{more})"


@op("Conv", legal=has_space)
def conv(c: Context) -> None:
    """``nn.Conv2d``, and so on."""
    space = c.need_rank(0) - 2
    kernel = c.attr("kernel_shape") or [int(s) for s in (c.shape(1) or [])[2:]]  # type: ignore[arg-type]
    pads = padding_of(c, space, kernel)
    groups = c.attr("group", 1)
    settings: dict[str, Any] = {
        "stride": _unless_one(c.attr("strides")),
        "padding": None,
        "dilation": _unless_one(c.attr("dilations")),
        "groups": groups if groups != 1 else None,
    }
    x = c.arg(0)
    if not is_even(pads):
        x = padded(c, pads)
    elif any(pads):
        settings["padding"] = same_or_tuple(pads[:space])
    if is_weight(c.value(1)) and (not c.has(2) or is_weight(c.value(2))):
        outside, inside = (int(s) for s in (c.shape(1) or [])[:2])  # type: ignore[arg-type]
        weights = {"weight": c.weight(c.value(1))}
        if c.has(2):
            weights["bias"] = c.weight(c.value(2))
        sizes = (inside * groups, outside)
        c.call(
            f"nn.Conv{space}d", sizes, (x,), weights, "conv",
            kernel_size=same_or_tuple(kernel), **settings,
            bias=None if c.has(2) else False, dtype=dtype_argument(c.dtype(0)),
        )  # fmt: skip
        return
    named = "".join(f", {name}={text}" for name, text in settings.items() if text is not None)
    bias = f", {c.arg(2)}" if c.has(2) else ""
    c.emit(f"F.conv{space}d({x}, {c.arg(1)}{bias}{named})")


def _unless_one(items: list[int] | None) -> str | None:
    return same_or_tuple(items) if items and any(item != 1 for item in items) else None


@op("ConvTranspose", legal=has_space)
def transposed(c: Context) -> None:
    """``nn.ConvTranspose2d``, and so on; uneven borders are cut off behind."""
    space = c.need_rank(0) - 2
    kernel = c.attr("kernel_shape") or [int(s) for s in (c.shape(1) or [])[2:]]  # type: ignore[arg-type]
    strides = c.attr("strides") or [1] * space
    dilations = c.attr("dilations") or [1] * space
    more = c.attr("output_padding") or [0] * space
    pads = cut_of(c, kernel, strides, dilations, more, (c.shape(0) or [])[2:])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    groups = c.attr("group", 1)
    settings: dict[str, Any] = {
        "stride": _unless_one(strides),
        "padding": None,
        "output_padding": None,
        "groups": groups if groups != 1 else None,
        "dilation": _unless_one(dilations),
    }
    extra = [a - b for a, b in zip(pads[:space], pads[space:], strict=True)]
    whole = [o + e for o, e in zip(more, extra, strict=True)]
    limits = [max(s, d) for s, d in zip(strides, dilations, strict=True)]
    cut = ""
    if all(0 <= w < limit for w, limit in zip(whole, limits, strict=True)) and min(pads) >= 0:
        settings["padding"] = same_or_tuple(pads[:space]) if any(pads) else None
        settings["output_padding"] = same_or_tuple(whole) if any(whole) else None
    elif any(more) or any(p < 0 for p in pads):
        raise Refused("PyTorch can't have its borders", "make its pads even")
    else:
        spans = [
            f"{first}:-{last}" if last else f"{first}:"
            for first, last in zip(pads[:space], pads[space:], strict=True)
        ]
        cut = f"[:, :, {', '.join(spans)}]"
    assert reach
    if is_weight(c.value(1)) and (not c.has(2) or is_weight(c.value(2))) and not cut:
        inside, outside = (int(s) for s in (c.shape(1) or [])[:2])  # type: ignore[arg-type]
        weights = {"weight": c.weight(c.value(1))}
        if c.has(2):
            weights["bias"] = c.weight(c.value(2))
        c.call(
            f"nn.ConvTranspose{space}d", (inside, outside * groups), (c.arg(0),), weights, "conv",
            kernel_size=same_or_tuple(kernel), **settings,
            bias=None if c.has(2) else False, dtype=dtype_argument(c.dtype(0)),
        )  # fmt: skip
        return
    named = "".join(f", {name}={text}" for name, text in settings.items() if text is not None)
    bias = f", {c.arg(2)}" if c.has(2) else ""
    c.emit(f"F.conv_transpose{space}d({c.arg(0)}, {c.arg(1)}{bias}{named}){cut}")
