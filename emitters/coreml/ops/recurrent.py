"""RNN and LSTM as MIL's own ``rnn`` and ``lstm``, where their pages say that they do the same.

Those are the ones of plain activations and constant weights, without clips, peepholes or lengths of
sequences. MIL's ``gru`` adds the reset gate's bias elsewhere than ONNX's. What order a ``reverse``
direction gives its steps in isn't said: the steps are reversed before and behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.edit import constant_tensor, is_used
from converter.ir.real import real_numbers
from converter.ir.recurrent import (
    Activation,
    activations_of,
    clip_of,
    directions_of,
    has_peepholes,
    hidden_size,
)
from converter.ir.refused import Refused
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.recurrent_weights import is_fixed, weight
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, DataType

HALVES = 17
"""The system from which on MIL's recurrent operations take float16."""

PLAIN = frozenset({"Relu", "Sigmoid", "Tanh"})
"""Activations that MIL's recurrent operations take, by the same names in small letters."""

Made = tuple[Var | None, list[Var]]
"""The states of all steps, [steps, batch, hidden], where they are used; and the last states."""


def is_plain(node: onnx_ir.Node, target: int) -> bool:
    """Whether MIL's operations do what a node does."""
    x = node.inputs[0]
    if node.op_type == "GRU" or x is None or x.shape is None or len(x.shape) != 3:
        return False
    if clip_of(node) is not None or has_peepholes(node) or number(node, "input_forget", 0):
        return False
    if x.dtype == DataType.FLOAT16 and target < HALVES:
        return False
    lengths = constant_tensor(node.inputs[4]) if len(node.inputs) > 4 else None
    some = len(node.inputs) > 4 and node.inputs[4] is not None
    if some and (lengths is None or (lengths.numpy() != x.shape[0]).any()):
        return False
    if not all(is_fixed(value) for value in node.inputs[1:4] if value is not None):
        return False
    try:
        return all(kind in PLAIN for way in activations_of(node) for kind, _ in way)
    except Refused:
        return False


@dataclass(frozen=True)
class _Steps:
    """What all directions of a node work on.

    Attributes:
        node: RNN or LSTM.
        x: [steps, batch, elements].
        swapped: Whether the batch is the first axis of inputs and outputs.
        outputs: Whether the states of all steps are used.
        activations: Of each direction.
    """

    node: onnx_ir.Node
    x: Var
    swapped: bool
    outputs: bool
    activations: Sequence[Sequence[Activation]]


@lowers("RNN", "LSTM", legal=is_plain)
def recurrent(context: Context, node: onnx_ir.Node) -> None:
    """Each direction for itself; LSTM's both at once, where they are alike."""
    if not is_plain(node, context.target):
        raise Refused(f"an {node.op_type} whose input has an unknown number of axes")
    swapped = number(node, "layout", 0) == 1
    x = context.var(node.inputs[0])
    if swapped:
        x = context.op("transpose", x=x, perm=[1, 0, 2])
    ways = directions_of(node)
    steps = _Steps(node, x, swapped, is_used(node, 0), activations_of(node))
    starts = [_start_states(context, steps, place) for place in range(len(ways))]
    if node.op_type == "LSTM" and len(ways) == 2 and steps.activations[0] == steps.activations[1]:
        made = _both(context, steps, starts)
    else:
        made = [_one(context, steps, place, start) for place, start in enumerate(starts)]
    _give(context, steps, made)


def _give(context: Context, steps: _Steps, made: Sequence[Made]) -> None:
    node, swapped = steps.node, steps.swapped
    whole = [var for var, _ in made if var is not None]
    if whole:
        if swapped:
            whole = [context.op("transpose", x=var, perm=[1, 0, 2]) for var in whole]
        context.give(node.outputs[0], context.op("stack", values=whole, axis=1 + swapped))
    for place in (1, 2):
        if is_used(node, place):
            states = [last[place - 1] for _, last in made]
            context.give(node.outputs[place], context.op("stack", values=states, axis=int(swapped)))


def _start_states(context: Context, steps: _Steps, place: int) -> list[Var]:
    """The states before the first step: [batch, hidden] each, zeros where they are left out."""
    node, axis = steps.node, int(steps.swapped)
    found = []
    for index in (5, 6) if node.op_type == "LSTM" else (5,):
        x = context.optional(node, index)
        if x is None:
            kind, dims = context.type_of(steps.x), [sizing.size(context, steps.x, 1)]
            found.append(sizing.filled(context, 0, [*dims, hidden_size(node)], kind))
            continue
        parts = [x] if x.shape[axis] == 1 else context.op("split", x=x, num_splits=2, axis=axis)
        found.append(context.op("squeeze", x=parts[place], axes=[axis]))
    return found


def _one(context: Context, steps: _Steps, place: int, start: Sequence[Var]) -> Made:
    """``rnn`` or ``lstm`` of one direction."""
    backwards = directions_of(steps.node)[place]
    made, *last = context.op(
        steps.node.op_type.lower(),
        x=context.op("reverse", x=steps.x, axes=[0]) if backwards else steps.x,
        **dict(zip(("initial_h", "initial_c"), start, strict=False)),
        **_weights(context, steps, place),
        **_activations(steps, place),
        output_sequence=steps.outputs,
    )
    if not steps.outputs:
        return None, last
    return context.op("reverse", x=made, axes=[0]) if backwards else made, last


def _both(context: Context, steps: _Steps, starts: list[list[Var]]) -> list[Made]:
    """``lstm`` of both directions, which lie side by side along the last axis."""
    states = [context.op("concat", values=pair, axis=1) for pair in zip(*starts, strict=True)]
    back = {f"{name}_back": var for name, var in _weights(context, steps, 1).items()}
    made = context.op(
        "lstm",
        x=steps.x,
        direction="bidirectional",
        **dict(zip(("initial_h", "initial_c"), states, strict=True)),
        **_weights(context, steps, 0),
        **back,
        **_activations(steps, 0),
        output_sequence=steps.outputs,
    )
    whole, hidden, cell = (context.op("split", x=var, num_splits=2, axis=-1) for var in made)
    pairs = zip(whole, hidden, cell, strict=True)
    return [(y if steps.outputs else None, [h, c]) for y, h, c in pairs]


def _weights(context: Context, steps: _Steps, place: int) -> dict[str, Var]:
    """MIL's gates are in the order i, f, o, z; ONNX's are i, o, f, z. There is one bias."""
    node = steps.node
    order = [0, 2, 1, 3] if node.op_type == "LSTM" else [0]
    rows = np.arange(len(order) * hidden_size(node)).reshape(len(order), -1)[order].ravel()
    pairs = zip(("weight_ih", "weight_hh"), node.inputs[1:3], strict=True)
    found = {name: weight(context, value, place, rows) for name, value in pairs if value}
    both = real_numbers(node.inputs[3]) if len(node.inputs) > 3 else None
    if both is None:
        return found
    bias = both[place].reshape(2, -1).sum(axis=0, dtype=both.dtype)[rows]
    return {**found, "bias": context.const(bias.astype(NUMPY[context.type_of(steps.x)]))}


def _activations(steps: _Steps, place: int) -> dict[str, str]:
    names = [kind.lower() for kind, _ in steps.activations[place]]
    if steps.node.op_type == "RNN":
        return {"activation": names[0]}
    return {
        "recurrent_activation": names[0],
        "cell_activation": names[1],
        "activation": names[2],
    }
