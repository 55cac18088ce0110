"""RNN, GRU and LSTM: MIL's own ``rnn`` and ``lstm``, or their steps.

MIL's operations are taken where their pages say that they do what ONNX's do: those of plain
activations and constant weights, without clips, peepholes or lengths of sequences. Its ``gru``
adds the reset gate's bias elsewhere than ONNX's, so GRU is always written out. What order a
``reverse`` direction gives its steps in isn't said: the steps are reversed before and behind.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.graph.attributes import number
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.recurrent_cells import PLAIN
from emitters.coreml.ops.recurrent_parts import (
    Made,
    Steps,
    biases,
    hidden_size,
    start_states,
    total,
)
from emitters.coreml.ops.recurrent_steps import step_by_step
from emitters.coreml.ops.recurrent_weights import is_fixed, weight
from emitters.coreml.registry import lowers
from emitters.lowering.plans.recurrent import (
    activations_of,
    clip_of,
    directions_of,
    has_peepholes,
    is_used,
)
from emitters.lowering.refused import Refused

HALVES = 17
"""The system from which on MIL's recurrent operations take float16."""


@lowers("RNN", "GRU", "LSTM")
def recurrent(context: Context, node: onnx_ir.Node) -> None:
    """Each direction for itself. A sequence that ended keeps its states, and gives zeros."""
    steps = _steps(context, node)
    whole: list[Var] = []
    ends: list[list[Var]] = []
    for made, last in _directions(context, steps):
        ends.append(last)
        if made is not None:
            swapped = context.op("transpose", x=made, perm=[1, 0, 2]) if steps.swapped else made
            whole.append(swapped)
    if whole:
        axis = 2 if steps.swapped else 1
        context.give(node.outputs[0], context.op("stack", values=whole, axis=axis))
    for place in (1, 2):
        if is_used(node, place):
            states = [last[place - 1] for last in ends]
            made = context.op("stack", values=states, axis=int(steps.swapped))
            context.give(node.outputs[place], made)


def _directions(context: Context, steps: Steps) -> list[Made]:
    """What each direction gives."""
    places = range(len(steps.directions))
    starts = [start_states(context, steps, place) for place in places]
    plain = [_is_plain(context, steps, place) for place in places]
    same = len({tuple(_kinds(steps.node, place)) for place in places}) == 1
    if steps.node.op_type == "LSTM" and len(places) == 2 and all(plain) and same:
        return _both(context, steps, starts)
    return [
        (_native if plain[place] else step_by_step)(context, steps, place, starts[place])
        for place in places
    ]


def _steps(context: Context, node: onnx_ir.Node) -> Steps:
    swapped = number(node, "layout", 0) == 1
    x = context.var(node.inputs[0])
    if len(x.shape) != 3:
        raise Refused(
            f"its input has {len(x.shape)} axes, not 3: it couldn't run with these sizes",
            "other sizes (--input), or cut the model so that it isn't there",
        )
    if swapped:
        x = context.op("transpose", x=x, perm=[1, 0, 2])
    lengths = context.optional(node, 4)
    known = context.array(node.inputs[4]) if lengths is not None else None
    if known is not None and (known == x.shape[0]).all():
        lengths = None
    return Steps(node, x, swapped, lengths, is_used(node, 0), directions_of(node))


def _kinds(node: onnx_ir.Node, place: int) -> list[str]:
    """The activations of a direction."""
    return [activation.kind for activation in activations_of(node)[place]]


def _is_plain(context: Context, steps: Steps, place: int) -> bool:
    """Whether MIL's operation does what the node does."""
    node = steps.node
    if node.op_type == "GRU" or steps.lengths is not None or clip_of(node) is not None:
        return False
    if has_peepholes(node) or number(node, "input_forget", 0):
        return False
    if context.type_of(steps.x) == "fp16" and context.target < HALVES:
        return False
    weights = [value for value in node.inputs[1:4] if value is not None]
    fixed = all(is_fixed(context, value) for value in weights)
    return fixed and all(name in PLAIN for name in _kinds(steps.node, place))


def _native(context: Context, steps: Steps, place: int, start: list[Var]) -> Made:
    """``rnn`` or ``lstm`` of one direction."""
    backwards = steps.directions[place]
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


def _both(context: Context, steps: Steps, starts: list[list[Var]]) -> list[Made]:
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


def _weights(context: Context, steps: Steps, place: int) -> dict[str, Var]:
    """MIL's gates are in the order i, f, o, z; ONNX's are i, o, f, z. There is one bias."""
    node = steps.node
    order = [0, 2, 1, 3] if node.op_type == "LSTM" else [0]
    hidden = hidden_size(context, node)

    rows = np.arange(len(order) * hidden).reshape(len(order), hidden)[order].ravel()
    pairs = zip(("weight_ih", "weight_hh"), node.inputs[1:3], strict=True)
    found = {name: weight(context, value, place, rows) for name, value in pairs if value}
    bias = total(context, *biases(context, steps, place))
    return found if bias is None else {**found, "bias": context.const(bias.val[rows])}


def _activations(steps: Steps, place: int) -> dict[str, str]:
    names = [PLAIN[name] for name in _kinds(steps.node, place)]
    if steps.node.op_type == "RNN":
        return {"activation": names[0]}
    return {
        "recurrent_activation": names[0],
        "cell_activation": names[1],
        "activation": names[2],
    }
