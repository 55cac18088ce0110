"""Pools."""

from __future__ import annotations

from typing import Any

import onnx_ir

from converter.ir.edit import is_used
from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.ops.convolution import as_last, first, is_same, padded, spatial, transposed
from emitters.code.keras.registry import channels_last, op
from emitters.code.keras.types import dtype_argument, is_whole, keras_type
from emitters.code.literals import listed, same_or_tuple
from emitters.code.windows import has_space, padding_of


def _is_plain(node: onnx_ir.Node) -> bool:
    """Whether windows are of neighbours, and nobody asks where the largest were."""
    gaps = node.attributes.get("dilations")
    dense = gaps is None or all(gap == 1 for gap in gaps.as_ints())
    return has_space(node) and dense and not is_used(node, 1)


def _window(c: Context) -> tuple[list[int], list[int], list[int], list[int]]:
    """The kernel, the strides, the borders, and what ``ceil_mode`` adds behind."""
    space, kernel = c.need_rank(0) - 2, c.attr("kernel_shape")
    strides = c.attr("strides") or [1] * space
    pads = padding_of(c, space, kernel, spatial(c))
    extra = [0] * space
    if c.attr("ceil_mode", 0):
        for axis, size in enumerate(spatial(c)):
            if not isinstance(size, int):
                raise Refused("it rounds up a size that is free", "fix it (--dim)")
            whole = size + pads[axis] + pads[axis + space]
            steps = -(-(whole - kernel[axis]) // strides[axis])
            if steps * strides[axis] >= size + pads[axis]:
                steps -= 1
            extra[axis] = max(steps * strides[axis] + kernel[axis] - whole, 0)
    return kernel, strides, pads, extra


def _pool(c: Context, name: str, x: str, kernel: list[int], settings: dict[str, Any]) -> None:
    told = {key: text for key, text in settings.items() if text is not None}
    if c.path()[1] and channels_last(c.node):
        kind = f"layers.{'Max' if name == 'max_pool' else 'Average'}Pooling{len(kernel)}D"
        c.call(kind, (), (x,), hint="pool", pool_size=same_or_tuple(kernel), **told,
               dtype=dtype_argument(c.dtype(0)))  # fmt: skip
        return
    named = "".join(f", {key}={text}" for key, text in told.items())
    _give(c, f"ops.{name}({x}, {same_or_tuple(kernel)}{named})")


def _give(c: Context, text: str) -> None:
    rank = c.need_rank(0)
    c.emit(text if channels_last(c.node) else transposed(c, text, first(rank)))


@op("MaxPool", legal=_is_plain)
def max_pool(c: Context) -> None:
    """Of what is there."""
    kernel, strides, pads, extra = _window(c)
    space, x = len(kernel), as_last(c)
    whole = is_whole(c.dtype(0))
    if whole:
        x = f'ops.cast({x}, "float32")'
    settings: dict[str, Any] = {"strides": same_or_tuple(strides)}
    if any(extra) or not is_same(pads, spatial(c), kernel, strides, [1] * space):
        both = [*pads[:space], *(a + b for a, b in zip(pads[space:], extra, strict=True))]
        x = padded(c, x, both, 'float("-inf")') if any(both) else x
    elif any(pads):
        settings["padding"] = '"same"'
    if whole:
        named = "".join(f", {key}={text}" for key, text in settings.items())
        text = f"ops.max_pool({x}, {same_or_tuple(kernel)}{named})"
        _give(c, f"ops.cast({text}, {keras_type(c.dtype(0))})")
        return
    _pool(c, "max_pool", x, kernel, settings)


@op("AveragePool", legal=_is_plain)
def average_pool(c: Context) -> None:
    """Of what is there, or of the borders too."""
    kernel, strides, pads, extra = _window(c)
    space, counted = len(kernel), bool(c.attr("count_include_pad", 0))
    settings: dict[str, Any] = {"strides": same_or_tuple(strides)}
    if not any(pads) and not any(extra):
        _pool(c, "average_pool", as_last(c), kernel, settings)
        return
    if counted and not any(extra):
        _pool(c, "average_pool", padded(c, as_last(c), pads), kernel, settings)
        return
    inner = pads if counted else [0] * (2 * space)
    outer = [0] * space + extra if counted else [
        *pads[:space], *(a + b for a, b in zip(pads[space:], extra, strict=True))
    ]  # fmt: skip
    x = padded(c, as_last(c), inner) if any(inner) else as_last(c)
    pairs = ", ".join(f"({outer[axis]}, {outer[axis + space]})" for axis in range(space))
    told = f"{listed(kernel)}, {listed(strides)}, ((0, 0), {pairs}, (0, 0))"
    _give(c, f"{c.helper('average_inside')}({x}, {told})")


@op("GlobalAveragePool", "GlobalMaxPool")
def all_over(c: Context) -> None:
    """Over all of space."""
    rank = c.need_rank(0)
    average = c.node.op_type == "GlobalAveragePool"
    if c.path()[1] and 3 <= rank <= 5 and channels_last(c.node):
        kind = f"layers.Global{'Average' if average else 'Max'}Pooling{rank - 2}D"
        c.call(kind, (), (c.arg(0),), hint="pool", keepdims=True, dtype=dtype_argument(c.dtype(0)))
        return
    axes = list(range(1, rank - 1)) if channels_last(c.node) else list(range(2, rank))
    told = listed(axes) if len(axes) > 1 else str(axes[0])
    c.emit(f"ops.{'mean' if average else 'max'}({c.arg(0)}, axis={told}, keepdims=True)")
