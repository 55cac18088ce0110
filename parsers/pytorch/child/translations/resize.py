"""Sampling as ATen places its samples: by the scale it is given, in its arithmetic.

interpolate(x, scale_factor=1.7, mode="bilinear")   10 become 17, each 1 / 1.7 apart
interpolate(x, size=64) of 26, nearest              sample 32 is 32 * (26 / 64) = 13; Resize
                                                    has 32 / (64 / 26), 12.999999, so 12
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir
from onnxscript.onnx_opset import opset18 as op

from ....worker.errors import WorkerError
from .values import rank, whole

_FAR = 1 << 16
"""Samples that are compared where a size is free."""


def _size(before: Any, scale: float) -> Any:
    """ATen's size of what has a scale."""
    return math.floor(before * scale) if isinstance(before, int) else None


def _factor(scale: float, before: Any, after: Any = None) -> float | None:
    """The scale in float32, such that Resize makes the right size of it in that; None where it
    can't."""
    factor = np.float32(scale)
    after = _size(before, scale) if after is None else after
    if not (isinstance(before, int) and isinstance(after, int)):
        return float(factor)
    beside = (np.nextafter(factor, np.float32(end)) for end in (0, np.inf))
    near = (f for f in (factor, *beside) if math.floor(f * np.float32(before)) == after)
    return next(map(float, near), None)


def _resize(self: Any, sizes: Any, scales: list[Any] | None, **how: Any) -> Any:
    """Resize by scales where there are some, else to sizes."""
    if scales is None:
        sizes = op.Concat(op.Shape(self, end=2), op.Cast(sizes, to=7), axis=0)
        return op.Resize(self, None, None, sizes, nearest_mode="floor", **how)
    asked = [None] * len(scales) if sizes is None else sizes
    factors = [
        None if scale is None else _factor(scale, before, after)
        for scale, before, after in zip(scales, self.shape[2:], asked)
    ]
    if None in factors:
        text = f"samples at a scale of {scales} that make {asked} of {[*self.shape[2:]]}"
        raise WorkerError("unsupported", f"ONNX's Resize has no {text}", [text])
    factors = op.Constant(value_floats=[1.0, 1.0, *factors])
    return op.Resize(self, None, factors, None, nearest_mode="floor", **how)


def _smooth(mode: str, **options: Any) -> Callable[..., Any]:
    def upsample(
        self: Any, output_size: Any, align_corners: bool, *scales: Any, **named: Any
    ) -> Any:
        """upsample_*(Tensor self, SymInt[] output_size, bool align_corners, float? scales...), or
        with float[]? scale_factors"""
        given = _listed(rank(self) - 2, scales, named)
        if align_corners and options.get("antialias"):
            name = f"aten._upsample_bi{mode}2d_aa"
            text = f"{name}: with align_corners, ONNX's Resize has other weights"
            raise WorkerError("unsupported", f"{text}; leave align_corners out", [text])
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
    given = _listed(rank(self) - 2, scales, named)
    axes = range(2, rank(self))
    asked = [
        _Axis(self.shape[axis], output_size and output_size[n], given[n] if given else None)
        for n, axis in enumerate(axes)
    ]
    of_one_kind = given is None or None not in given
    if of_one_kind and all(axis.is_resize() for axis in asked):
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
        return _resize(self, output_size, given, **how)
    for axis, one in zip(axes, asked):
        self = op.Gather(self, one.places(op.Shape(self, start=axis, end=axis + 1)), axis=axis)
    return self


def _listed(axes: int, scales: Sequence[Any], named: Mapping[str, Any]) -> list[Any] | None:
    """The scale of each axis, None where it has none; they come one by one or as a list."""
    listed = named.get("scale_factors", scales[0] if scales else None)
    if not isinstance(listed, (list, tuple)):
        names = ["scales"] if axes == 1 else [f"scales_{axis}" for axis in "dhw"[-axes:]]
        given = {**dict(zip(names, scales)), **named}
        listed = [given.get(name) for name in names]
    return None if all(scale is None for scale in listed) else list(listed)


class _Axis:
    """The samples along an axis: of `before`, `after` or `scale` times as many."""

    def __init__(self, before: Any, after: Any, scale: float | None) -> None:
        self.before, self.scale = before, scale
        self.after = after if isinstance(after, int) or scale is None else _size(before, scale)
        self.known = isinstance(before, int) and isinstance(self.after, int)

    def is_resize(self) -> bool:
        """Whether Resize takes the same samples; nothing can be said of two free sizes, and most
        often one is twice the other."""
        if self.scale is None and not self.known:
            return True
        if self.scale is None:
            factor = np.float32(self.after) / np.float32(self.before)
        else:
            found = _factor(self.scale, self.before, self.after)
            if found is None:
                return False
            factor = np.float32(found)
        count = np.arange(self.after if self.known else _FAR, dtype=np.float32)
        theirs = np.floor(count / factor)
        ours = self._places() if self.known else np.floor(count * self._step())
        return np.array_equal(ours, np.minimum(theirs, self.before - 1) if self.known else theirs)

    def _step(self) -> np.float32:
        """ATen's ``compute_scales_value``."""
        if self.scale is not None:
            return np.float32(1.0 / self.scale)
        return np.float32(self.before) / np.float32(self.after)

    def _places(self) -> np.ndarray[Any, Any]:
        """ATen's ``nearest_idx`` for each sample, of sizes that are known."""
        count = np.arange(self.after)
        if self.after in (self.before, 2 * self.before):
            found = count // (self.after // self.before)
        else:
            found = np.floor(count.astype(np.float32) * self._step()).astype(np.int64)
        return np.asarray(np.minimum(found, self.before - 1))

    def places(self, size: Any) -> Any:
        """Where each sample lies, as a tensor; `size` is the axis' own."""
        if self.known:
            return whole(self._places().tolist())
        if self.scale is None:
            after = op.Reshape(op.Cast(self.after, to=7), whole([1]))
            step = op.Div(op.Cast(size, to=1), op.Cast(after, to=1))
        else:
            scale = op.Constant(value=onnx_ir.tensor(self.scale, dtype=onnx_ir.DataType.DOUBLE))
            after = op.Cast(op.Floor(op.Mul(op.Cast(size, to=11), scale)), to=7)
            step = op.Constant(value_float=float(self._step()))
        ends = (whole([0]), after, whole([1]))
        count = op.Range(*(op.Squeeze(end, whole([0])) for end in ends))
        found = op.Cast(op.Floor(op.Mul(op.Cast(count, to=1), step)), to=7)
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
