"""Pools."""

from __future__ import annotations

from typing import Any

import onnx_ir

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.literals import listed, same_or_tuple
from emitters.code.windows import has_space, is_even, padding_of
from emitters.pytorch.ops.convolution import padded
from emitters.pytorch.registry import op


def _is_plain(node: onnx_ir.Node) -> bool:
    """Whether an average is of neighbours."""
    gaps = node.attributes.get("dilations")
    return has_space(node) and (gaps is None or all(gap == 1 for gap in gaps.as_ints()))


def _settings(c: Context, space: int, pads: list[int]) -> dict[str, str | None]:
    kernel = c.attr("kernel_shape")
    strides = c.attr("strides") or [1] * space
    return {
        "stride": None if strides == kernel else same_or_tuple(strides),
        "padding": same_or_tuple(pads[:space]) if any(pads) else None,
    }


def _call(
    c: Context, name: str, kernel: list[int], x: str, settings: dict[str, str | None]
) -> None:
    told: dict[str, Any] = {k: text for k, text in settings.items() if text is not None}
    if c.path()[1]:
        module = "nn." + "".join(part.capitalize() for part in name.split("_"))
        module = module.replace("pool", "Pool").replace("1d", "1d")
        c.call(module, (), (x,), hint="pool", kernel_size=same_or_tuple(kernel), **told)
        return
    named = "".join(f", {key}={text}" for key, text in told.items())
    c.emit(f"F.{name}({x}, {same_or_tuple(kernel)}{named})")


@op("MaxPool", legal=has_space)
def max_pool(c: Context) -> None:
    """With the places of the largest, where they are used."""
    space, kernel = c.need_rank(0) - 2, c.attr("kernel_shape")
    pads = padding_of(c, space, kernel)
    with_places = len(c.node.outputs) > 1 and bool(c.node.outputs[1].name)
    whole = not c.dtype(0).startswith("float")
    if whole:
        raise Refused(f"PyTorch has no pools of {c.dtype(0)}", "cast it to float32")
    even = is_even(pads) and all(2 * p <= k for p, k in zip(pads, kernel * 2, strict=True))
    settings = _settings(c, space, pads if even else [0] * len(pads))
    gaps = c.attr("dilations") or [1]
    settings["dilation"] = same_or_tuple(gaps) if any(gap != 1 for gap in gaps) else None
    settings["ceil_mode"] = "True" if c.attr("ceil_mode", 0) else None
    if not even and (settings["ceil_mode"] or with_places):
        raise Refused("its borders are uneven", "make its pads even")
    x = c.arg(0) if even else padded(c, pads, 'float("-inf")')
    if not with_places:
        _call(c, f"max_pool{space}d", kernel, x, settings)
        return
    if c.attr("storage_order", 0):
        raise Refused("it counts positions by columns", "leave storage_order at 0")
    named = "".join(f", {key}={text}" for key, text in settings.items() if text is not None)
    name = c.helper("max_pool_with_places")
    c.emit_many(f"{name}(F.max_pool{space}d, {x}, {same_or_tuple(kernel)}{named})")


@op("AveragePool", legal=_is_plain)
def average_pool(c: Context) -> None:
    """Of what is there, or of the borders too."""
    space, kernel = c.need_rank(0) - 2, c.attr("kernel_shape")
    pads = padding_of(c, space, kernel)
    counted = bool(c.attr("count_include_pad", 0))
    even = is_even(pads) and all(2 * p <= k for p, k in zip(pads, kernel * 2, strict=True))
    settings = _settings(c, space, pads if even else [0] * len(pads))
    settings["ceil_mode"] = "True" if c.attr("ceil_mode", 0) else None
    if even:
        settings["count_include_pad"] = "False" if any(pads) and not counted else None
        _call(c, f"avg_pool{space}d", kernel, c.arg(0), settings)
        return
    if settings["ceil_mode"]:
        raise Refused("its borders are uneven", "make its pads even")
    named = "".join(f", {key}={text}" for key, text in settings.items() if text is not None)
    if counted:
        c.emit(f"F.avg_pool{space}d({padded(c, pads)}, {same_or_tuple(kernel)}{named})")
        return
    flat = [pads[at] for axis in reversed(range(space)) for at in (axis, axis + space)]
    name = c.helper("average_inside")
    told = f"{same_or_tuple(kernel)}, {listed(flat)}{named}"
    c.emit(f"{name}(F.avg_pool{space}d, {c.arg(0)}, {told})")


@op("GlobalAveragePool", "GlobalMaxPool")
def all_over(c: Context) -> None:
    """Over all of space."""
    rank = c.need_rank(0)
    axes = listed(list(range(2, rank))) if rank > 3 else "2"
    average = c.node.op_type == "GlobalAveragePool"
    if c.path()[1] and 3 <= rank <= 5:
        kind = "Avg" if average else "Max"
        c.call(f"nn.Adaptive{kind}Pool{rank - 2}d", (1,), (c.arg(0),), hint="pool")
        return
    c.emit(f"{c.operand(0)}.{'mean' if average else 'amax'}(dim={axes}, keepdim=True)")
