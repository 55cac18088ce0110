"""Sampling as ATen places its samples: by the scale it is given, in its arithmetic.

interpolate(x, scale_factor=1.7, mode="bilinear")   10 become 17, each 1 / 1.7 apart
interpolate(x, size=64) of 26, nearest              sample 32 is 32 * (26 / 64) = 13; Resize
                                                    has 32 / (64 / 26), 12.999999, so 12
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir
from onnxscript.onnx_opset import opset18 as op

from .values import rank, whole

_FAR = 1 << 16
"""Samples that are compared where a size is free."""


def _size(before: Any, scale: float) -> Any:
    """ATen's size of what has a scale."""
    return math.floor(before * scale) if isinstance(before, int) else None


def _factor(scale: float, before: Any, after: Any) -> float:
    """The scale in float32, such that Resize makes the right size of it in that."""
    factor = np.float32(scale)
    if isinstance(before, int) and isinstance(after, int):
        for near in (
            factor,
            np.nextafter(factor, np.float32(0)),
            np.nextafter(factor, np.float32(9e9)),
        ):
            if math.floor(near * np.float32(before)) == after:
                return float(near)
    return float(factor)


def _resize(self: Any, sizes: Any, scales: Sequence[float] | None, **how: Any) -> Any:
    """Resize by scales where there are some, else to sizes."""
    if scales is None:
        sizes = op.Concat(op.Shape(self, end=2), op.Cast(sizes, to=7), axis=0)
        return op.Resize(self, None, None, sizes, nearest_mode="floor", **how)
    known = [_size(before, scale) for before, scale in zip(self.shape[2:], scales)]
    asked = known if sizes is None else sizes
    factors = [_factor(*each) for each in zip(scales, self.shape[2:], asked)]
    factors = op.Constant(value_floats=[1.0, 1.0, *factors])
    return op.Resize(self, None, factors, None, nearest_mode="floor", **how)


def _smooth(mode: str, **options: Any) -> Callable[..., Any]:
    def upsample(
        self: Any, output_size: Any, align_corners: bool, *scales: Any, **named: Any
    ) -> Any:
        """upsample_*(Tensor self, SymInt[] output_size, bool align_corners, float? scales...), or
        with float[]? scale_factors"""
        given = _listed([*scales, *named.values()])
        if align_corners and output_size is not None:  # which leaves nothing to a scale
            given = None
        how = "align_corners" if align_corners else "half_pixel"
        return _resize(
            self, output_size, given, mode=mode, coordinate_transformation_mode=how, **options
        )

    return upsample


def _nearest(self: Any, output_size: Any = None, *scales: Any, **named: Any) -> Any:
    """upsample_nearest*(Tensor self, SymInt[] output_size, float? scales...), or with float[]?
    scale_factors"""
    given = _listed([*scales, *named.values()])
    axes = range(2, rank(self))
    sizes = output_size if given is None else None
    asked = [
        _Axis(self.shape[axis], sizes[n] if sizes else None, given[n] if given else None)
        for n, axis in enumerate(axes)
    ]
    if all(axis.is_resize() for axis in asked):
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
        return _resize(self, sizes, given, **how)
    for axis, one in zip(axes, asked):
        self = op.Gather(self, one.places(op.Shape(self, start=axis, end=axis + 1)), axis=axis)
    return self


def _listed(scales: Sequence[Any]) -> list[float] | None:
    """Scales, where each axis has one; they come one by one or as a list."""
    listed = scales[0] if scales and isinstance(scales[0], (list, tuple)) else scales
    given = [scale for scale in listed if scale is not None]
    return [float(scale) for scale in given] if given and len(given) == len(listed) else None


class _Axis:
    """The samples along an axis: of `before`, `after` or `scale` times as many."""

    def __init__(self, before: Any, after: Any, scale: float | None) -> None:
        self.before, self.scale = before, scale
        self.after = after if scale is None else _size(before, scale)
        self.known = isinstance(before, int) and isinstance(self.after, int)

    def is_resize(self) -> bool:
        """Whether Resize takes the same samples; nothing can be said of two free sizes, and most
        often one is twice the other."""
        if self.scale is None and not self.known:
            return True
        count = np.arange(self.after if self.known else _FAR, dtype=np.float32)
        factor = np.float32(self.after) / np.float32(self.before) if self.scale is None else (
            np.float32(_factor(self.scale, self.before, self.after))
        )  # fmt: skip
        return np.array_equal(np.floor(count * self._step()), np.floor(count / factor))

    def _step(self) -> np.float32:
        """ATen's ``compute_scales_value``."""
        if self.scale is not None:
            return np.float32(1.0 / self.scale)
        return np.float32(self.before) / np.float32(self.after)

    def places(self, size: Any) -> Any:
        """Where each sample lies, as a tensor; `size` is the axis' own."""
        step = self._step()
        if self.known:
            found = np.floor(np.arange(self.after, dtype=np.float32) * step)
            return whole(np.minimum(found, self.before - 1).astype(int).tolist())
        scale = op.Constant(value=onnx_ir.tensor(self.scale, dtype=onnx_ir.DataType.DOUBLE))
        after = op.Cast(op.Floor(op.Mul(op.Cast(size, to=11), scale)), to=7)
        count = op.Range(*(op.Squeeze(end) for end in (whole([0]), after, whole([1]))))
        by = op.Constant(value_float=float(step))
        found = op.Cast(op.Floor(op.Mul(op.Cast(count, to=1), by)), to=7)
        return op.Min(found, op.Sub(size, whole([1])))


def _table() -> dict[str, Callable[..., Any]]:
    smooth = {
        "upsample_linear1d": _smooth("linear"),
        "upsample_bilinear2d": _smooth("linear"),
        "upsample_trilinear3d": _smooth("linear"),
        "upsample_bicubic2d": _smooth("cubic", cubic_coeff_a=-0.75),
        "_upsample_bilinear2d_aa": _smooth("linear", antialias=1, exclude_outside=1),
        "_upsample_bicubic2d_aa": _smooth(
            "cubic", antialias=1, cubic_coeff_a=-0.5, exclude_outside=1
        ),
        **{f"upsample_nearest{axes}d": _nearest for axes in (1, 2, 3)},
    }
    return {f"aten.{name}.{o}": f for name, f in smooth.items() for o in ("default", "vec")}


TABLE = _table()
