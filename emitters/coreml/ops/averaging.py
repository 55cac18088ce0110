"""AveragePool: avg_pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.windows import Window
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.convolution import need_spatial
from emitters.coreml.ops.pooling import along_axes, pool_window, pooled
from emitters.coreml.ops.windows import bordered, settled
from emitters.coreml.registry import lowers


@lowers("AveragePool")
def average_pool(context: Context, node: onnx_ir.Node) -> None:
    """avg_pool. Padding that counts is put around the input first where what ceil_mode adds
    doesn't count with it. With dilations it is a sum of slices, and of ones to divide by."""
    x = context.var(node.inputs[0])
    need_spatial(node, x)
    window, counts = pool_window(node, x), bool(number(node, "count_include_pad", 0))
    if window.is_dilated:
        made = _dilated_mean(context, x, window, counts)
    else:
        made = _mean(context, x, window, counts)
    context.give(node.outputs[0], made)


def _mean(context: Context, x: Var, window: Window, counts: bool) -> Var:
    if window.auto and not counts:
        whole, bare = settled(context, x, window)
        share, _ = settled(context, _ones(context, x), window)
        parts = [_plain_mean(context, part, bare) for part in (whole, share)]
        return context.op("real_div", x=parts[0], y=parts[1])
    x, window, plain = _counted(context, x, window, counts)
    return pooled(context, "avg_pool", x, window, exclude_padding_from_average=not plain)


def _plain_mean(context: Context, x: Var, window: Window) -> Var:
    return pooled(context, "avg_pool", x, window, exclude_padding_from_average=False)


def _ones(context: Context, x: Var) -> Var:
    """As large as ``x`` in space."""
    sizes = [1, 1, *sizing.sizes(context, x)[2:]]
    return sizing.filled(context, 1, sizes, context.type_of(x))


def _counted(context: Context, x: Var, window: Window, counts: bool) -> tuple[Var, Window, bool]:
    """``x`` and its window, whose padding is all of one kind, and whether that counts."""
    if counts:
        x, window = settled(context, x, window)
        if not any(window.extra):
            return x, window, True
        whole = bordered(context, x, replace(window, extra=()), 0.0)
        return whole, replace(window.bare(), extra=window.extra), False
    return x, window, not (window.auto or window.is_padded)


def _dilated_mean(context: Context, x: Var, window: Window, counts: bool) -> Var:
    total, share = _sums(context, x, window, counts)
    return context.op("real_div", x=total, y=share)


def _sums(context: Context, x: Var, window: Window, counts: bool) -> tuple[Var, Var]:
    """The sums under the kernel, and how many elements count in each."""
    x, window, plain = _counted(context, x, window, counts)
    total = along_axes(context, "add", bordered(context, x, window, 0.0), window)
    if plain:
        return total, context.number(float(np.prod(window.kernel)), x)
    ones = bordered(context, _ones(context, x), window, 0.0)
    return total, along_axes(context, "add", ones, window)
