"""Sizes of variables: numbers where they are known, computed when the program runs where not.

A size is an ``int``, or a variable of int32 with the shape [1]. What is made of sizes is a constant
wherever it can be: MIL infers more of that, and Core ML plans memory by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from emitters.coreml.context import Context, Var, free
from emitters.coreml.types import NUMPY, Array, narrowed

Size = int | Any
"""``int``, or a variable of int32 [1]."""


def size(context: Context, x: Var, axis: int) -> Size:
    """How many elements a variable has along an axis.

    Args:
        context: Where it goes.
        x: The variable.
        axis: Counted from the end where it is negative.
    """
    dim = x.shape[axis]
    if not free(dim):
        return int(dim)
    place = np.asarray([axis % len(x.shape)], np.int32)
    return context.op("gather", x=context.op("shape", x=x), indices=place, axis=0)


def integer(context: Context, number: int) -> Var:
    """A constant without axes, int32."""
    return context.const(np.asarray(number, np.int32))


def sizes(context: Context, x: Var) -> list[Size]:
    """The sizes of all axes of a variable."""
    return [size(context, x, axis) for axis in range(len(x.shape))]


def shape(context: Context, x: Var) -> Array | Var:
    """A variable's shape, for MIL's inputs of that kind: int32 [axes]."""
    known = numbers(x.shape)
    return context.op("shape", x=x) if known is None else np.asarray(known, np.int32)


def numbers(dims: Sequence[Any]) -> list[int] | None:
    """Sizes as numbers; None where one of them isn't known."""
    if any(free(dim) for dim in dims):
        return None
    return [int(dim) for dim in dims]


def vector(context: Context, wanted: Sequence[Size]) -> Array | Var:
    """Sizes joined to one vector of int32 [n]: an array where all are known.

    Args:
        context: Where it is computed.
        wanted: At least one.
    """
    known = numbers(wanted)
    if known is not None:
        return np.asarray(known, np.int32)
    pieces: list[Any] = []
    for item in wanted:
        if free(item):
            pieces.append(item)
        elif pieces and isinstance(pieces[-1], list):
            pieces[-1].append(int(item))
        else:
            pieces.append([int(item)])
    parts = [
        context.const(np.asarray(piece, np.int32)) if isinstance(piece, list) else piece
        for piece in pieces
    ]
    return parts[0] if len(parts) == 1 else context.op("concat", values=parts, axis=0)


def elements(context: Context, x: Var) -> list[Size]:
    """The elements of a vector of int32 [n], each as a size.

    Raises:
        ValueError: The vector's length isn't known.
    """
    if free(x.shape[0]):
        raise ValueError("a vector of a free length")
    return [element(context, x, place) for place in range(int(x.shape[0]))]


def element(context: Context, x: Var, place: int) -> Size:
    """One element of a vector, as a size.

    Args:
        context: Where it goes.
        x: int32 [n], n known.
        place: Which element; -1 is the last.
    """
    known = None if x.sym_val is None else np.asarray(x.sym_val).ravel()[place]
    if known is not None and not free(known):
        return int(known)
    count = int(x.shape[0])
    if count == 1:
        return x
    if x.op is not None and x.op.op_type == "concat" and not x.op.interleave.val:
        left = place % count
        for part in x.op.values:
            if free(part.shape[0]):
                break
            if left < part.shape[0]:
                return element(context, part, left)
            left -= int(part.shape[0])
    return context.op("gather", x=x, indices=np.asarray([place % count], np.int32), axis=0)


_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floor_div": lambda a, b: a // b,
    "maximum": max,
    "minimum": min,
}


def compute(context: Context, kind: str, a: Size, b: Size) -> Size:
    """What MIL's operation makes of two sizes. Numbers stay numbers.

    Args:
        context: Where it goes.
        kind: ``add``, ``sub``, ``mul``, ``floor_div``, ``maximum`` or ``minimum``.
        a: The first.
        b: The second.
    """
    if not free(a) and not free(b):
        return int(_NUMBERS[kind](int(a), int(b)))
    if (kind == "add" and not free(b) and b == 0) or (kind == "mul" and not free(b) and b == 1):
        return a
    x, y = (item if free(item) else np.asarray([item], np.int32) for item in (a, b))
    made = context.op(kind, x=x, y=y)
    return made if made.val is None else int(np.asarray(made.val).item())


def product(context: Context, wanted: Sequence[Size]) -> Size:
    """All of them multiplied; 1 where there are none."""
    total: Size = int(np.prod([item for item in wanted if not free(item)], dtype=np.int64))
    for item in wanted:
        if free(item):
            total = item if not free(total) and total == 1 else compute(context, "mul", item, total)
    return total


def scalar(context: Context, x: Size) -> Any:
    """A size without axes, as range_1d takes its limits."""
    return context.op("squeeze", x=x, axes=[0]) if free(x) else np.int32(x)


def counted(context: Context, count: Size) -> Var:
    """0, 1, ... up to a size: int32 [count]."""
    if not free(count):
        return context.const(np.arange(int(count), dtype=np.int32))
    end = scalar(context, count)
    return context.op("range_1d", start=np.int32(0), end=end, step=np.int32(1))


def reshape(context: Context, x: Var, wanted: Sequence[Size]) -> Var:
    """A variable with other sizes; one that is computed is left to MIL to find (-1).

    Args:
        context: Where it is computed.
        x: The variable.
        wanted: Sizes whose product is that of ``x``; without any, ``x`` has one element.
    """
    if not wanted:
        return context.op("squeeze", x=reshape(context, x, [1]), axes=[0]) if x.shape else x
    computed = [axis for axis, item in enumerate(wanted) if free(item)]
    if not computed and numbers(x.shape) == [int(item) for item in wanted]:
        return x
    if len(computed) == 1 and -1 not in [item for item in wanted if not free(item)]:
        wanted = [-1 if free(item) else item for item in wanted]
    return context.op("reshape", x=x, shape=vector(context, wanted))


def filled(context: Context, value: Any, wanted: Sequence[Size], kind: str) -> Var:
    """A tensor of one value everywhere.

    Args:
        context: Where it is computed.
        value: A number.
        wanted: Its sizes; none for one without axes.
        kind: Its MIL type.

    Raises:
        Refused: The number doesn't fit into 32 bits.
    """
    one: Any = NUMPY[kind](narrowed(np.asarray(value))[()] if kind == "int32" else value)
    if not wanted:
        return context.const(np.asarray(one))
    return context.op("fill", shape=vector(context, wanted), value=one)


def broadcast(context: Context, x: Var, wanted: Sequence[Size]) -> Var:
    """A variable repeated along its axes of size 1, as numpy's ``broadcast_to`` does.

    Args:
        context: Where it is computed.
        x: The variable.
        wanted: At least as many sizes as ``x`` has axes. As with ONNX's Expand, 1 leaves an axis
            as it is.
    """
    missing = len(wanted) - len(x.shape)
    if missing:
        x = context.op("expand_dims", x=x, axes=list(range(missing)))
    repeats: list[Size] = []
    for own, item in zip(x.shape, wanted, strict=True):
        if free(own) and (free(item) or item != 1):
            return _by_adding(context, x, wanted)
        repeats.append(item if not free(own) and own == 1 else 1)
    if all(not free(item) and item == 1 for item in repeats):
        return x
    return context.op("tile", x=x, reps=vector(context, repeats))


def _by_adding(context: Context, x: Var, wanted: Sequence[Size]) -> Var:
    """Has an operation of two operands broadcast: which axes have size 1 isn't known."""
    kind = context.type_of(x)
    if kind == "bool":
        return context.op("logical_or", x=x, y=filled(context, False, wanted, kind))
    # of floats negative zero: adding it changes nothing, and positive zero makes -0 a 0
    nothing = 0 if kind == "int32" else -0.0
    return context.op("add", x=x, y=filled(context, nothing, wanted, kind))
