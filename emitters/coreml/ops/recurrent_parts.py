"""What a recurrent node has for each of its directions: weights, biases, states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir

from emitters.coreml.context import Context, Var
from emitters.coreml.ops.recurrent_weights import known
from emitters.coreml.sizing import Size, size, vector
from emitters.coreml.types import NUMPY
from emitters.lowering.plans import recurrent
from emitters.lowering.plans.recurrent import GATES

Made = tuple[Var | None, list[Var]]
"""The states of all steps, [steps, batch, hidden], where they are used; and the last states."""


@dataclass(frozen=True)
class Steps:
    """What all directions of a node work on.

    Attributes:
        node: RNN, GRU or LSTM.
        x: [steps, batch, elements].
        swapped: Whether the batch is the first axis of inputs and outputs.
        lengths: Steps of each sequence, int32 [batch]; None where all have all.
        outputs: Whether the states of all steps are used.
        directions: Of each, whether it goes from the last step to the first.
    """

    node: onnx_ir.Node
    x: Var
    swapped: bool
    lengths: Var | None
    outputs: bool
    directions: Sequence[bool]


def part(context: Context, value: onnx_ir.Value | None, place: int, axis: int = 0) -> Var:
    """One direction's part of an input, without the axis of directions."""
    array = known(context, value)
    if array is not None:
        return context.const(np.ascontiguousarray(array.take(place, axis)))
    x = context.var(value)
    if x.shape[axis] != 1:
        begin, end = [0] * len(x.shape), [0] * len(x.shape)
        begin[axis], end[axis] = place, place + 1
        mask = [each != axis for each in range(len(x.shape))]
        inputs = {"begin": begin, "end": end, "begin_mask": mask, "end_mask": mask}
        x = context.op("slice_by_index", x=x, **inputs)
    return context.op("squeeze", x=x, axes=[axis])


def rows(context: Context, x: Var, begin: int, count: int) -> Var:
    """Rows of weights, or elements of a bias."""
    if x.val is not None:
        return context.const(np.ascontiguousarray(x.val[begin : begin + count]))
    size = [count, *([-1] * (len(x.shape) - 1))]
    return context.op("slice_by_size", x=x, begin=[begin, *[0] * (len(size) - 1)], size=size)


def start_states(context: Context, steps: Steps, place: int) -> list[Var]:
    """The states before the first step: [batch, hidden] each, zeros where they are left out."""
    node, found = steps.node, []
    for index in (5, 6) if node.op_type == "LSTM" else (5,):
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is not None:
            found.append(part(context, value, place, int(steps.swapped)))
        else:
            found.append(
                zeros(context, steps.x, [size(context, steps.x, 1), hidden_size(context, node)])
            )
    return found


def zeros(context: Context, like: Var, dims: list[Size]) -> Var:
    """Zeros of a variable's type."""
    shape = vector(context, dims)
    if isinstance(shape, list):
        return context.const(np.zeros(shape, NUMPY[context.type_of(like)]))
    return context.op("fill", shape=shape, value=NUMPY[context.type_of(like)](0))


def hidden_size(context: Context, node: onnx_ir.Node) -> int:
    """Elements of a hidden state."""
    return recurrent.hidden_size(node, context.shape(node.inputs[2]))


def biases(context: Context, steps: Steps, place: int) -> tuple[Var | None, Var | None]:
    """Of the inputs, and of the state."""
    node = steps.node
    if len(node.inputs) < 4 or node.inputs[3] is None:
        return None, None
    count = GATES[node.op_type] * hidden_size(context, node)
    both = part(context, node.inputs[3], place)
    return rows(context, both, 0, count), rows(context, both, count, count)


def total(context: Context, a: Var | None, b: Var | None) -> Var | None:
    """The sum of what is there."""
    if a is None or b is None:
        return a
    if a.val is not None and b.val is not None:
        return context.const(a.val + b.val)
    return context.op("add", x=a, y=b)
