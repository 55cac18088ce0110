"""If and Loop: TFLite's IF and WHILE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.never_negative import ROUND, RUN
from converter.ir.refused import Refused
from emitters.lowering.plans.control import (
    always_goes_on,
    is_narrow,
    most_rounds,
    need_same_rank,
    need_tensors,
    start_condition,
)
from emitters.tflite import build
from emitters.tflite.context import Context, shape_of, strided
from emitters.tflite.graph import DataType, Shape, Tensor
from emitters.tflite.registry import lowers
from emitters.tflite.subgraphs import Body, branches, loop

_TENSORS = "TFLite only has tensors, no sequences and optionals"


@lowers("If")
def if_(context: Context, node: onnx_ir.Node) -> None:
    """IF. LiteRT prepares both graphs for the sizes that come in, whichever it runs."""
    then, otherwise = (node.attributes[f"{name}_branch"].as_graph() for name in ("then", "else"))
    need_tensors(node.outputs, _TENSORS)
    pairs = zip(then.outputs, otherwise.outputs, strict=True)
    specs = [
        (_either(context, output, pair), context.dtype(pair[0]))
        for output, pair in zip(node.outputs, pairs, strict=True)
    ]
    made = branches(context, context.tensor(node.inputs[0]), then, otherwise, specs)
    for output, tensor in zip(node.outputs, made, strict=True):
        context.give(output, tensor)


def _either(
    context: Context, output: onnx_ir.Value, pair: tuple[onnx_ir.Value, onnx_ir.Value]
) -> Shape:
    """What is true of an output's shape in both graphs."""
    if output.shape is not None:
        return shape_of(output)
    one, other = (context.shape(value) for value in pair)
    need_same_rank(output.name, one, other)
    return tuple(
        a if a == b and (isinstance(a, int) or context.knows(a)) else f"{output.name}?{axis}"
        for axis, (a, b) in enumerate(zip(one, other, strict=True))
    )


# -- loops -------------------------------------------------------------------------------


@dataclass
class _Round:
    """What one round of a loop gives.

    Attributes:
        states: The next, in order.
        scanned: One element for each tensor that is put together over all rounds.
        goes_on: bool of no axes; None where the loop never ends of itself.
    """

    states: list[Tensor]
    scanned: list[Tensor]
    goes_on: Tensor | None


@lowers("Loop")
def loop_(context: Context, node: onnx_ir.Node) -> None:
    """WHILE over the round's number (int32, unless the limit may be larger), the condition where
    there is one, the states, and the tensors that the scan outputs are put together in: by
    DYNAMIC_UPDATE_SLICE where at most so many rounds are known to come, by CONCATENATION
    otherwise."""
    graph = node.attributes["body"].as_graph()
    need_tensors([*node.inputs, *node.outputs, *graph.inputs], _TENSORS)
    limit = _limit(context, node)
    held = len(node.inputs) - 2
    scans = list(graph.outputs)[1 + held :]
    ends, first = not always_goes_on(graph), start_condition(node)
    condition = None if first is None else build.reshape(context, context.tensor(first), ())
    if limit is None and not ends and condition is None:
        raise Refused("a Loop without an end")
    starts = [context.tensor(value) for value in node.inputs[2:]]
    kept = [context.shape(value) for value in graph.inputs[2:]]
    if limit is not None and limit.data is not None and not limit.data:
        _nothing_run(context, node, starts, scans)
        return
    grows = limit is None or (ends and limit.data is None)
    size = shape_of(node.outputs[held])[0] if scans and RUN in node.meta else None
    size = size if isinstance(size, str) and context.knows(size) else None  # never 0
    room = None if grows else size or limit
    stacks = [_stack(context, value, room) for value in scans]
    true = context.constant(np.asarray(True))
    going = [condition or true] if ends or condition is not None else []
    own = 1 + len(going)
    kind = DataType.INT32 if limit is None else limit.dtype
    states = [context.constant(np.asarray(0, kind.numpy())), *going, *starts, *stacks]
    shapes: list[Shape] = [*[()] * own, *kept, *(stack.shape for stack in stacks)]
    graph.inputs[0].meta[ROUND] = True

    def more(body: Body, now: list[Tensor]) -> Tensor:
        if limit is None:
            return now[1]
        below = build.binary(body, "LESS", now[0], body.capture(limit), DataType.BOOL)
        return body.emit("LOGICAL_AND", [now[1], below], ()) if going else below

    def step(body: Body, now: list[Tensor]) -> list[Tensor]:
        number, goes_on = now[0], now[1] if going else true
        for value, tensor in zip(graph.inputs, (number, goes_on), strict=False):
            shape = shape_of(value) if value.shape is not None else ()
            wide = build.cast(body, tensor, context.dtype(value))
            body.give(value, build.reshape(body, wide, shape))
        for value, tensor in zip(graph.inputs[2:], now[own:], strict=False):
            body.give(value, tensor)
        body.lower(graph)
        after, *made = (body.tensor(value) for value in graph.outputs)
        flags = [build.reshape(body, after, ()) if ends else goes_on] if going else []
        stacked = _stacked(body, now[own + held :], made[held:], number, grows)
        one = build.scalar(body, 1, number)
        return [build.binary(body, "ADD", number, one), *flags, *made[:held], *stacked]

    results = loop(context, states, more, step, shapes)
    for place, (output, tensor) in enumerate(zip(node.outputs, results[own:], strict=True)):
        rounds = shape_of(output)[0] if place >= held and output.shape else f"{output.name}?0"
        if place >= held and grows:
            tensor = _cut(context, tensor, 1, None, rounds)
        elif place >= held and size is None and (ends or limit is None or limit.data is None):
            tensor = _cut(context, tensor, 0, results[0], rounds)
        context.give(output, tensor)


def _nothing_run(
    context: Context, node: onnx_ir.Node, starts: list[Tensor], scans: list[onnx_ir.Value]
) -> None:
    """What a loop of no rounds gives: its states as they start, and no elements."""
    for output, tensor in zip(node.outputs, starts, strict=False):
        context.give(output, tensor)
    for output, element in zip(node.outputs[len(starts) :], scans, strict=True):
        zero = context.constant(np.zeros((), context.dtype(element).numpy()))
        shape = (0, *context.shape(element))
        context.give(output, context.emit("FILL", [context.sizes(shape), zero], shape, zero.dtype))


def _limit(context: Context, node: onnx_ir.Node) -> Tensor | None:
    """The most rounds, of no axes: int32, or int64 where it may be larger."""
    most = most_rounds(node)
    if most is None:
        return None
    if isinstance(most, int):
        return context.constant(np.asarray(most, np.int32))
    limit = context.tensor(most)
    limit = build.cast(context, limit, DataType.INT32) if is_narrow(most) else limit
    return build.reshape(context, limit, ())


def _stack(context: Context, element: onnx_ir.Value, rounds: Tensor | str | None) -> Tensor:
    """What a scan output is put together in: room for all rounds, or for a size that is never 0; or
    a row that is dropped at the end, since a WHILE that starts with no elements may fail, as does
    DYNAMIC_UPDATE_SLICE, which LiteRT prepares even where no round is run."""
    shape = context.shape(element)
    for dim in shape:
        if isinstance(dim, str) and not context.knows(dim):
            raise Refused(f"the size of {element.name!r} isn't known before the loop")
    zero = context.constant(np.zeros((), context.dtype(element).numpy()))
    if isinstance(rounds, str):
        dims = (rounds, *shape)
        return context.emit("FILL", [context.sizes(dims), zero], dims, zero.dtype)
    if rounds is None or rounds.data is not None:
        start = 1 if rounds is None or rounds.data is None else int(rounds.data)
        dim = f"{element.name}?rounds" if rounds is None else start
        sizes = context.sizes((start, *shape))
        return context.emit("FILL", [sizes, zero], (dim, *shape), zero.dtype)
    count = build.reshape(context, build.cast(context, rounds, DataType.INT32), (1,))
    sizes = build.binary(context, "MAXIMUM", count, context.integers([1]))
    if shape:
        sizes = context.joined([sizes, context.sizes(shape)])
    whole = (f"{element.name}?rounds", *shape)
    return context.emit("FILL", [sizes, zero], whole, zero.dtype)


def _stacked(
    body: Body, stacks: Sequence[Tensor], elements: Sequence[Tensor], place: Tensor, grows: bool
) -> list[Tensor]:
    """The stacks with one more element each."""
    made = []
    at = build.reshape(body, build.cast(body, place, DataType.INT32), (1,))
    for stack, element in zip(stacks, elements, strict=True):
        row = build.reshape(body, element, (1, *stack.shape[1:]))
        if grows:
            made.append(body.joined([stack, row], 0, stack.shape))
            continue
        start = at
        if stack.rank > 1:
            rest = body.integers([0] * (stack.rank - 1))
            start = body.joined([at, rest])
        made.append(body.emit("DYNAMIC_UPDATE_SLICE", [stack, row, start], stack.shape))
    return made


def _cut(context: Context, x: Tensor, first: int, count: Tensor | None, size: int | str) -> Tensor:
    """The first axis from ``first`` on, up to ``count`` where there is one."""
    zeros = [0] * (x.rank - 1)
    end = context.integers([0, *zeros])
    if count is not None:
        end = build.reshape(context, build.cast(context, count, DataType.INT32), (1,))
        if zeros:
            end = context.joined([end, context.integers(zeros)])
    limits = [context.integers([first, *zeros]), end, context.integers([1] * x.rank)]
    whole = (1 << x.rank) - 1
    options = strided(whole - 1, whole - (count is not None))
    return context.emit("STRIDED_SLICE", [x, *limits], (size, *x.shape[1:]), options=options)
