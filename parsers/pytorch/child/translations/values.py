"""What translations share: constants, ranks, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir
from onnxscript.onnx_opset import opset18 as op


def whole(values: Sequence[int]) -> Any:
    """Integers, as a tensor of one axis."""
    return op.Constant(value=onnx_ir.tensor([*values], dtype=onnx_ir.DataType.INT64))


def scalar(value: float, like: Any) -> Any:
    """A number, of the type of `like`."""
    return op.Constant(value=onnx_ir.tensor(value, dtype=like.dtype))


def filled(shape: Any, value: float, dtype: onnx_ir.DataType) -> Any:
    """A tensor of one value.

    Args:
        shape: The shape, a tensor itself: int64 [axes].
        value: What it holds.
        dtype: Its type.
    """
    return op.ConstantOfShape(shape, value=onnx_ir.tensor([value], dtype=dtype))


def rank(value: Any) -> int:
    """How many axes it has."""
    return len(value.shape)


def each(value: Any, axes: int) -> list[int]:
    """One number for each axis, of one or of as many."""
    listed = [value] if isinstance(value, int) else list(value)
    return listed * axes if len(listed) == 1 else listed
