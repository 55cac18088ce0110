"""One step of RNN, GRU and LSTM: the formulas of ONNX's operator pages, and their activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from emitters.coreml.context import Context, Var
from emitters.coreml.types import NUMPY
from emitters.lowering.refused import Refused

Activation = Callable[[Context, Var], Var]


@dataclass(frozen=True)
class Cell:
    """One direction of an operator.

    Attributes:
        kind: RNN, GRU or LSTM.
        hidden: Elements of the hidden state.
        recurrent: Weights of the state: [gates * hidden, hidden]; GRU's are [2 * hidden, hidden]
            and those of its last gate apart, where the reset gate is in front of them.
        recurrent_bias: What GRU adds before it multiplies with the reset gate: [3 * hidden].
        peepholes: Of LSTM's cell on its gates, in the order i, o, f: [hidden] each.
        activations: f, g, h.
        clip: The largest number that goes into an activation.
        coupled: Whether LSTM's forget gate is 1 - its input gate.
        reset_behind: GRU's ``linear_before_reset``.
    """

    kind: str
    hidden: int
    recurrent: Sequence[Var]
    recurrent_bias: Var | None
    peepholes: Sequence[Var] = ()
    activations: Sequence[Activation] = field(default_factory=tuple)
    clip: float | None = None
    coupled: bool = False
    reset_behind: bool = False

    def step(self, context: Context, x: Var, states: Sequence[Var]) -> list[Var]:
        """The next states.

        Args:
            context: Where it goes.
            x: What the step's input adds to all gates, with biases: [batch, gates * hidden].
            states: The hidden state, and LSTM's cell: [batch, hidden].
        """
        return _STEPS[self.kind](self, context, x, states)

    def activate(self, context: Context, which: int, x: Var) -> Var:
        """An activation of what is clipped before."""
        if self.clip is not None:
            low, high = (NUMPY[context.type_of(x)](n) for n in (-self.clip, self.clip))
            x = context.op("clip", x=x, alpha=low, beta=high)
        return self.activations[which](context, x)


def _op(context: Context, kind: str, a: Var | float, b: Var | float) -> Var:
    """An operation on two variables, or on one and a number."""
    like = b if isinstance(a, float) else a
    x, y = (context.number(each, like) if isinstance(each, float) else each for each in (a, b))
    return context.op(kind, x=x, y=y)


def times(context: Context, x: Var, weight: Var, bias: Var | None) -> Var:
    """``x`` [..., I] times weights [O, I], and a bias [O]."""
    if weight.val is not None and (bias is None or bias.val is not None):
        inputs = {} if bias is None else {"bias": bias}
        return context.op("linear", x=x, weight=weight, **inputs)
    made = context.op("matmul", x=x, y=weight, transpose_y=True)
    return made if bias is None else context.op("add", x=made, y=bias)


def _split(context: Context, x: Var, count: int) -> list[Var]:
    """The gates of [batch, count * hidden]."""
    return list(context.op("split", x=x, num_splits=count, axis=-1))


# -- steps -------------------------------------------------------------------------------


def _rnn(cell: Cell, context: Context, x: Var, states: Sequence[Var]) -> list[Var]:
    """H' = f(x + H R)"""
    whole = _op(context, "add", x, times(context, states[0], cell.recurrent[0], None))
    return [cell.activate(context, 0, whole)]


def _lstm(cell: Cell, context: Context, x: Var, states: Sequence[Var]) -> list[Var]:
    """C' = f C + i g;  H' = o h(C')"""
    before = states[1]
    whole = _op(context, "add", x, times(context, states[0], cell.recurrent[0], None))
    i, o, f, g = _split(context, whole, 4)
    if cell.peepholes:
        i = _op(context, "add", i, _op(context, "mul", before, cell.peepholes[0]))
        f = _op(context, "add", f, _op(context, "mul", before, cell.peepholes[2]))
    i, g = cell.activate(context, 0, i), cell.activate(context, 1, g)
    f = _op(context, "sub", 1.0, i) if cell.coupled else cell.activate(context, 0, f)
    kept = _op(context, "mul", f, before)
    after = _op(context, "add", kept, _op(context, "mul", i, g))
    if cell.peepholes:
        o = _op(context, "add", o, _op(context, "mul", after, cell.peepholes[1]))
    o = cell.activate(context, 0, o)
    return [_op(context, "mul", o, cell.activations[2](context, after)), after]


def _gru(cell: Cell, context: Context, x: Var, states: Sequence[Var]) -> list[Var]:
    """H' = (1 - z) n + z H, where r multiplies H before R, or H R + its bias."""
    before = states[0]
    xz, xr, xn = _split(context, x, 3)
    recurrent = times(context, before, cell.recurrent[0], cell.recurrent_bias)
    hz, hr, *hn = _split(context, recurrent, 3 if cell.reset_behind else 2)
    z = cell.activate(context, 0, _op(context, "add", xz, hz))
    r = cell.activate(context, 0, _op(context, "add", xr, hr))
    if cell.reset_behind:
        hidden = _op(context, "mul", r, hn[0])
    else:
        hidden = times(context, _op(context, "mul", r, before), cell.recurrent[1], None)
    n = cell.activate(context, 1, _op(context, "add", xn, hidden))
    new = _op(context, "mul", _op(context, "sub", 1.0, z), n)
    return [_op(context, "add", new, _op(context, "mul", z, before))]


_Step = Callable[[Cell, Context, Var, Sequence[Var]], list[Var]]
_STEPS: dict[str, _Step] = {"RNN": _rnn, "LSTM": _lstm, "GRU": _gru}

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many rows of ``hidden`` the weights have."""

DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
"""The activations of one direction."""

PLAIN = {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid"}
"""Activations without parameters that MIL's own recurrent operations take."""


# -- activations -------------------------------------------------------------------------

_ALPHAS = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0}
_BETAS = {"hardsigmoid": 0.5}


def activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    """An activation by its name; takes what it needs off the front of ``alphas`` and ``betas``.

    Raises:
        Refused: There is none of that name.
    """
    kind = name.lower()
    if kind in PLAIN or kind in ("softsign", "softplus"):
        return lambda context, x: context.op(kind, x=x)
    if kind not in (*_ALPHAS, "affine", "scaledtanh"):
        raise Refused(f"the activation {name}")
    alpha = alphas.pop(0) if alphas else _ALPHAS.get(kind, 1.0)
    if kind in ("leakyrelu", "thresholdedrelu", "elu"):
        return _of_one(kind, alpha)
    beta = betas.pop(0) if betas else _BETAS.get(kind, 0.0 if kind == "affine" else 1.0)
    return _of_two(kind, alpha, beta)


def _of_one(kind: str, alpha: float) -> Activation:
    def run(context: Context, x: Var) -> Var:
        number = NUMPY[context.type_of(x)](alpha)
        if kind == "elu":
            return context.op("elu", x=x, alpha=number)
        if kind == "leakyrelu":
            return context.op("leaky_relu", x=x, alpha=number)
        above = context.op("greater", x=x, y=number)
        return context.op("select", cond=above, a=x, b=context.number(0.0, x))

    return run


def _of_two(kind: str, alpha: float, beta: float) -> Activation:
    def run(context: Context, x: Var) -> Var:
        if kind == "scaledtanh":
            made = context.op("tanh", x=_op(context, "mul", x, beta))
            return _op(context, "mul", made, alpha)
        made = _op(context, "add", _op(context, "mul", x, alpha), beta)
        if kind == "affine":
            return made
        low, high = (NUMPY[context.type_of(x)](n) for n in (0, 1))
        return context.op("clip", x=made, alpha=low, beta=high)

    return run
