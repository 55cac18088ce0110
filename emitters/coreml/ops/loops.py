"""Loop: ``while_loop``, or rounds written out where they are few and known.

The loop's states are the round's number, the condition, the node's states, and what its scan
outputs are put together in. Those have no elements where there was no round, by a slice that ends
where it begins: what comes of that is Core ML's to say, but it isn't taken for a round's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import onnx_ir

from converter.ir.never_negative import ROUND, RUN
from converter.ir.refused import Refused
from emitters.coreml import limits
from emitters.coreml.blocks import while_loop
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.control import Inside, is_light, scalar
from emitters.coreml.ops.stacks import cut, is_size, joined, stacked, stacks
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import integer
from emitters.coreml.types import held
from emitters.lowering.plans.control import (
    always_goes_on,
    most_rounds,
    need_tensors,
    start_condition,
)

UNROLLED = 8
"""Most rounds that are written out one by one."""


@dataclass(frozen=True)
class _Loop:
    """A node's parts.

    Attributes:
        graph: Its body.
        count: How many states it has.
        limit: The most rounds, int32 without axes; None where there is no limit.
        start: Whether the first round is run, where that isn't certain.
        ends: Whether a round may be the last by its condition.
        runs: Whether it is a recurrent operator: its rewrite has written out what is short.
    """

    graph: onnx_ir.Graph
    count: int
    limit: Var | None
    start: Var | None
    ends: bool
    runs: bool

    @property
    def exact(self) -> bool:
        """Whether there are as many rounds as the limit says."""
        return self.limit is not None and not self.ends and self.start is None

    @property
    def rounds(self) -> int | None:
        """How many rounds there are, where that is known."""
        if self.limit is None or self.limit.val is None or not self.exact:
            return None
        return int(self.limit.val)

    @property
    def is_short(self) -> bool:
        """Whether it is written out."""
        rounds = None if self.runs else self.rounds
        return rounds is not None and rounds <= UNROLLED and is_light(self.graph, rounds)

    @property
    def may_be_none(self) -> bool:
        """Whether there may be no round at all, where there are as many as the limit says."""
        assert self.limit is not None
        known = self.limit.val
        return not is_size(self.limit) if known is None else int(known) < 1

    @property
    def grows(self) -> bool:
        """Whether nothing says how many rounds may come."""
        return self.limit is None or (self.ends and self.limit.val is None)


@lowers("Loop")
def loop(context: Context, node: onnx_ir.Node) -> None:
    """Rounds while the condition holds, up to the trip count."""
    graph = node.attributes["body"].as_graph()
    need_tensors([*node.inputs, *node.outputs, *graph.inputs], limits.SEQUENCES)
    ends = not always_goes_on(graph)
    limit, first = _limit(context, node), start_condition(node)
    start = None if first is None else scalar(context, context.var(first))
    parts = _Loop(graph, len(node.inputs) - 2, limit, start, ends, RUN in node.meta)
    if limit is None and not ends and start is None:
        raise Refused("a Loop without an end")
    starts = [context.var(value) for value in node.inputs[2:]]
    inside = Inside(context)
    if limit is not None and limit.val == 0:
        if any(output.uses() or output.is_graph_output() for output in node.outputs[len(starts) :]):
            raise Refused(limits.EMPTY)  # what is put together in no round
        made = starts
    elif parts.is_short:
        made = inside.run(lambda: _written_out(context, parts, inside, starts))
    else:
        made = _looped(context, parts, inside, starts)
    for output, var in zip(node.outputs, made, strict=False):
        context.give(output, context.cast(var, held(context.dtype(output))))


def _round(
    context: Context, parts: _Loop, inside: Inside, given: Sequence[Var]
) -> tuple[Var | None, list[Var], list[Var]]:
    """What a round gives of its number, its condition and the states: whether another comes,
    where that isn't certain, the states, and its elements of the scan outputs."""
    inputs = parts.graph.inputs
    inputs[0].meta[ROUND] = True
    fed = dict(zip(inputs, given, strict=True))
    for value in inputs[:2]:
        if value.shape is not None and len(value.shape):
            fed[value] = context.op("expand_dims", x=fed[value], axes=[0])
    here = inside.lower(parts.graph, fed)
    after, *made = (here.var(value) for value in parts.graph.outputs)
    goes_on = scalar(context, after) if parts.ends else None
    return goes_on, made[: parts.count], made[parts.count :]


def _written_out(context: Context, parts: _Loop, inside: Inside, states: list[Var]) -> list[Var]:
    elements: list[list[Var]] = []
    for number in range(parts.rounds or 0):
        given = [integer(context, number), context.const(True), *states]
        _, states, made = _round(context, parts, inside, given)
        elements.append(made)
    return [*states, *(joined(context, each) for each in zip(*elements, strict=True))]


def _looped(context: Context, parts: _Loop, inside: Inside, starts: list[Var]) -> list[Var]:
    """A ``while_loop``."""
    room = None if parts.grows else parts.limit
    scans = list(parts.graph.outputs)[1 + parts.count :]

    @cache
    def first_round() -> list[Var]:
        given = [integer(context, 0), context.const(True), *starts]
        return _round(context, parts, inside, given)[2]

    def first(number: int) -> Var:
        return first_round()[number]

    whole = inside.run(lambda: stacks(context, scans, room, first))
    true = context.const(True)
    going = [] if parts.exact else [true if parts.start is None else parts.start]
    own = 1 + len(going)
    states = [integer(context, 0), *going, *starts, *whole]

    def more(now: list[Var]) -> Var:
        if parts.limit is None:
            return context.op("identity", x=now[1])
        below = context.op("less", x=now[0], y=parts.limit)
        return context.op("logical_and", x=now[1], y=below) if going else below

    def step(now: list[Var]) -> list[Var]:
        given = [now[0], now[1] if going else true, *now[own : own + parts.count]]
        goes_on, after, elements = _round(context, parts, inside, given)
        rows = stacked(context, now[own + parts.count :], elements, now[0], parts.grows)
        following = context.op("add", x=now[0], y=integer(context, 1))
        flags = [now[1] if goes_on is None else goes_on] if going else []
        return [following, *flags, *after, *rows]

    rounds, *made = inside.run(lambda: while_loop(context, states, more, step))
    made = made[len(going) :]
    for place in range(parts.count, len(made)):
        if parts.grows:
            made[place] = cut(context, made[place], 1, None)
        elif not parts.exact or parts.may_be_none:
            made[place] = cut(context, made[place], 0, rounds)
    return made


def _limit(context: Context, node: onnx_ir.Node) -> Var | None:
    """The most rounds: int32 without axes."""
    most = most_rounds(node)
    if most is None or isinstance(most, int):
        return None if most is None else integer(context, most)
    return scalar(context, context.var(most))
