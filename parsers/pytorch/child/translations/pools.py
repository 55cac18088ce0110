"""Average pools with a divisor of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from onnxscript.onnx_opset import opset18 as op

from .values import each, rank, scalar, whole


def _avg_pool(axes: int, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
              count_include_pad: bool, divisor_override: int | None) -> Any:  # fmt: skip
    lone = rank(self) == axes + 1
    kernel, pads = each(kernel_size, axes), each(padding, axes)
    strides = each(stride, axes) if stride else kernel
    data = op.Unsqueeze(self, whole([0])) if lone else self
    if divisor_override is None:
        result = op.AveragePool(
            data, kernel_shape=kernel, strides=strides, pads=pads * 2, ceil_mode=int(ceil_mode),
            count_include_pad=int(count_include_pad),
        )  # fmt: skip
    else:
        padded = _padded(data, kernel, strides, pads, ceil_mode)
        mean = op.AveragePool(padded, kernel_shape=kernel, strides=strides)
        result = op.Mul(mean, scalar(math.prod(kernel) / divisor_override, self))
    return op.Squeeze(result, whole([0])) if lone else result


def _padded(
    data: Any, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], ceil_mode: bool
) -> Any:
    """With zeros all around, and at the ends those of a last window that begins within the data or
    their first padding: ATen's ``pooling_output_shape``."""
    ends = whole(pads)
    if ceil_mode:
        size, step, window = op.Shape(data, start=2), whole(strides), whole(kernel)
        total = op.Add(size, whole([2 * pad for pad in pads]))
        before = op.Div(op.Add(op.Sub(total, window), op.Sub(step, whole([1]))), step)
        outside = op.GreaterOrEqual(op.Mul(before, step), op.Add(size, whole(pads)))
        before = op.Sub(before, op.Cast(outside, to=7))
        needed = op.Sub(op.Add(op.Mul(before, step), window), total)
        ends = op.Add(ends, op.Max(needed, whole([0])))
    return op.Pad(data, op.Concat(whole([0, 0, *pads, 0, 0]), ends, axis=0))


def _avg_pool2d(self: Any, kernel_size: Any, stride: Any = (), padding: Any = 0,
                ceil_mode: bool = False, count_include_pad: bool = True,
                divisor_override: int | None = None) -> Any:  # fmt: skip
    """avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool
    ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"""
    return _avg_pool(
        2, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _avg_pool3d(self: Any, kernel_size: Any, stride: Any = (), padding: Any = 0,
                ceil_mode: bool = False, count_include_pad: bool = True,
                divisor_override: int | None = None) -> Any:  # fmt: skip
    """avg_pool3d, as avg_pool2d"""
    return _avg_pool(
        3, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


TABLE = {"aten.avg_pool2d.default": _avg_pool2d, "aten.avg_pool3d.default": _avg_pool3d}
