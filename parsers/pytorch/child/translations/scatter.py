"""scatter and its reductions: means, starts without ``self``, sources larger than their indices."""

# zip() knows no strict= before Python 3.10.

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir
from onnxscript.onnx_opset import opset18 as op

from .values import filled, rank, whole

_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def _scatter(self: Any, dim: int, index: Any, src: Any) -> Any:
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _Scatter(self, dim, index, src).onto("none")


def _scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _Scatter(self, dim, index, src).onto("add")


def _scatter_reduce(
    self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *,
    bool include_self=True) -> Tensor"""
    scatter, reduction = _Scatter(self, dim, index, src), _REDUCTIONS[reduce]
    if not include_self:
        scatter.put(_neutral(reduction, self.dtype))
    return scatter.mean(include_self) if reduce == "mean" else scatter.onto(reduction)


class _Scatter:
    """ScatterElements, whose data have an axis, and whose updates are as many as the indices."""

    def __init__(self, data: Any, axis: int, index: Any, src: Any) -> None:
        self._lone, self._dtype, self._axis = rank(data) == 0, data.dtype, axis
        axes = [*range(max(rank(index), 1))]
        same = [*index.shape] == [*src.shape]
        self._data, self._index, self._src = (
            op.Reshape(t, whole([-1])) if rank(t) == 0 else t for t in (data, index, src)
        )
        if not same:
            ends = op.Shape(self._index)
            self._src = op.Slice(self._src, whole([0] * len(axes)), ends, whole(axes))

    def _all(self, like: Any, value: Any) -> Any:
        return filled(op.Shape(like), value, self._dtype)

    def _onto(self, data: Any, updates: Any, reduction: str) -> Any:
        return op.ScatterElements(data, self._index, updates, axis=self._axis, reduction=reduction)

    def put(self, value: Any) -> None:
        """Has one value where the indices lead."""
        self._data = self._onto(self._data, self._all(self._index, value), "none")

    def onto(self, reduction: str) -> Any:
        """The data with the source put or reduced into it."""
        return self._back(self._onto(self._data, self._src, reduction))

    def mean(self, include_self: bool) -> Any:
        """Sums over counts; of integers towards minus infinity."""
        total = self._onto(self._data, self._src, "add")
        count = self._all(self._data, 1)
        if not include_self:
            count = self._onto(count, self._all(self._index, 0), "none")
        count = self._onto(count, self._all(self._index, 1), "add")
        if self._dtype.is_integer():
            total = op.Sub(total, op.Mod(total, count))
        return self._back(op.Div(total, count))

    def _back(self, result: Any) -> Any:
        return op.Squeeze(result, whole([0])) if self._lone else result


def _neutral(reduction: str, dtype: onnx_ir.DataType) -> Any:
    """What a reduction's result doesn't hang on."""
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    lowest = reduction == "max"
    if dtype.is_floating_point():
        return -math.inf if lowest else math.inf
    if dtype == onnx_ir.DataType.BOOL:
        return not lowest
    limits = np.iinfo(dtype.numpy())
    return limits.min if lowest else limits.max


TABLE = {
    "aten.scatter.src": _scatter,
    "aten.scatter_add.default": _scatter_add,
    "aten.scatter_reduce.two": _scatter_reduce,
}
