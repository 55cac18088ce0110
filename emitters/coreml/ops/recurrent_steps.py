"""RNN, GRU and LSTM step by step: written out one after the other, or in a loop."""

from __future__ import annotations

import numpy as np

from emitters.coreml.blocks import while_loop
from emitters.coreml.context import Context, Var, free
from emitters.coreml.ops.recurrent_cells import Operations, times
from emitters.coreml.ops.recurrent_parts import (
    Made,
    Steps,
    biases,
    hidden_size,
    part,
    rows,
    total,
    zeros,
)
from emitters.coreml.ops.recurrent_weights import weight
from emitters.coreml.sizing import integer, size
from emitters.lowering.plans.recurrent import GATES, Cell, cell_of, has_peepholes, resets_behind

UNROLLED = 4
"""Most steps that are written out one by one."""


def step_by_step(context: Context, steps: Steps, place: int, start: list[Var]) -> Made:
    """The input's part of all steps at once, then each step: up to :data:`UNROLLED` are written
    out; more, or a free number, are a loop."""
    cell, bias = _cell(context, steps, place)
    added = times(context, steps.x, _weights(context, steps, 1, place), bias)
    count = steps.x.shape[0]
    if not free(count) and count <= UNROLLED:
        return _unrolled(context, cell, steps, place, added, start)
    return _looped(context, cell, steps, place, added, start)


def _cell(context: Context, steps: Steps, place: int) -> tuple[Cell[Var], Var | None]:
    """One direction's formulas, and the bias that goes to the inputs."""
    node = steps.node
    weights = _weights(context, steps, 2, place)
    bias, separate = biases(context, steps, place)
    if not resets_behind(node):
        bias, separate = total(context, bias, separate), None
    peepholes = part(context, node.inputs[7], place) if has_peepholes(node) else None

    def taken(x: Var, begin: int, count: int) -> Var:
        if x is weights:
            return _weights(context, steps, 2, place, range(begin, begin + count))
        return rows(context, x, begin, count)

    hidden = hidden_size(context, node)
    return cell_of(node, place, hidden, weights, separate, peepholes, taken), bias


def _weights(
    context: Context, steps: Steps, index: int, place: int, which: range | None = None
) -> Var:
    """One direction's weights, or some of their rows."""
    value = steps.node.inputs[index]
    assert value is not None
    count = GATES[steps.node.op_type] * hidden_size(context, steps.node)
    made = weight(context, value, place, which or range(count))
    if made is not None:
        return made
    x = part(context, value, place)
    return x if which is None else rows(context, x, which.start, len(which))


def _unrolled(
    context: Context, cell: Cell[Var], steps: Steps, place: int, added: Var, states: list[Var]
) -> Made:
    count, backwards = int(added.shape[0]), steps.directions[place]
    parts = context.op("split", x=added, num_splits=count, axis=0) if count > 1 else (added,)
    given: dict[int, Var] = {}
    for step in reversed(range(count)) if backwards else range(count):
        x = context.op("squeeze", x=parts[step], axes=[0])
        new = cell.step(Operations(context), x, states)
        states, given[step] = _while_it_lasts(context, steps, np.int32(step), new, states)
    if not steps.outputs:
        return None, states
    return context.op("stack", values=[given[step] for step in range(count)], axis=0), states


def _while_it_lasts(
    context: Context, steps: Steps, step: Var, new: list[Var], old: list[Var]
) -> tuple[list[Var], Var]:
    """The new states of sequences that have this step, the old ones of others; and what the step
    gives, which is nothing for those."""
    if steps.lengths is None:
        return new, new[0]
    lasts = context.op("greater", x=steps.lengths, y=step)
    column = context.op("expand_dims", x=lasts, axes=[1])
    states = [
        context.op("select", cond=column, a=one, b=other)
        for one, other in zip(new, old, strict=True)
    ]
    none = context.number(0.0, old[0])
    return states, context.op("select", cond=column, a=new[0], b=none)


def _looped(
    context: Context, cell: Cell[Var], steps: Steps, place: int, added: Var, start: list[Var]
) -> Made:
    """A loop whose states are the step's number, those of the cell, and all hidden states."""
    length = size(context, added, 0)
    known = isinstance(length, int)
    count = integer(context, length) if known else context.op("squeeze", x=length, axes=[0])
    last = context.op("sub", x=count, y=integer(context, 1))
    states = [integer(context, 0), *start]
    if steps.outputs:
        states.append(zeros(context, steps.x, [length, size(context, added, 1), cell.hidden]))

    def more(now: list[Var]) -> Var:
        return context.op("less", x=now[0], y=count)

    def step(now: list[Var]) -> list[Var]:
        done, before = now[0], now[1 : 1 + len(start)]
        at = context.op("sub", x=last, y=done) if steps.directions[place] else done
        x = context.op("gather", x=added, indices=at, axis=0)
        after, given = _while_it_lasts(
            context, steps, at, cell.step(Operations(context), x, before), before
        )
        made = [context.op("add", x=done, y=integer(context, 1)), *after]
        if steps.outputs:
            row = context.op("expand_dims", x=given, axes=[0])
            index = context.op("expand_dims", x=at, axes=[0])
            made.append(_put(context, now[-1], index, row))
        return made

    ends = while_loop(context, states, more, step)
    return ends[-1] if steps.outputs else None, ends[1 : 1 + len(start)]


def _put(context: Context, whole: Var, index: Var, row: Var) -> Var:
    """``whole`` with a row at an index of its first axis."""
    return context.op("scatter", data=whole, indices=index, updates=row, axis=0, mode="update")
