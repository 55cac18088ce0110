"""Batch normalization by the statistics of its input, and not of the training."""

from __future__ import annotations

from typing import Any

from onnxscript.onnx_opset import opset18 as op

from .values import filled, rank, scalar, whole


def _functional(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
                training: bool, momentum: float, eps: float) -> tuple[Any, ...]:  # fmt: skip
    """_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor
    running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor,
    Tensor, Tensor running_mean_out, Tensor running_var_out)"""
    size, dtype = op.Shape(input, start=1, end=2), input.dtype
    weight = filled(size, 1.0, dtype) if weight is None else weight
    bias = filled(size, 0.0, dtype) if bias is None else bias
    if not training:
        made = op.BatchNormalization(
            input, weight, bias, running_mean, running_var, epsilon=eps, training_mode=0
        )
        deviation = op.Sqrt(op.Add(running_var, scalar(eps, input)))
        kept = (op.Identity(each) for each in (running_mean, running_var))
        return (made, op.Identity(running_mean), op.Reciprocal(deviation), *kept)
    axes = whole([axis for axis in range(rank(input)) if axis != 1])
    mean, var = _moments(input, axes)
    made = op.BatchNormalization(input, weight, bias, mean, var, epsilon=eps, training_mode=0)
    deviation = op.Sqrt(op.Add(var, scalar(eps, input)))
    count = op.CastLike(op.Div(op.Size(input), op.Squeeze(size, whole([0]))), input)
    unbiased = op.Mul(var, op.Div(count, op.Sub(count, scalar(1, input))))
    return (
        made,
        mean,
        op.Reciprocal(deviation),
        _moved(running_mean, mean, momentum, input),
        _moved(running_var, unbiased, momentum, input),
    )


def _moments(value: Any, axes: Any) -> tuple[Any, Any]:
    """Mean and variance along axes."""
    apart = op.Sub(value, op.ReduceMean(value, axes, keepdims=1))
    return op.ReduceMean(value, axes, keepdims=0), op.ReduceMean(
        op.Mul(apart, apart), axes, keepdims=0
    )


def _moved(running: Any, found: Any, momentum: float, like: Any) -> Any:
    if running is None:
        return found
    old = op.Mul(running, scalar(1 - momentum, like))
    return op.Add(old, op.Mul(found, scalar(momentum, like)))


def _native(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
            training: bool, momentum: float, eps: float) -> tuple[Any, ...]:  # fmt: skip
    """native_batch_norm(...) -> (Tensor, Tensor, Tensor), as _functional"""
    made = _functional(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return made[:3]


TABLE = {
    "aten._native_batch_norm_legit_functional.default": _functional,
    "aten._native_batch_norm_legit.default": _native,
    "aten.native_batch_norm.default": _native,
}
