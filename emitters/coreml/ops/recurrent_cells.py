"""What the steps of RNN, GRU and LSTM are made of."""

from __future__ import annotations

from emitters.coreml.context import Context, Var
from emitters.coreml.types import NUMPY
from emitters.lowering.plans.recurrent import Activation

PLAIN = {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid"}
"""Activations without parameters that MIL's own recurrent operations take."""


class Operations:
    """The parts of a step's formulas (:class:`emitters.lowering.plans.recurrent.Arithmetic`).

    Args:
        context: Where they go.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def add(self, a: Var, b: Var) -> Var:
        """add."""
        return self._context.op("add", x=a, y=b)

    def multiply(self, a: Var, b: Var) -> Var:
        """mul."""
        return self._context.op("mul", x=a, y=b)

    def rest(self, x: Var) -> Var:
        """sub."""
        return _op(self._context, "sub", 1.0, x)

    def linear(self, x: Var, weights: Var, bias: Var | None) -> Var:
        """linear, or matmul of weights that are computed."""
        return times(self._context, x, weights, bias)

    def split(self, x: Var, count: int) -> list[Var]:
        """split."""
        return list(self._context.op("split", x=x, num_splits=count, axis=-1))

    def clip(self, x: Var, limit: float) -> Var:
        """clip."""
        return _clipped(self._context, x, -limit, limit)

    def activate(self, activation: Activation, x: Var) -> Var:
        """An operation of its own, or the function's formula."""
        context, kind = self._context, activation.kind
        if kind in PLAIN or kind in ("softsign", "softplus"):
            return context.op(kind, x=x)
        if kind in ("leakyrelu", "thresholdedrelu", "elu"):
            return _of_one(context, activation, x)
        return _of_two(context, activation, x)


def _op(context: Context, kind: str, a: Var | float, b: Var | float) -> Var:
    """An operation on two variables, or on one and a number."""
    like = b if isinstance(a, float) else a
    x, y = (context.number(each, like) if isinstance(each, float) else each for each in (a, b))
    return context.op(kind, x=x, y=y)


def _clipped(context: Context, x: Var, least: float, most: float) -> Var:
    low, high = (NUMPY[context.type_of(x)](n) for n in (least, most))
    return context.op("clip", x=x, alpha=low, beta=high)


def times(context: Context, x: Var, weight: Var, bias: Var | None) -> Var:
    """``x`` [..., I] times weights [O, I], and a bias [O]."""
    if _is_fixed(weight) and (bias is None or bias.val is not None):
        inputs = {} if bias is None else {"bias": bias}
        return context.op("linear", x=x, weight=weight, **inputs)
    made = context.op("matmul", x=x, y=weight, transpose_y=True)
    return made if bias is None else context.op("add", x=made, y=bias)


def _is_fixed(weight: Var) -> bool:
    """Whether it is a constant, compressed or not."""
    compressed = weight.op is not None and weight.op.op_type.startswith("constexpr_")
    return compressed or weight.val is not None


# -- activations -------------------------------------------------------------------------


def _of_one(context: Context, activation: Activation, x: Var) -> Var:
    number = NUMPY[context.type_of(x)](activation.alpha)
    if activation.kind == "elu":
        return context.op("elu", x=x, alpha=number)
    if activation.kind == "leakyrelu":
        return context.op("leaky_relu", x=x, alpha=number)
    above = context.op("greater", x=x, y=number)
    return context.op("select", cond=above, a=x, b=context.number(0.0, x))


def _of_two(context: Context, activation: Activation, x: Var) -> Var:
    alpha, beta = activation.alpha, activation.beta
    if activation.kind == "scaledtanh":
        made = context.op("tanh", x=_op(context, "mul", x, beta))
        return _op(context, "mul", made, alpha)
    made = _op(context, "add", _op(context, "mul", x, alpha), beta)
    return made if activation.kind == "affine" else _clipped(context, made, 0.0, 1.0)
