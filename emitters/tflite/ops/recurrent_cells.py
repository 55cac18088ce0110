"""What the steps of RNN, GRU and LSTM are made of."""

from __future__ import annotations

import numpy as np

from emitters.lowering.plans.recurrent import Activation
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor

_PLAIN = {"relu": "RELU", "tanh": "TANH", "sigmoid": "LOGISTIC"}


class Operators:
    """The parts of a step's formulas (:class:`emitters.lowering.plans.recurrent.Arithmetic`).

    Args:
        context: Where they go: the graph, or the body of a loop.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """ADD."""
        return build.binary(self._context, "ADD", a, b)

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """MUL."""
        return build.binary(self._context, "MUL", a, b)

    def rest(self, x: Tensor) -> Tensor:
        """x * -1 + 1."""
        return _op(self._context, "ADD", _op(self._context, "MUL", x, -1.0), 1.0)

    def linear(self, x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        """FULLY_CONNECTED."""
        return linear(self._context, x, weights, bias)

    def split(self, x: Tensor, count: int) -> list[Tensor]:
        """SPLIT."""
        size = x.shape[-1]
        assert isinstance(size, int)
        part = ((*x.shape[:-1], size // count), x.dtype, None)
        axis = self._context.constant(np.asarray(x.rank - 1, np.int32))
        options = {"numSplits": count}
        return self._context.emit_many("SPLIT", [axis, x], [part] * count, options=options)

    def clip(self, x: Tensor, limit: float) -> Tensor:
        """MINIMUM and MAXIMUM."""
        x = _op(self._context, "MINIMUM", x, limit)
        return _op(self._context, "MAXIMUM", x, -limit)

    def activate(self, activation: Activation, x: Tensor) -> Tensor:
        """An operator of its own, or the function's formula."""
        context, kind = self._context, activation.kind
        if kind in _PLAIN:
            return build.unary(context, _PLAIN[kind], x)
        if kind in ("softsign", "softplus"):
            return _softsign(context, x) if kind == "softsign" else _softplus(context, x)
        if kind in ("leakyrelu", "thresholdedrelu", "elu"):
            return _of_one(context, activation, x)
        return _of_two(context, activation, x)


def _op(context: Context, op: str, a: Tensor, b: Tensor | float) -> Tensor:
    other = b if isinstance(b, Tensor) else build.scalar(context, b, a)
    return build.binary(context, op, a, other)


def linear(context: Context, x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """FULLY_CONNECTED: ``x`` [..., I] times weights [O, I], and a bias [O]."""
    options = {"fusedActivationFunction": 0, "keepNumDims": x.rank != 2}
    shape = (*x.shape[:-1], weights.shape[0])
    return context.emit("FULLY_CONNECTED", [x, weights, bias], shape, options=options)


def part_of(context: Context, x: Tensor, axis: int, begin: int, count: int) -> Tensor:
    """``count`` indices of an axis, from ``begin`` on."""
    if x.data is not None:
        key = [slice(None)] * x.rank
        key[axis] = slice(begin, begin + count)
        return context.constant(np.ascontiguousarray(x.data[tuple(key)]), x.name)
    starts, sizes, shape = [0] * x.rank, [-1] * x.rank, list(x.shape)
    starts[axis], sizes[axis], shape[axis] = begin, count, count
    return context.emit("SLICE", [x, context.integers(starts), context.integers(sizes)], shape)


# -- activations -------------------------------------------------------------------------


def _of_one(context: Context, activation: Activation, x: Tensor) -> Tensor:
    kind, alpha = activation.kind, activation.alpha
    if kind == "elu" and alpha != 1.0:
        raise Refused(f"the activation Elu with alpha {alpha}: LiteRT's has 1")
    if kind == "elu":
        return build.unary(context, "ELU", x)
    if kind == "leakyrelu":
        return context.emit("LEAKY_RELU", [x], x.shape, options={"alpha": alpha})
    limit = build.scalar(context, alpha, x)
    above = build.binary(context, "GREATER", x, limit, DataType.BOOL)
    zero = build.scalar(context, 0.0, x)
    return context.emit("SELECT_V2", [above, x, zero], x.shape, x.dtype)


def _of_two(context: Context, activation: Activation, x: Tensor) -> Tensor:
    alpha, beta = activation.alpha, activation.beta
    if activation.kind == "scaledtanh":
        scaled = _op(context, "MUL", x, beta)
        return _op(context, "MUL", build.unary(context, "TANH", scaled), alpha)
    made = _op(context, "ADD", _op(context, "MUL", x, alpha), beta)
    if activation.kind == "affine":
        return made
    return _op(context, "MAXIMUM", _op(context, "MINIMUM", made, 1.0), 0.0)


def _softsign(context: Context, x: Tensor) -> Tensor:
    return _op(context, "DIV", x, _op(context, "ADD", build.unary(context, "ABS", x), 1.0))


def _softplus(context: Context, x: Tensor) -> Tensor:
    """max(x, 0) + log(1 + exp(-|x|))"""
    small = build.unary(context, "NEG", build.unary(context, "ABS", x))
    rest = _op(context, "ADD", build.unary(context, "EXP", small), 1.0)
    positive = build.unary(context, "RELU", x)
    return _op(context, "ADD", positive, build.unary(context, "LOG", rest))
