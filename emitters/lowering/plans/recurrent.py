"""RNN, GRU and LSTM: what a node asks for, and the formulas of one step.

Source: the operator pages ``RNN``, ``GRU`` and ``LSTM``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import onnx_ir

from converter.graph.attributes import number, text
from emitters.lowering.refused import Refused

T = TypeVar("T")

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many rows of ``hidden`` the weights have."""

DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
"""The activations of one direction."""

_ALPHAS = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0}
_BETAS = {"hardsigmoid": 0.5, "affine": 0.0}

_PLAIN = frozenset({"relu", "tanh", "sigmoid", "softsign", "softplus"})
_OF_ONE = frozenset({"leakyrelu", "thresholdedrelu", "elu"})
_OF_TWO = frozenset({"hardsigmoid", "affine", "scaledtanh"})


# -- what a node has ---------------------------------------------------------------------


@dataclass(frozen=True)
class Activation:
    """An activation function.

    Attributes:
        kind: ONNX's name of it, in small letters.
        alpha, beta: Its parameters; what it has none of is 0.
    """

    kind: str
    alpha: float = 0.0
    beta: float = 0.0


def directions_of(node: onnx_ir.Node) -> list[bool]:
    """Of each direction, whether it goes from the last step to the first."""
    kinds = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    return kinds[text(node, "direction", "forward")]


def activations_of(node: onnx_ir.Node) -> list[list[Activation]]:
    """The activations f, g and h of each direction. Parameters are listed for those activations
    that have some, over all directions.

    Raises:
        Refused: There is none of a name, or another number of them.
    """
    default, count = DEFAULTS[node.op_type], len(directions_of(node))
    attribute = node.attributes.get("activations")
    names = list(attribute.as_strings()) if attribute is not None else []
    names = names or default * count
    if len(names) != len(default) * count:
        raise Refused(f"{len(names)} activations, not {len(default) * count}")
    alphas, betas = (_listed(node, f"activation_{name}") for name in ("alpha", "beta"))
    made = [_activation(name, alphas, betas) for name in names]
    return [made[place * len(default) :][: len(default)] for place in range(count)]


def _listed(node: onnx_ir.Node, name: str) -> list[float]:
    attribute = node.attributes.get(name)
    return list(attribute.as_floats()) if attribute is not None else []


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    """Takes what it needs off the front of ``alphas`` and ``betas``."""
    kind = name.lower()
    if kind in _PLAIN:
        return Activation(kind)
    if kind not in _OF_ONE | _OF_TWO:
        raise Refused(f"the activation {name}")
    alpha = alphas.pop(0) if alphas else _ALPHAS.get(kind, 1.0)
    if kind in _OF_ONE:
        return Activation(kind, alpha)
    return Activation(kind, alpha, betas.pop(0) if betas else _BETAS.get(kind, 1.0))


def is_used(node: onnx_ir.Node, place: int) -> bool:
    """Whether an output is used."""
    output = node.outputs[place] if place < len(node.outputs) else None
    return output is not None and bool(output.uses() or output.is_graph_output())


def clip_of(node: onnx_ir.Node) -> float | None:
    """The largest number that goes into an activation."""
    clip = node.attributes.get("clip")
    return clip.as_float() if clip is not None and clip.as_float() > 0 else None


def has_peepholes(node: onnx_ir.Node) -> bool:
    """Whether the cell goes into the gates."""
    return node.op_type == "LSTM" and len(node.inputs) > 7 and node.inputs[7] is not None


def resets_behind(node: onnx_ir.Node) -> bool:
    """Whether GRU's reset gate comes behind the product with the state."""
    return node.op_type == "GRU" and number(node, "linear_before_reset", 0) != 0


def hidden_size(node: onnx_ir.Node, shape: Sequence[object]) -> int:
    """Elements of a hidden state.

    Args:
        node: Whose weights they are.
        shape: Of the recurrent weights, [..., gates * hidden, hidden].

    Raises:
        Refused: It isn't known.
    """
    rows, hidden = shape[-2:]
    if not isinstance(hidden, int) or rows != GATES[node.op_type] * hidden:
        raise Refused(f"recurrent weights of {tuple(shape)}: their sizes have to be known")
    return hidden


# -- one step ----------------------------------------------------------------------------


class Arithmetic(Protocol[T]):
    """What an emitter makes of the formulas' parts, on [batch, elements] each."""

    def add(self, a: T, b: T, /) -> T:
        """a + b"""

    def multiply(self, a: T, b: T, /) -> T:
        """a * b"""

    def rest(self, x: T, /) -> T:
        """1 - x"""

    def linear(self, x: T, weights: T, bias: T | None, /) -> T:
        """``x`` [..., I] times weights [O, I], and a bias [O]."""

    def split(self, x: T, count: int, /) -> Sequence[T]:
        """Equal parts along the last axis."""

    def clip(self, x: T, limit: float, /) -> T:
        """``x`` between -limit and limit."""

    def activate(self, activation: Activation, x: T, /) -> T:
        """The activation of ``x``."""


@dataclass(frozen=True)
class Cell(Generic[T]):
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
    recurrent: Sequence[T]
    recurrent_bias: T | None
    peepholes: Sequence[T]
    activations: Sequence[Activation]
    clip: float | None = None
    coupled: bool = False
    reset_behind: bool = False

    def step(self, of: Arithmetic[T], x: T, states: Sequence[T]) -> list[T]:
        """The next states.

        Args:
            of: The emitter's arithmetic.
            x: What the step's input adds to all gates, with biases: [batch, gates * hidden].
            states: The hidden state, and LSTM's cell: [batch, hidden].
        """
        steps = {"RNN": self._rnn, "LSTM": self._lstm, "GRU": self._gru}
        return steps[self.kind](of, x, states)

    def _activate(self, of: Arithmetic[T], which: int, x: T) -> T:
        x = x if self.clip is None else of.clip(x, self.clip)
        return of.activate(self.activations[which], x)

    def _rnn(self, of: Arithmetic[T], x: T, states: Sequence[T]) -> list[T]:
        """H' = f(x + H R)"""
        whole = of.add(x, of.linear(states[0], self.recurrent[0], None))
        return [self._activate(of, 0, whole)]

    def _lstm(self, of: Arithmetic[T], x: T, states: Sequence[T]) -> list[T]:
        """C' = f C + i g;  H' = o h(C')"""
        before = states[1]
        whole = of.add(x, of.linear(states[0], self.recurrent[0], None))
        i, o, f, g = of.split(whole, 4)
        if self.peepholes:
            i = of.add(i, of.multiply(before, self.peepholes[0]))
            f = of.add(f, of.multiply(before, self.peepholes[2]))
        i, g = self._activate(of, 0, i), self._activate(of, 1, g)
        f = of.rest(i) if self.coupled else self._activate(of, 0, f)
        kept = of.multiply(f, before)
        after = of.add(kept, of.multiply(i, g))
        if self.peepholes:
            o = of.add(o, of.multiply(after, self.peepholes[1]))
        o = self._activate(of, 0, o)
        return [of.multiply(o, of.activate(self.activations[2], after)), after]

    def _gru(self, of: Arithmetic[T], x: T, states: Sequence[T]) -> list[T]:
        """H' = (1 - z) n + z H, where r multiplies H before R, or H R + its bias."""
        before = states[0]
        xz, xr, xn = of.split(x, 3)
        recurrent = of.linear(before, self.recurrent[0], self.recurrent_bias)
        hz, hr, *hn = of.split(recurrent, 3 if self.reset_behind else 2)
        z = self._activate(of, 0, of.add(xz, hz))
        r = self._activate(of, 0, of.add(xr, hr))
        if self.reset_behind:
            hidden = of.multiply(r, hn[0])
        else:
            hidden = of.linear(of.multiply(r, before), self.recurrent[1], None)
        n = self._activate(of, 1, of.add(xn, hidden))
        new = of.multiply(of.rest(z), n)
        return [of.add(new, of.multiply(z, before))]


def cell_of(
    node: onnx_ir.Node,
    place: int,
    hidden: int,
    recurrent: T,
    recurrent_bias: T | None,
    peepholes: T | None,
    rows: Callable[[T, int, int], T],
) -> Cell[T]:
    """One direction's formulas.

    Args:
        node: RNN, GRU or LSTM.
        place: Which direction.
        hidden: Elements of the hidden state.
        recurrent: Weights of the state: [gates * hidden, hidden].
        recurrent_bias: Where it is apart from the input's.
        peepholes: [3 * hidden].
        rows: Gives rows of a tensor, from the first on, so many.
    """
    weights, behind = [recurrent], resets_behind(node)
    if node.op_type == "GRU" and not behind:
        weights = [rows(recurrent, 0, 2 * hidden), rows(recurrent, 2 * hidden, hidden)]
    gates = [] if peepholes is None else [rows(peepholes, i * hidden, hidden) for i in range(3)]
    return Cell(
        node.op_type,
        hidden,
        weights,
        recurrent_bias,
        gates,
        activations_of(node)[place],
        clip_of(node),
        node.op_type == "LSTM" and number(node, "input_forget", 0) != 0,
        behind,
    )
