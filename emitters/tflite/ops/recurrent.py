"""RNN, GRU and LSTM: steps one after the other, or a WHILE over them.

TFLite's own UNIDIRECTIONAL_SEQUENCE_LSTM keeps its states from one run to the next, starts them at
zero, and doesn't give the last cell: none of which is ONNX's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx_ir

from converter.graph.attributes import number as integer
from emitters.lowering.plans.recurrent import (
    GATES,
    Cell,
    cell_of,
    directions_of,
    has_peepholes,
    hidden_size,
    is_used,
    resets_behind,
)
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Shape, Tensor, known
from emitters.tflite.ops.recurrent_cells import Operators, linear, part_of
from emitters.tflite.registry import lowers
from emitters.tflite.subgraphs import Body, loop

UNROLLED = 4
"""Most steps that are written out one by one. A loop is as fast from 16 steps on, and more than
twice as fast for 40 of 128 elements: XNNPACK packs the weights of each step that is written out
again, where a loop has them once."""


@dataclass(frozen=True)
class Steps:
    """What all directions of a node work on.

    Attributes:
        x: [steps, batch, elements].
        lengths: Steps of each sequence, int32 [batch]; None where all have all.
        outputs: Whether the states of all steps are used.
    """

    x: Tensor
    lengths: Tensor | None
    outputs: bool

    @property
    def steps(self) -> int | str:
        """How many there are."""
        return self.x.shape[0]

    @property
    def batch(self) -> int | str:
        """How many sequences."""
        return self.x.shape[1]


@lowers("RNN", "GRU", "LSTM")
def recurrent(context: Context, node: onnx_ir.Node) -> None:
    """For each direction: FULLY_CONNECTED of all inputs at once, then a step for each of them. Up
    to :data:`UNROLLED` steps are written out; more, or a free number, are a WHILE.

    A sequence that ended keeps its states, and gives zeros.
    """
    swapped = integer(node, "layout", 0) == 1
    x = context.tensor(node.inputs[0])
    if x.dtype != DataType.FLOAT:
        raise Refused(f"{node.op_type} of {x.dtype.name.lower()}")
    if swapped:
        x = build.transpose(context, x, [1, 0, 2])
    sequence = Steps(x, _lengths(context, node, x), is_used(node, 0))
    whole: list[Tensor] = []
    ends: list[list[Tensor]] = []
    for number, backwards in enumerate(directions_of(node)):
        cell, bias = _cell(context, node, number)
        weights = _direction(context, node.inputs[1], number)
        added = linear(context, x, weights, bias)
        start = _start(context, node, number, sequence, cell.hidden, swapped)
        made, last = _run(context, cell, replace(sequence, x=added), start, backwards)
        ends.append(last)
        if made is not None:
            whole.append(build.transpose(context, made, [1, 0, 2]) if swapped else made)
    if whole:
        context.give(node.outputs[0], _stacked(context, whole, 2 if swapped else 1))
    for place in (1, 2):
        if is_used(node, place):
            states = [last[place - 1] for last in ends]
            context.give(node.outputs[place], _stacked(context, states, int(swapped)))


def _stacked(context: Context, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors along a new axis."""
    shape = parts[0].shape
    return context.emit(
        "PACK",
        parts,
        (*shape[:axis], len(parts), *shape[axis:]),
        options={"axis": axis, "valuesCount": len(parts)},
    )


# -- what the node has -------------------------------------------------------------------


def _lengths(context: Context, node: onnx_ir.Node, x: Tensor) -> Tensor | None:
    """The sequences' lengths, where they aren't all of the whole."""
    lengths = context.optional(node, 4)
    if lengths is None or (lengths.data is not None and (lengths.data == x.shape[0]).all()):
        return None
    return build.cast(context, lengths, DataType.INT32)


def _direction(context: Context, value: onnx_ir.Value | None, number: int, axis: int = 0) -> Tensor:
    """One direction's part of an input."""
    part = part_of(context, context.tensor(value), axis, number, 1)
    return build.reshape(context, part, (*part.shape[:axis], *part.shape[axis + 1 :]))


def _cell(context: Context, node: onnx_ir.Node, number: int) -> tuple[Cell[Tensor], Tensor | None]:
    """One direction's formulas, and the bias that goes to the inputs."""
    recurrent = _direction(context, node.inputs[2], number)
    hidden = hidden_size(node, recurrent.shape)
    bias, separate = _biases(context, node, number, GATES[node.op_type] * hidden)
    peepholes = _direction(context, node.inputs[7], number) if has_peepholes(node) else None
    rows = partial(_rows, context)
    return cell_of(node, number, hidden, recurrent, separate, peepholes, rows), bias


def _rows(context: Context, x: Tensor, begin: int, count: int) -> Tensor:
    """Rows of weights, or elements of a bias."""
    return part_of(context, x, 0, begin, count)


def _biases(
    context: Context, node: onnx_ir.Node, number: int, rows: int
) -> tuple[Tensor | None, Tensor | None]:
    """Of the inputs, and of the state where that is separate; together they are one bias."""
    if len(node.inputs) < 4 or node.inputs[3] is None:
        return None, None
    both = _direction(context, node.inputs[3], number)
    first, second = (part_of(context, both, 0, start, rows) for start in (0, rows))
    if resets_behind(node):
        return first, second
    if first.data is not None and second.data is not None:
        return context.constant(first.data + second.data, first.name), None
    return build.binary(context, "ADD", first, second), None


def _start(
    context: Context,
    node: onnx_ir.Node,
    number: int,
    sequence: Steps,
    hidden: int,
    swapped: bool,
) -> list[Tensor]:
    """The states before the first step: [batch, hidden] each, zeros where they are left out."""
    found: list[Tensor] = []
    for place in (5, 6) if node.op_type == "LSTM" else (5,):
        value = node.inputs[place] if place < len(node.inputs) else None
        if value is not None:
            found.append(_direction(context, value, number, int(swapped)))
        else:
            found.append(_zeros(context, (sequence.batch, hidden)))
    return found


def _zeros(context: Context, shape: Shape) -> Tensor:
    """A constant for a state; for all steps a FILL, which takes no room in the file."""
    sizes = known(shape)
    if sizes is not None and len(sizes) == 2:
        return context.constant(np.zeros(sizes, np.float32))
    zero = context.constant(np.zeros((), np.float32))
    return context.emit("FILL", [context.sizes(shape), zero], shape, DataType.FLOAT)


# -- steps -------------------------------------------------------------------------------


def _run(
    context: Context, cell: Cell[Tensor], sequence: Steps, start: list[Tensor], backwards: bool
) -> tuple[Tensor | None, list[Tensor]]:
    """All states [steps, batch, hidden], where they are used, and the last ones."""
    steps = sequence.steps
    if isinstance(steps, int) and steps <= UNROLLED:
        return _written_out(context, cell, sequence, start, backwards)
    return _looped(context, cell, sequence, start, backwards)


def _written_out(
    context: Context, cell: Cell[Tensor], sequence: Steps, states: list[Tensor], backwards: bool
) -> tuple[Tensor | None, list[Tensor]]:
    x = sequence.x
    steps = x.shape[0]
    assert isinstance(steps, int)
    options = {"num": steps, "axis": 0}
    parts = context.emit_many(
        "UNPACK", [x], [(x.shape[1:], x.dtype, None)] * steps, options=options
    )
    given: list[Tensor | None] = [None] * steps
    for step in reversed(range(steps)) if backwards else range(steps):
        new = cell.step(Operators(context), parts[step], states)
        given[step] = new[0]
        if sequence.lengths is not None:
            number = context.constant(np.asarray(step, np.int32))
            states, given[step] = _while_it_lasts(context, number, sequence.lengths, new, states)
        else:
            states = new
    outputs = [tensor for tensor in given if tensor is not None]
    return _stacked(context, outputs, 0) if sequence.outputs else None, states


def _while_it_lasts(
    context: Context, step: Tensor, lengths: Tensor, new: list[Tensor], old: list[Tensor]
) -> tuple[list[Tensor], Tensor]:
    """The new states of sequences that have this step, the old ones of others; and what the step
    gives, which is nothing for those."""
    lasts = build.binary(context, "GREATER", lengths, step, DataType.BOOL)
    column = build.reshape(context, lasts, (lengths.shape[0], 1))

    def choose(one: Tensor, other: Tensor) -> Tensor:
        return context.emit("SELECT_V2", [column, one, other], one.shape, one.dtype)

    states = [choose(one, other) for one, other in zip(new, old, strict=True)]
    return states, choose(new[0], build.scalar(context, 0.0, new[0]))


def _looped(
    context: Context, cell: Cell[Tensor], sequence: Steps, start: list[Tensor], backwards: bool
) -> tuple[Tensor | None, list[Tensor]]:
    """A WHILE whose states are the step's number, those of the cell, and all hidden states."""
    steps = sequence.steps
    zero = context.constant(np.asarray(0, np.int32))
    count = (
        context.constant(np.asarray(steps, np.int32))
        if isinstance(steps, int)
        else build.reshape(context, context.size(steps), ())
    )
    states = [zero, *start]
    if sequence.outputs:
        states.append(_zeros(context, (steps, sequence.batch, cell.hidden)))

    def more(body: Body, states: list[Tensor]) -> Tensor:
        return build.binary(body, "LESS", states[0], body.capture(count), DataType.BOOL)

    def step(body: Body, states: list[Tensor]) -> list[Tensor]:
        number, before = states[0], states[1 : 1 + len(start)]
        place = number
        if backwards:
            left = build.binary(body, "SUB", body.capture(count), number)
            place = build.binary(body, "SUB", left, body.integer(1))
        xs = body.capture(sequence.x)
        options = {"axis": 0, "batchDims": 0}
        x = body.emit("GATHER", [xs, place], xs.shape[1:], options=options)
        new = _inside(body, cell).step(Operators(body), x, before)
        given = new[0]
        if sequence.lengths is not None:
            lengths = body.capture(sequence.lengths)
            new, given = _while_it_lasts(body, place, lengths, new, before)
        after = [build.binary(body, "ADD", number, body.integer(1)), *new]
        if sequence.outputs:
            after.append(_written(body, states[-1], given, place))
        return after

    ends = loop(context, states, more, step)
    return ends[-1] if sequence.outputs else None, ends[1 : 1 + len(start)]


def _inside(body: Body, cell: Cell[Tensor]) -> Cell[Tensor]:
    """The cell with its weights as the body has them."""
    bias = cell.recurrent_bias
    return replace(
        cell,
        recurrent=[body.capture(tensor) for tensor in cell.recurrent],
        recurrent_bias=body.capture(bias) if bias is not None else None,
        peepholes=[body.capture(tensor) for tensor in cell.peepholes],
    )


def _written(body: Body, whole: Tensor, state: Tensor, place: Tensor) -> Tensor:
    """``whole`` [steps, batch, hidden] with a state at its place."""
    one = build.reshape(body, state, (1, *state.shape))
    place = build.reshape(body, place, (1,))
    zeros = body.integers([0, 0])
    options = {"axis": 0, "fusedActivationFunction": 0}
    start = body.emit("CONCATENATION", [place, zeros], (3,), options=options)
    return body.emit("DYNAMIC_UPDATE_SLICE", [whole, one, start], whole.shape)
