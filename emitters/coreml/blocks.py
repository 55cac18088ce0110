"""MIL's operations that hold blocks: ``while_loop`` and ``cond``, built by functions.

coremltools calls the functions of a loop twice where a first build shows that a state's size
changes: what they make has to depend on their arguments alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from emitters.coreml.context import Context, Var
from modelyard.containers.coreml import coremltools

More = Callable[[list[Var]], Var]
Step = Callable[[list[Var]], list[Var]]

SHARED = 1024
"""Elements from which on a weight is stored once for all blocks that have it."""


def while_loop(context: Context, states: Sequence[Var], more: More, step: Step) -> list[Var]:
    """The last states of a loop.

    Args:
        context: Where it goes. What the functions make goes into the loop's blocks: constants
            that :meth:`Context.var` keeps have to be there before.
        states: The first states.
        more: Gives whether there is another round, a boolean without axes, of the states.
        step: Gives the next states of the states.

    Raises:
        Refused: A state's type or number of axes changes, or something inside is refused.
    """

    def cond(*now: Var) -> Var:
        for var in now:
            _forget(var)
        return more(list(now))

    def body(*now: Var) -> tuple[Var, ...]:
        made = step(list(now))
        pairs = zip(now, made, strict=True)
        return tuple(new if new is old else _own(context, new, now) for old, new in pairs)

    first = tuple(_plain(var) for var in states)
    made = context.op("while_loop", _cond=cond, _body=body, loop_vars=first)
    return list(made) if isinstance(made, tuple) else [made]


def _forget(var: Var) -> None:
    """Has a state's first value, where it is constant, not be taken for that of all rounds:
    coremltools finds out that it changes by building the body again, but doesn't where another
    state only takes that value a round later."""
    var._sym_val = None
    var.is_descendant_of_const = False


def _own(context: Context, var: Var, inputs: Sequence[Var] = ()) -> Var:
    """The variable as something that the block that is being built gives.

    coremltools takes a state that a body gives from outside for one that never changes, though
    it begins as another (its pass ``loop_invariant_elimination``), and won't have a constant for
    a state: an identity whose value it doesn't know keeps it apart.
    """
    block = coremltools().converters.mil.mil.block.curr_block()
    inside = var.op is not None and var.op.enclosing_block is block
    if (inside and var.val is None) or any(var is each for each in inputs):
        return _plain(var)
    made = context.op("identity", x=var)
    _forget(made)
    return _plain(made)


def _plain(var: Var) -> Var:
    """The variable, its type that of a scalar where it has no axes: coremltools has tensors
    without axes besides, and takes them for another type."""
    if var.shape == () and var.val is None:
        var._sym_type = var.dtype
    return var


def cond(
    context: Context, pred: Var, then: Callable[[], list[Var]], otherwise: Callable[[], list[Var]]
) -> list[Var]:
    """What one of two blocks gives.

    Args:
        context: Where it goes.
        pred: A boolean without axes.
        then: Gives the results where it is true.
        otherwise: Gives the results where it is false, of the same types and shapes.

    Raises:
        Refused: They aren't, or something inside is refused.
    """

    def block(build: Callable[[], list[Var]]) -> Callable[[], tuple[Var, ...]]:
        def run() -> tuple[Var, ...]:
            return tuple(_own(context, var) for var in build())

        return run

    made = context.op("cond", pred=pred, _true_fn=block(then), _false_fn=block(otherwise))
    results = list(made) if isinstance(made, tuple) else [made]
    _share_weights(results[0].op.blocks)
    return results


def _share_weights(blocks: Sequence[Any]) -> None:
    """Has weights that are in several blocks stored once: coremltools' own pass sees but those of
    one block."""
    found: dict[str, list[Any]] = {}
    for op in _operations(blocks):
        value = op.outputs[0].val if op.op_type == "const" else None
        if isinstance(value, np.ndarray) and value.size >= SHARED:
            digest = hashlib.sha256(np.ascontiguousarray(value).data)
            digest.update(f"{value.dtype}{value.shape}".encode())
            found.setdefault(digest.hexdigest(), []).append(op)
    for key, same in found.items():
        for op in same if len(same) > 1 else ():
            if op.weight_id is None:
                op.weight_id = key


def _operations(blocks: Sequence[Any]) -> Iterator[Any]:
    for block in blocks:
        for op in block.operations:
            yield op
            yield from _operations(op.blocks)
