"""Scan: ``while_loop``, or rounds written out where they are few.

The loop's states are the round's number, the node's states, and what its outputs are put together
in. Each round has an element of the scanned axes by ``gather``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import onnx_ir

from converter.graph.attributes import ints
from emitters.coreml.blocks import while_loop
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.control import Inside, is_light, only_tensors, scalar
from emitters.coreml.ops.stacks import joined, stacked, stacks
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import integer, size
from emitters.coreml.types import held

UNROLLED = 8
"""Most rounds that are written out one by one."""


@dataclass(frozen=True)
class _Scanned:
    """An input of which each round has an element.

    Attributes:
        var: The whole; booleans are int32, which ``gather`` takes.
        axis: The axis that is gone through.
        backwards: Whether it begins at its end.
        inside: The body's input.
    """

    var: Var
    axis: int
    backwards: bool
    inside: onnx_ir.Value

    def element(self, context: Context, place: Var | int, turned: Var | int) -> Var:
        """A round's element."""
        at = turned if self.backwards else place
        at = integer(context, at) if isinstance(at, int) else at
        made = context.op("gather", x=self.var, indices=at, axis=self.axis)
        return context.cast(made, held(context.dtype(self.inside)))


@dataclass(frozen=True)
class _Scan:
    """A node's parts.

    Attributes:
        graph: Its body.
        count: How many states it has.
        scanned: What has an element for each round.
        put_back: Of each scan output, whether it begins at its end.
    """

    graph: onnx_ir.Graph
    count: int
    scanned: Sequence[_Scanned]
    put_back: Sequence[int]


@lowers("Scan")
def scan(context: Context, node: onnx_ir.Node) -> None:
    """A round for each element of the scanned axes."""
    graph = node.attributes["body"].as_graph()
    only_tensors([*node.inputs, *node.outputs])
    scanned = _scanned(context, node, graph)
    count = len(node.inputs) - len(scanned)
    given = len(graph.outputs) - count
    parts = _Scan(graph, count, scanned, ints(node, "scan_output_directions", [0] * given))
    starts = [context.var(value) for value in node.inputs[:count]]
    length = size(context, scanned[0].var, scanned[0].axis)
    inside = Inside(context)
    if isinstance(length, int) and length <= UNROLLED and is_light(graph, length):
        rounds = length
        made = inside.run(lambda: _written_out(context, parts, inside, starts, rounds))
    else:
        known = isinstance(length, int)
        limit = integer(context, length) if known else scalar(context, length)
        made = _looped(context, parts, inside, starts, limit)
    axes = ints(node, "scan_output_axes", [0] * given)
    for place, (output, var) in enumerate(zip(node.outputs, made, strict=True)):
        if place >= count:
            var = _moved(context, var, axes[place - count])
        context.give(output, context.cast(var, held(context.dtype(output))))


def _round(
    context: Context, parts: _Scan, inside: Inside, states: Sequence[Var],
    place: Var | int, turned: Var | int,
) -> tuple[list[Var], list[Var]]:  # fmt: skip
    """The states after a round, and its elements of the scan outputs."""
    fed = dict(zip(parts.graph.inputs[: parts.count], states, strict=True))
    fed.update({each.inside: each.element(context, place, turned) for each in parts.scanned})
    here = inside.lower(parts.graph, fed)
    made = [here.var(value) for value in parts.graph.outputs]
    return made[: parts.count], made[parts.count :]


def _written_out(
    context: Context, parts: _Scan, inside: Inside, states: list[Var], rounds: int
) -> list[Var]:
    """Round after round."""
    elements: list[list[Var]] = []
    for place in range(rounds):
        turned = rounds - 1 - place
        states, made = _round(context, parts, inside, states, place, turned)
        elements.append(made)
    found = list(states)
    for back, each in zip(parts.put_back, zip(*elements, strict=True), strict=True):
        found.append(joined(context, each[::-1] if back else each))
    return found


def _looped(
    context: Context, parts: _Scan, inside: Inside, starts: list[Var], rounds: Var
) -> list[Var]:
    """A ``while_loop``."""
    count = parts.count
    last = context.op("sub", x=rounds, y=integer(context, 1))

    @cache
    def first_round() -> list[Var]:
        return _round(context, parts, inside, starts, integer(context, 0), last)[1]

    def first(number: int) -> Var:
        return first_round()[number]

    scans = list(parts.graph.outputs)[count:]
    whole = inside.run(lambda: stacks(context, scans, rounds, first))
    states = [integer(context, 0), *starts, *whole]

    def more(now: list[Var]) -> Var:
        return context.op("less", x=now[0], y=rounds)

    def step(now: list[Var]) -> list[Var]:
        place, before, old = now[0], now[1 : 1 + count], now[1 + count :]
        turned = context.op("sub", x=last, y=place)
        after, elements = _round(context, parts, inside, before, place, turned)
        rows: list[Var] = []
        for each, row, back in zip(old, elements, parts.put_back, strict=True):
            rows += stacked(context, [each], [row], turned if back else place, False)
        return [context.op("add", x=place, y=integer(context, 1)), *after, *rows]

    return inside.run(lambda: while_loop(context, states, more, step))[1:]


def _scanned(context: Context, node: onnx_ir.Node, graph: onnx_ir.Graph) -> list[_Scanned]:
    count = node.attributes["num_scan_inputs"].as_int()
    axes = ints(node, "scan_input_axes", [0] * count)
    backwards = ints(node, "scan_input_directions", [0] * count)
    found = []
    for place, value in enumerate(node.inputs[-count:]):
        var = context.var(value)
        var = context.cast(var, "int32") if context.type_of(var) == "bool" else var
        inside = graph.inputs[len(graph.inputs) - count + place]
        axis = axes[place] % len(var.shape)
        found.append(_Scanned(var, axis, bool(backwards[place]), inside))
    return found


def _moved(context: Context, x: Var, axis: int) -> Var:
    """``x`` with its first axis at another place."""
    rank = len(x.shape)
    order = list(range(1, rank))
    order.insert(axis % rank, 0)
    return x if order == list(range(rank)) else context.op("transpose", x=x, perm=order)
