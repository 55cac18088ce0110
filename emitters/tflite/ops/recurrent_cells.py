"""One step of RNN, GRU and LSTM: the formulas of ONNX's operator pages, and their activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor

Activation = Callable[[Context, Tensor], Tensor]


@dataclass(frozen=True)
class Cell:
    """One direction of an operator.

    Attributes:
        kind: RNN, GRU or LSTM.
        hidden: Elements of the hidden state.
        recurrent: Weights of the state: [gates * hidden, hidden].
        recurrent_bias: What GRU adds before it multiplies with the reset gate: [3 * hidden].
        peepholes: Of LSTM's cell on its gates, in the order i, o, f: [hidden] each.
        activations: f, g, h.
        clip: The largest number that goes into an activation.
        coupled: Whether LSTM's forget gate is 1 - its input gate.
        reset_behind: GRU's ``linear_before_reset``.
    """

    kind: str
    hidden: int
    recurrent: Tensor
    recurrent_bias: Tensor | None
    peepholes: Sequence[Tensor] = ()
    activations: Sequence[Activation] = field(default_factory=tuple)
    clip: float | None = None
    coupled: bool = False
    reset_behind: bool = False

    def step(self, context: Context, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        """The next states.

        Args:
            context: Where it goes: the graph, or the body of a loop.
            x: What the step's input adds to all gates, with biases: [batch, gates * hidden].
            states: The hidden state, and LSTM's cell: [batch, hidden].
        """
        return _STEPS[self.kind](self, context, x, states)

    def activate(self, context: Context, which: int, x: Tensor) -> Tensor:
        """An activation of what is clipped before."""
        if self.clip is not None:
            x = _op(context, "MINIMUM", x, self.clip)
            x = _op(context, "MAXIMUM", x, -self.clip)
        return self.activations[which](context, x)


def _op(context: Context, op: str, a: Tensor, b: Tensor | float) -> Tensor:
    other = b if isinstance(b, Tensor) else build.scalar(context, b, a)
    return build.binary(context, op, a, other)


def linear(context: Context, x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """FULLY_CONNECTED: ``x`` [..., I] times weights [O, I], and a bias [O]."""
    options = {"fusedActivationFunction": 0, "keepNumDims": x.rank != 2}
    shape = (*x.shape[:-1], weights.shape[0])
    return context.emit("FULLY_CONNECTED", [x, weights, bias], shape, options=options)


def _split(context: Context, x: Tensor, count: int) -> list[Tensor]:
    """The gates of [batch, count * hidden]."""
    size = x.shape[-1]
    assert isinstance(size, int)
    part = ((*x.shape[:-1], size // count), x.dtype, None)
    axis = context.constant(np.asarray(x.rank - 1, np.int32))
    return context.emit_many("SPLIT", [axis, x], [part] * count, options={"numSplits": count})


def _rows(context: Context, x: Tensor, begin: int, count: int) -> Tensor:
    """Rows of weights, or elements of a bias."""
    return part_of(context, x, 0, begin, count)


def part_of(context: Context, x: Tensor, axis: int, begin: int, count: int) -> Tensor:
    """``count`` indices of an axis, from ``begin`` on."""
    if x.data is not None:
        key = [slice(None)] * x.rank
        key[axis] = slice(begin, begin + count)
        return context.constant(np.ascontiguousarray(x.data[tuple(key)]), x.name)
    starts, sizes, shape = [0] * x.rank, [-1] * x.rank, list(x.shape)
    starts[axis], sizes[axis], shape[axis] = begin, count, count
    return context.emit("SLICE", [x, context.integers(starts), context.integers(sizes)], shape)


# -- steps -------------------------------------------------------------------------------


def _rnn(cell: Cell, context: Context, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """H' = f(x + H R)"""
    whole = _op(context, "ADD", x, linear(context, states[0], cell.recurrent, None))
    return [cell.activate(context, 0, whole)]


def _lstm(cell: Cell, context: Context, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """C' = f C + i g;  H' = o h(C')"""
    before = states[1]
    whole = _op(context, "ADD", x, linear(context, states[0], cell.recurrent, None))
    i, o, f, g = _split(context, whole, 4)
    if cell.peepholes:
        i = _op(context, "ADD", i, _op(context, "MUL", before, cell.peepholes[0]))
        f = _op(context, "ADD", f, _op(context, "MUL", before, cell.peepholes[2]))
    i, g = cell.activate(context, 0, i), cell.activate(context, 1, g)
    if cell.coupled:
        f = _op(context, "ADD", _op(context, "MUL", i, -1.0), 1.0)
    else:
        f = cell.activate(context, 0, f)
    kept = _op(context, "MUL", f, before)
    after = _op(context, "ADD", kept, _op(context, "MUL", i, g))
    if cell.peepholes:
        o = _op(context, "ADD", o, _op(context, "MUL", after, cell.peepholes[1]))
    o = cell.activate(context, 0, o)
    return [_op(context, "MUL", o, cell.activations[2](context, after)), after]


def _gru(cell: Cell, context: Context, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """H' = (1 - z) n + z H, where r multiplies H before R, or H R + its bias."""
    before, size = states[0], cell.hidden
    xz, xr, xn = _split(context, x, 3)
    if cell.reset_behind:
        hz, hr, hn = _split(
            context, linear(context, before, cell.recurrent, cell.recurrent_bias), 3
        )
    else:
        gates = _rows(context, cell.recurrent, 0, 2 * size)
        hz, hr = _split(context, linear(context, before, gates, None), 2)
    z = cell.activate(context, 0, _op(context, "ADD", xz, hz))
    r = cell.activate(context, 0, _op(context, "ADD", xr, hr))
    if cell.reset_behind:
        hidden = _op(context, "MUL", r, hn)
    else:
        last = _rows(context, cell.recurrent, 2 * size, size)
        hidden = linear(context, _op(context, "MUL", r, before), last, None)
    n = cell.activate(context, 1, _op(context, "ADD", xn, hidden))
    new = _op(context, "MUL", _op(context, "ADD", _op(context, "MUL", z, -1.0), 1.0), n)
    return [_op(context, "ADD", new, _op(context, "MUL", z, before))]


Step = Callable[[Cell, Context, Tensor, Sequence[Tensor]], list[Tensor]]
_STEPS: dict[str, Step] = {"RNN": _rnn, "LSTM": _lstm, "GRU": _gru}

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many rows of ``hidden`` the weights have."""

DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
"""The activations of one direction."""


# -- activations -------------------------------------------------------------------------


_PLAIN = {"relu": "RELU", "tanh": "TANH", "sigmoid": "LOGISTIC"}
_ALPHAS = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0}
_BETAS = {"hardsigmoid": 0.5}


def activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    """An activation by its name; takes what it needs off the front of ``alphas`` and ``betas``.

    Raises:
        Refused: There is none of that name.
    """
    kind = name.lower()
    if kind in _PLAIN:
        op = _PLAIN[kind]
        return lambda context, x: build.unary(context, op, x)
    if kind in ("softsign", "softplus"):
        return _softsign if kind == "softsign" else _softplus
    if kind in (*_ALPHAS, "affine", "scaledtanh"):
        alpha = alphas.pop(0) if alphas else _ALPHAS.get(kind, 1.0)
        if kind in ("leakyrelu", "thresholdedrelu", "elu"):
            return _of_one(kind, alpha)
        beta = betas.pop(0) if betas else _BETAS.get(kind, 0.0 if kind == "affine" else 1.0)
        return _of_two(kind, alpha, beta)
    raise Refused(f"the activation {name}")


def _of_one(kind: str, alpha: float) -> Activation:
    if kind == "elu" and alpha != 1.0:
        raise Refused(f"the activation Elu with alpha {alpha}: LiteRT's has 1")

    def run(context: Context, x: Tensor) -> Tensor:
        if kind == "elu":
            return build.unary(context, "ELU", x)
        if kind == "leakyrelu":
            return context.emit("LEAKY_RELU", [x], x.shape, options={"alpha": alpha})
        limit = build.scalar(context, alpha, x)
        above = build.binary(context, "GREATER", x, limit, DataType.BOOL)
        zero = build.scalar(context, 0.0, x)
        return context.emit("SELECT_V2", [above, x, zero], x.shape, x.dtype)

    return run


def _of_two(kind: str, alpha: float, beta: float) -> Activation:
    def run(context: Context, x: Tensor) -> Tensor:
        if kind == "scaledtanh":
            scaled = _op(context, "MUL", x, beta)
            return _op(context, "MUL", build.unary(context, "TANH", scaled), alpha)
        made = _op(context, "ADD", _op(context, "MUL", x, alpha), beta)
        if kind == "affine":
            return made
        return _op(context, "MAXIMUM", _op(context, "MINIMUM", made, 1.0), 0.0)

    return run


def _softsign(context: Context, x: Tensor) -> Tensor:
    return _op(context, "DIV", x, _op(context, "ADD", build.unary(context, "ABS", x), 1.0))


def _softplus(context: Context, x: Tensor) -> Tensor:
    """max(x, 0) + log(1 + exp(-|x|))"""
    small = build.unary(context, "NEG", build.unary(context, "ABS", x))
    rest = _op(context, "ADD", build.unary(context, "EXP", small), 1.0)
    positive = build.unary(context, "RELU", x)
    return _op(context, "ADD", positive, build.unary(context, "LOG", rest))
