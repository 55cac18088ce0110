"""What a mask takes."""

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


TABLE = {"aten.masked_select.default": _masked_select}
