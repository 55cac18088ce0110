"""RNN, GRU and LSTM as the products and activations of their steps.

    RNN     H' = f(x + H R)
    GRU     H' = (1 - z) n + z H         r multiplies H before R, or H R with its bias
    LSTM    C' = f C + i g;  H' = o h(C')

The input's part ``x`` is a product for all steps at once. Up to :data:`UNROLLED` steps are written
out; more, or a free number, are a Loop. A state is [1, batch, hidden] all along, as one direction
has it in the node's inputs and outputs. A sequence that ended keeps its states, and gives zeros.

Source: the operator pages ``RNN``, ``GRU`` and ``LSTM``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.edit import is_used
from converter.ir.facts import RECURRENT
from converter.ir.never_negative import ROUND, RUN
from converter.ir.real import real_numbers
from converter.ir.recurrent import (
    GATES,
    Activation,
    activations_of,
    clip_of,
    directions_of,
    has_peepholes,
    hidden_size,
    resets_behind,
)
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Builder, DataType, Free, Operand, Value, rank
from converter.passes.legalize.scans import round_of, turned

UNROLLED = 4
"""Most steps that are written out one by one. A loop is as fast from 16 steps on, and more than
twice as fast for 40 of 128 elements: XNNPACK packs the weights of each step that is written out
again, where a loop has them once."""


def recurrent(b: Builder, node: onnx_ir.Node) -> tuple[Value | None, ...]:
    """Each direction for itself, put side by side."""
    x, batch_first = node.inputs[0], number(node, "layout", 0) == 1
    assert x is not None
    if rank(x) != 3:
        raise Refused(
            f"its input has {rank(x)} axes, not 3, so it can't run with these sizes",
            "choose other sizes (--input), or cut the model before it",
        )
    steps = _Steps(b, node, b.transpose(x, [1, 0, 2]) if batch_first else x, batch_first)
    made: list[Value | None] = []
    for place, parts in enumerate(zip(*map(steps.run, range(steps.ways)), strict=True)):
        whole = parts[0]
        if whole is not None and len(parts) > 1:
            axis = -1 if batch_first and place else int(place == 0)
            whole = b.op("Concat", *parts, axis=axis)
        if batch_first and whole is not None:
            states = [b.size(x, 0), steps.ways, steps.hidden]
            whole = b.reshape(whole, states) if place else b.transpose(whole, [2, 0, 1, 3])
        made.append(whole)
    return tuple(made)


class _Steps:
    """What all directions of a node work on.

    Args:
        b: Where nodes go.
        node: RNN, GRU or LSTM.
        x: Its input: [steps, batch, elements].
        batch_first: Whether first states have the batch as their first axis.
    """

    def __init__(self, b: Builder, node: onnx_ir.Node, x: Value, batch_first: bool) -> None:
        self.b, self.node, self.x = b, node, x
        self.batch_first = batch_first
        self.hidden, self.ways = hidden_size(node), len(directions_of(node))
        self.count = b.size(x, 0)
        self.lengths = self._lengths()
        self.outputs = is_used(node, 0)

    def _lengths(self) -> Value | None:
        """Steps of each sequence, int32 [1, batch, 1]; None where all have all."""
        b, value = self.b, self.b.input(4)
        known = b.constant(value)
        if value is None or (known is not None and (known == self.count).all()):
            return None
        return b.unsqueeze(value, [0, 2])

    def _rounds(self) -> Value:
        """The number of steps as a Loop takes it, for itself: int64 without axes."""
        b, size = self.b, self.count
        known = b.squeeze(size.value, [0]) if isinstance(size, Free) else b.value(np.asarray(size))
        assert known is not None
        return known

    @cached_property
    def _last(self) -> Value:
        """The number of the last step: int32 without axes."""
        b = self.b
        return b.op("Sub", b.cast(self._rounds(), DataType.INT32), np.asarray(1, np.int32))

    @cached_property
    def _zeros(self) -> Value:
        return self.b.filled(0, [1, self.b.size(self.x, 1), self.hidden], self.x)

    def run(self, way: int) -> list[Value | None]:
        """One direction: all states [steps, 1, batch, hidden], None where they aren't used, and the
        last of each, [1, batch, hidden]."""
        b, gates = self.b, GATES[self.node.op_type] * self.hidden
        bias: list[Operand] = [None, None]
        if b.input(3) is not None:
            bias = [self._part(3, way, begin, begin + gates) for begin in (0, gates)]
        if not resets_behind(self.node) and bias[0] is not None:
            bias = [_sum(b, bias[0], bias[1]), None]
        cell = self._cell(way, bias[1])
        x = _linear(b, self.x, self._part(1, way, 0, gates), bias[0])
        states = [self._start(5 + place, way) for place in range(1 + cell.is_lstm)]
        backwards = directions_of(self.node)[way]
        if isinstance(self.count, int) and 0 < self.count <= UNROLLED:
            return self._written_out(cell, x, states, backwards)
        return self._looped(cell, x, states, backwards, f"{self.node.name}/{way}")

    def _part(self, index: int, way: int, begin: int, end: int) -> Operand:
        """Rows of one direction's weights, which become columns, or some of its numbers."""
        b, value = self.b, self.b.input(index)
        assert value is not None and value.shape is not None
        known = real_numbers(value)
        if known is not None:
            return b.value(known[way, begin:end].T)
        if self.ways > 1 or value.shape[1] != end - begin:
            limits = ([way, begin], [way + 1, end], [0, 1])
            value = b.op("Slice", value, *(np.asarray(limit) for limit in limits))
        value = b.squeeze(value, [0])
        return b.transpose(value, [1, 0]) if rank(value) == 2 else value

    def _cell(self, way: int, bias: Operand) -> _Cell:
        node, hidden = self.node, self.hidden
        gates, behind = GATES[node.op_type] * hidden, resets_behind(node)
        rows = [0, 2 * hidden, gates] if node.op_type == "GRU" and not behind else [0, gates]
        peepholes: list[Operand] = []
        if has_peepholes(node):
            peepholes = [self._part(7, way, i * hidden, (i + 1) * hidden) for i in range(3)]
        return _Cell(
            node.op_type,
            [self._part(2, way, begin, end) for begin, end in pairwise(rows)],
            bias,
            peepholes,
            activations_of(node)[way],
            clip_of(node),
            bool(number(node, "input_forget", 0)),
        )

    def _start(self, index: int, way: int) -> Value:
        """A state before the first step: zeros where it is left out."""
        b, value = self.b, self.b.input(index)
        if value is None:
            return self._zeros
        if self.batch_first:
            value = b.transpose(value, [1, 0, 2])
        if self.ways == 1:
            return value
        return b.op("Slice", value, *(np.asarray([n]) for n in (way, way + 1, 0)))

    # -- steps -----------------------------------------------------------------------

    def _written_out(
        self, cell: _Cell, x: Value, states: list[Value], backwards: bool
    ) -> list[Value | None]:
        b, count = self.b, self.count
        assert isinstance(count, int)
        parts = b.ops("Split", count, x, axis=0, num_outputs=count) if count > 1 else [x]
        given: dict[int, Value] = {}
        for step in reversed(range(count)) if backwards else range(count):
            states, given[step] = self._step(
                b, cell, parts[step], states, np.asarray(step, np.int32)
            )
        if not self.outputs:
            return [None, *states]
        rows = [given[step] for step in range(count)]
        whole = b.op("Concat", *rows, axis=0) if count > 1 else rows[0]
        return [b.unsqueeze(whole, [1]), *states]

    def _step(
        self, b: Builder, cell: _Cell, x: Value, old: list[Value], place: Operand
    ) -> tuple[list[Value], Value]:
        """The next states: of sequences that have this step the new ones, else the old ones. And
        what the step gives, which is nothing for those."""
        new = cell.step(b, x, old)
        for one, other in zip(new, old, strict=True):
            one.shape = other.shape
        if self.lengths is None:
            return new, new[0]
        lasts = b.op("Greater", self.lengths, place)
        kept = [b.op("Where", lasts, *pair) for pair in zip(new, old, strict=True)]
        return kept, b.op("Where", lasts, new[0], b.number(0, new[0]))

    def _looped(
        self, cell: _Cell, x: Value, states: list[Value], backwards: bool, name: str
    ) -> list[Value | None]:
        """A Loop: what goes from the last step to the first is turned around behind, and before,
        unless the number of each step is needed anyway."""
        b, size = self.b, self.count
        if backwards and self.lengths is None:
            x = turned(b, x, 0)
        place, going, same = round_of(name)
        old = [
            Value(name=f"{name}/state_{i}", type=state.type, shape=state.shape)
            for i, state in enumerate(states)
        ]
        body = onnx_ir.Graph([place, going, *old], [], nodes=[same], name=f"{name}/step")
        inside = Builder(same, b.opset)
        at = place
        if self.lengths is not None:
            at = inside.cast(place, DataType.INT32)
            at = inside.op("Sub", self._last, at) if backwards else at
            at.meta[ROUND] = True
        element: Value = inside.op("Gather", x, at, axis=0)
        new, given = self._step(inside, cell, element, old, at)
        body.outputs.extend([same.outputs[0], *new])
        if self.outputs:
            body.outputs.append(inside.op("Identity", given))
        starts, count = [self._rounds(), None, *states], len(body.outputs) - 1
        loop = onnx_ir.node("Loop", starts, {"body": body}, num_outputs=count, name=f"{name}/loop")
        loop.meta[RUN] = True
        made = list(b.add(loop))
        steps = size.name if isinstance(size, Free) else size
        shapes = [s.shape for s in states] + [onnx_ir.Shape([steps, *(states[0].shape or ())])]
        for i, (value, shape) in enumerate(zip(made, shapes, strict=False)):
            value.name, value.type, value.shape = f"{name}/end_{i}", states[0].type, shape
        if not self.outputs:
            return [None, *made]
        *ends, whole = made
        return [turned(b, whole, 0) if backwards else whole, *ends]


# -- one step ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cell:
    """One direction's formulas.

    Attributes:
        kind: RNN, GRU or LSTM.
        weights: Of the state: [hidden, gates * hidden]; those of GRU's last gate apart, where the
            reset gate is in front of them.
        bias: What GRU adds before it multiplies with the reset gate: [3 * hidden].
        peepholes: Of LSTM's cell on its gates, in the order i, o, f: [hidden] each.
        activations: f, g, h.
        clip: The largest number that goes into an activation.
        coupled: Whether LSTM's forget gate is 1 - its input gate.
    """

    kind: str
    weights: Sequence[Operand]
    bias: Operand
    peepholes: Sequence[Operand]
    activations: Sequence[Activation]
    clip: float | None
    coupled: bool

    @property
    def is_lstm(self) -> bool:
        return self.kind == "LSTM"

    def step(self, b: Builder, x: Value, states: Sequence[Value]) -> list[Value]:
        """The next states.

        Args:
            b: Where nodes go.
            x: What the step's input adds to all gates, with biases: [..., batch, gates * hidden].
            states: The hidden state, and LSTM's cell: [1, batch, hidden].
        """
        if self.kind == "GRU":
            return [self._gru(b, x, states[0])]
        whole = b.op("Add", x, _linear(b, states[0], self.weights[0], None))
        return self._lstm(b, whole, states[1]) if self.is_lstm else [self._gate(b, 0, whole)]

    def _gate(self, b: Builder, which: int, x: Value) -> Value:
        """An activation of what is clipped."""
        if self.clip is not None:
            x = b.op("Clip", x, b.number(-self.clip, x), b.number(self.clip, x))
        return _activated(b, self.activations[which], x)

    def _lstm(self, b: Builder, whole: Value, before: Value) -> list[Value]:
        i, o, f, g = b.ops("Split", 4, whole, axis=-1, num_outputs=4)
        if self.peepholes:
            i = b.op("Add", i, b.op("Mul", before, self.peepholes[0]))
            f = b.op("Add", f, b.op("Mul", before, self.peepholes[2]))
        i, g = self._gate(b, 0, i), self._gate(b, 1, g)
        f = b.op("Sub", b.number(1, i), i) if self.coupled else self._gate(b, 0, f)
        after = b.op("Add", b.op("Mul", f, before), b.op("Mul", i, g))
        if self.peepholes:
            o = b.op("Add", o, b.op("Mul", after, self.peepholes[1]))
        return [b.op("Mul", self._gate(b, 0, o), _activated(b, self.activations[2], after)), after]

    def _gru(self, b: Builder, x: Value, before: Value) -> Value:
        count = 4 - len(self.weights)
        z, r, n = b.ops("Split", 3, x, axis=-1, num_outputs=3)
        first = _linear(b, before, self.weights[0], self.bias)
        hz, hr, *hn = b.ops("Split", count, first, axis=-1, num_outputs=count)
        z, r = (self._gate(b, 0, b.op("Add", *pair)) for pair in ((z, hz), (r, hr)))
        if hn:
            hidden = b.op("Mul", r, hn[0])
        else:
            hidden = _linear(b, b.op("Mul", r, before), self.weights[1], None)
        n = self._gate(b, 1, b.op("Add", n, hidden))
        return b.op("Add", b.op("Mul", b.op("Sub", b.number(1, z), z), n), b.op("Mul", z, before))


def _activated(b: Builder, activation: Activation, x: Value) -> Value:
    kind, settings = activation
    if kind == "Affine":
        scaled = b.op("Mul", x, b.number(settings["alpha"], x))
        return b.op("Add", scaled, b.number(settings["beta"], x))
    if kind == "ScaledTanh":
        bent = b.op("Tanh", b.op("Mul", x, b.number(settings["beta"], x)))
        return b.op("Mul", bent, b.number(settings["alpha"], x))
    return b.op(kind, x, **settings)


def _linear(b: Builder, x: Value, weights: Operand, bias: Operand) -> Value:
    made = b.op("MatMul", x, weights)
    return made if bias is None else b.op("Add", made, bias)


def _sum(b: Builder, one: Operand, other: Operand) -> Operand:
    """The sum of two biases: a constant where both are."""
    parts = [None if isinstance(each, np.ndarray) else b.constant(each) for each in (one, other)]
    known = [part for part in parts if part is not None]
    return known[0] + known[1] if len(known) == 2 else b.op("Add", one, other)


REWRITES = dict.fromkeys(sorted(RECURRENT), recurrent)
