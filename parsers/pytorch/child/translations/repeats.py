"""Repeating each by a count of its own."""

from __future__ import annotations

from typing import Any

from onnxscript.onnx_opset import opset18 as op

from .values import whole


def _places(repeats: Any, *, output_size: Any = None) -> Any:
    """repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor: where each
    comes from, which is how many have ended before it; the size is their sum

    Given:   2, 0, 1, which end at 2, 2, 3
    Result:  0, 0, 2
    """
    ends = op.CumSum(op.Cast(repeats, to=7), op.Constant(value_int=0))
    total = op.ReduceSum(op.Cast(repeats, to=7), whole([0]), keepdims=0)
    count = op.Range(op.Constant(value_int=0), total, op.Constant(value_int=1))
    ended = op.GreaterOrEqual(count, op.Unsqueeze(ends, whole([1])))
    found = op.ReduceSum(op.Cast(ended, to=7), whole([0]), keepdims=0)
    return op.CastLike(found, repeats)


TABLE = {"aten.repeat_interleave.Tensor": _places}
