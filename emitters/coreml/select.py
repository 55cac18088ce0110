"""``select`` of what broadcasts: its result has the shape that both branches have together, in
coremltools' inference, whatever the condition's is."""

from __future__ import annotations

import numpy as np

from emitters.coreml.context import Context, Var, free


def select(context: Context, condition: Var, x: Var, y: Var) -> Var:
    """``x`` where the condition holds, else ``y``, as ONNX's Where.

    Args:
        context: Where it goes.
        condition: bool.
        x: Where the condition holds.
        y: Elsewhere; of the same type.
    """
    if not any(covers(part.shape, condition.shape) for part in (x, y)):
        first = x if len(x.shape) >= len(y.shape) else y
        wide = _broadcast(context, first, condition)
        x, y = (wide, y) if first is x else (x, wide)
    return context.op("select", cond=condition, a=x, b=y)


def covers(shape: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether what broadcasts to ``other`` leaves ``shape`` as it is."""
    if len(shape) < len(other):
        return False
    pairs = zip(shape[::-1], other[::-1], strict=False)
    return all(own == size or size == 1 or (own != 1 and free(size)) for own, size in pairs)


def _broadcast(context: Context, x: Var, like: Var) -> Var:
    """``x`` in the shape that it has together with a variable of truth values."""
    if not any(map(free, (*x.shape, *like.shape))):
        shape = np.broadcast_shapes(tuple(x.shape), tuple(like.shape))
        rank = len(shape) - len(x.shape)
        if rank:
            x = context.op("expand_dims", x=x, axes=list(range(rank)))
        reps = [size // own for size, own in zip(shape, x.shape, strict=True)]
        return context.op("tile", x=x, reps=reps)
    true = context.op("logical_or", x=like, y=context.op("logical_not", x=like))
    if context.type_of(x) == "bool":
        return context.op("logical_and", x=x, y=true)
    return context.op("mul", x=x, y=context.cast(true, context.type_of(x)))
