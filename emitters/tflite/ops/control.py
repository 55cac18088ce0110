"""If, Loop and Scan: TFLite's IF and WHILE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir

from converter.graph.attributes import ints
from emitters.lowering.plans.control import (
    always_goes_on,
    most_rounds,
    need_same_rank,
    without_tensor,
)
from emitters.lowering.refused import Refused
from emitters.lowering.walking import lower_in_place
from emitters.tflite import build
from emitters.tflite.context import Context, shape_of, strided
from emitters.tflite.graph import DataType, Shape, Tensor
from emitters.tflite.lowering import lower_nodes
from emitters.tflite.registry import lowers
from emitters.tflite.subgraphs import Body, branches, loop


@lowers("If")
def if_(context: Context, node: onnx_ir.Node) -> None:
    """IF; a constant condition leaves but the one graph, here in the midst of the others.

    LiteRT prepares both graphs for the sizes that come in, whichever it runs.
    """
    then, otherwise = (node.attributes[f"{name}_branch"].as_graph() for name in ("then", "else"))
    _only_tensors([*node.outputs])
    known = context.array(node.inputs[0])
    if known is not None:
        _in_place(context, node, bool(known.item()))
        return
    pairs = zip(then.outputs, otherwise.outputs, strict=True)
    specs = [
        (_either(context, output, pair), context.dtype(pair[0]))
        for output, pair in zip(node.outputs, pairs, strict=True)
    ]
    made = branches(context, context.tensor(node.inputs[0]), then, otherwise, specs)
    for output, tensor in zip(node.outputs, made, strict=True):
        context.give(output, tensor)


def _in_place(context: Context, node: onnx_ir.Node, taken: bool) -> None:
    name = context.node

    def give(output: onnx_ir.Value, value: onnx_ir.Value) -> None:
        context.node = name
        context.give(output, context.tensor(value))

    lower_in_place(node, taken, partial(lower_nodes, context), give)


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


def _only_tensors(values: Sequence[onnx_ir.Value | None]) -> None:
    value = without_tensor(values)
    if value is not None:
        raise Refused(
            f"{value.name!r} is a sequence or an optional: TFLite has tensors alone",
            "stack its elements to a tensor in the model, or cut the model before it",
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
    """WHILE over the round's number, the condition, the states, and the tensors that the scan
    outputs are put together in: by DYNAMIC_UPDATE_SLICE where at most so many rounds are known to
    come, by CONCATENATION otherwise."""
    graph = node.attributes["body"].as_graph()
    _only_tensors([*node.inputs, *node.outputs, *graph.inputs])
    limit = _limit(context, node)
    held = len(node.inputs) - 2
    scans = list(graph.outputs)[1 + held :]
    ends = not always_goes_on(graph)
    if limit is None and not ends and _start_condition(context, node) is None:
        raise Refused("a Loop without an end")
    starts = [context.tensor(value) for value in node.inputs[2:]]
    kept = [context.shape(value) for value in graph.inputs[2:]]
    if limit is not None and limit.data is not None and not limit.data:
        _nothing_run(context, node, starts, scans)
        return
    grows = limit is None or (ends and limit.data is None)
    stacks = [_stack(context, value, None if grows else limit) for value in scans]
    first = context.constant(np.asarray(0, np.int64))
    going = _start_condition(context, node) or context.constant(np.asarray(True))
    states = [first, going, *starts, *stacks]
    shapes: list[Shape] = [(), (), *kept, *(stack.shape for stack in stacks)]

    def more(body: Body, now: list[Tensor]) -> Tensor:
        if limit is None:
            return now[1]
        return body.emit(
            "LOGICAL_AND",
            [now[1], build.binary(body, "LESS", now[0], body.capture(limit), DataType.BOOL)],
            (),
        )

    def step(body: Body, now: list[Tensor]) -> list[Tensor]:
        number, goes_on = now[:2]
        for value, tensor in zip(graph.inputs, now, strict=False):
            own = shape_of(value) if value.shape is not None else tensor.shape
            body.give(value, build.reshape(body, tensor, own) if tensor in now[:2] else tensor)
        body.lower(graph)
        made = [body.tensor(value) for value in graph.outputs]
        after = build.reshape(body, made[0], ()) if ends else goes_on
        stacked = _stacked(body, now[2 + held :], made[1 + held :], number, grows)
        one = build.scalar(body, 1, number)
        return [build.binary(body, "ADD", number, one), after, *made[1 : 1 + held], *stacked]

    results = loop(context, states, more, step, shapes)
    for place, (output, tensor) in enumerate(zip(node.outputs, results[2:], strict=True)):
        if place >= held and grows:
            tensor = _cut(context, tensor, 1, None, f"{output.name}?0")
        elif place >= held and (ends or (limit is not None and limit.data is None)):
            tensor = _cut(context, tensor, 0, results[0], f"{output.name}?0")
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
    """The most rounds: int64 of no axes."""
    most = most_rounds(node)
    if most is None:
        return None
    if isinstance(most, int):
        return context.constant(np.asarray(most, np.int64))
    return build.reshape(context, context.tensor(most), ())


def _start_condition(context: Context, node: onnx_ir.Node) -> Tensor | None:
    value = node.inputs[1] if len(node.inputs) > 1 else None
    return None if value is None else build.reshape(context, context.tensor(value), ())


def _stack(context: Context, element: onnx_ir.Value, rounds: Tensor | None) -> Tensor:
    """What a scan output is put together in: room for all rounds; or a row that is dropped at the
    end, since a WHILE that starts with no elements may fail, as does DYNAMIC_UPDATE_SLICE, which
    LiteRT prepares even where no round is run."""
    shape = context.shape(element)
    for dim in shape:
        if isinstance(dim, str) and not context.knows(dim):
            raise Refused(f"the size of {element.name!r} isn't known before the loop")
    zero = context.constant(np.zeros((), context.dtype(element).numpy()))
    if rounds is None or rounds.data is not None:
        start = 1 if rounds is None or rounds.data is None else int(rounds.data)
        dim = f"{element.name}?rounds" if rounds is None else start
        sizes = context.sizes((start, *shape))
        return context.emit("FILL", [sizes, zero], (dim, *shape), zero.dtype)
    count = build.reshape(context, build.cast(context, rounds, DataType.INT32), (1,))
    sizes = build.binary(context, "MAXIMUM", count, context.integers([1]))
    if shape:
        options = {"axis": 0, "fusedActivationFunction": 0}
        pieces = [sizes, context.sizes(shape)]
        sizes = context.emit("CONCATENATION", pieces, (1 + len(shape),), options=options)
    whole = (f"{element.name}?rounds", *shape)
    return context.emit("FILL", [sizes, zero], whole, zero.dtype)


def _stacked(
    body: Body, stacks: Sequence[Tensor], elements: Sequence[Tensor], place: Tensor, grows: bool
) -> list[Tensor]:
    """The stacks with one more element each."""
    made = []
    for stack, element in zip(stacks, elements, strict=True):
        row = build.reshape(body, element, (1, *stack.shape[1:]))
        if grows:
            options = {"axis": 0, "fusedActivationFunction": 0}
            made.append(body.emit("CONCATENATION", [stack, row], stack.shape, options=options))
            continue
        at = build.reshape(body, build.cast(body, place, DataType.INT32), (1,))
        if stack.rank > 1:
            rest = body.integers([0] * (stack.rank - 1))
            options = {"axis": 0, "fusedActivationFunction": 0}
            at = body.emit("CONCATENATION", [at, rest], (stack.rank,), options=options)
        made.append(body.emit("DYNAMIC_UPDATE_SLICE", [stack, row, at], stack.shape))
    return made


def _cut(context: Context, x: Tensor, first: int, count: Tensor | None, symbol: str) -> Tensor:
    """The first axis from ``first`` on, up to ``count`` where there is one."""
    zeros = [0] * (x.rank - 1)
    end = context.integers([0, *zeros])
    if count is not None:
        end = build.reshape(context, build.cast(context, count, DataType.INT32), (1,))
        if zeros:
            options = {"axis": 0, "fusedActivationFunction": 0}
            pieces = [end, context.integers(zeros)]
            end = context.emit("CONCATENATION", pieces, (x.rank,), options=options)
    limits = [context.integers([first, *zeros]), end, context.integers([1] * x.rank)]
    whole = (1 << x.rank) - 1
    options = strided(whole - 1, whole - (count is not None))
    return context.emit("STRIDED_SLICE", [x, *limits], (symbol, *x.shape[1:]), options=options)


# -- Scan --------------------------------------------------------------------------------


@lowers("Scan")
def scan(context: Context, node: onnx_ir.Node) -> None:
    """WHILE over the index of the scanned axis: GATHER takes an element of each scan input,
    DYNAMIC_UPDATE_SLICE puts one into each scan output, whose axis is moved at the end."""
    graph = node.attributes["body"].as_graph()
    _only_tensors([*node.inputs, *node.outputs])
    taken = node.attributes["num_scan_inputs"].as_int()
    held = len(node.inputs) - taken
    given = len(graph.outputs) - held
    scanned = [context.tensor(value) for value in node.inputs[held:]]
    axes = [
        axis % x.rank
        for axis, x in zip(ints(node, "scan_input_axes", [0] * taken), scanned, strict=True)
    ]
    dims = [x.shape[axis] for axis, x in zip(axes, scanned, strict=True)]
    length = next((dim for dim in dims if isinstance(dim, int)), dims[0])
    count = build.reshape(context, context.sizes([length]), ())
    backwards = ints(node, "scan_input_directions", [0] * taken)
    put_back = ints(node, "scan_output_directions", [0] * given)
    starts = [context.tensor(value) for value in node.inputs[:held]]
    stacks = [_stack(context, value, count) for value in list(graph.outputs)[held:]]
    kept = [context.shape(value) for value in graph.inputs[:held]]
    states = [context.constant(np.asarray(0, np.int32)), *starts, *stacks]
    shapes: list[Shape] = [(), *kept, *(stack.shape for stack in stacks)]

    def more(body: Body, now: list[Tensor]) -> Tensor:
        return build.binary(body, "LESS", now[0], body.capture(count), DataType.BOOL)

    def step(body: Body, now: list[Tensor]) -> list[Tensor]:
        number = now[0]
        last = build.binary(body, "SUB", body.capture(count), body.integer(1))
        turned = build.binary(body, "SUB", last, number)
        for value, tensor in zip(graph.inputs, now[1 : 1 + held], strict=False):
            body.give(value, tensor)
        for value, x, axis, back in zip(
            list(graph.inputs)[held:], scanned, axes, backwards, strict=True
        ):
            options = {"axis": axis, "batchDims": 0}
            shape = (*x.shape[:axis], *x.shape[axis + 1 :])
            place = [body.capture(x), turned if back else number]
            body.give(value, body.emit("GATHER", place, shape, options=options))
        body.lower(graph)
        made = [body.tensor(value) for value in graph.outputs]
        rows = []
        for stack, row, back in zip(now[1 + held :], made[held:], put_back, strict=True):
            rows += _stacked(body, [stack], [row], turned if back else number, False)
        return [build.binary(body, "ADD", number, body.integer(1)), *made[:held], *rows]

    results = loop(context, states, more, step, shapes)[1:]
    outputs = ints(node, "scan_output_axes", [0] * given)
    for place, (output, tensor) in enumerate(zip(node.outputs, results, strict=True)):
        if place >= held and count.data is None:
            tensor = _cut(context, tensor, 0, count, str(length))
        if place >= held:
            tensor = _moved(context, tensor, outputs[place - held])
        context.give(output, tensor)


def _moved(context: Context, x: Tensor, axis: int) -> Tensor:
    """``x`` with its first axis put where ``axis`` says."""
    order = list(range(1, x.rank))
    order.insert(axis % x.rank, 0)
    return build.transpose(context, x, order)
