"""What a mask takes, and what is put in a tensor's place."""

from __future__ import annotations

from typing import Any

from onnxscript.onnx_opset import opset18 as op

from .values import whole


def _masked_select(self: Any, mask: Any) -> Any:
    """masked_select(Tensor self, Tensor mask) -> Tensor: each is broadcast to the other"""
    data = op.Expand(self, op.Shape(mask))
    taken = op.Reshape(op.Expand(mask, op.Shape(data)), whole([-1]))
    places = op.Transpose(op.NonZero(taken), perm=[1, 0])
    return op.GatherND(op.Reshape(data, whole([-1])), places)


def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor: src is broadcast"""
    value = src if src.dtype == self.dtype else op.CastLike(src, self)
    return value if [*src.shape] == [*self.shape] else op.Expand(value, op.Shape(self))


TABLE = {"aten.copy.default": _copy, "aten.masked_select.default": _masked_select}
