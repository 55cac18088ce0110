"""Elements in other shapes, moved, repeated, joined."""

from __future__ import annotations

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.registry import COMPUTED, channels_last, op
from emitters.code.literals import listed, number
from emitters.code.shapes import as_tuple, borders, copied, is_stretched
from emitters.code.sizes import Element
from emitters.code.steps import LOWEST


def need_sizes(c: Context, at: int) -> list[Element]:
    """An operand that is a shape; raises Refused where it hangs on values."""
    found = c.sizes(at)
    if found is None:
        raise Refused(COMPUTED, "make it constant, or compute it from other tensors' shapes")
    return found


@op("Reshape")
def reshape(c: Context) -> None:
    """To sizes that are known, or come of shapes."""
    sizes = copied(c, need_sizes(c, 1))
    out = c.node.outputs[0].shape
    free = [i for i, size in enumerate(sizes) if not isinstance(size, int)]
    if len(free) == 1 and -1 not in sizes and 0 not in sizes:
        sizes = [-1 if i == free[0] else size for i, size in enumerate(sizes)]
    if -1 in sizes and out is not None and free and len(out) == len(sizes):
        at = sizes.index(-1)
        known = out[at]
        if isinstance(known, int) and known >= 0:
            sizes[at] = known
            if len(free) == 1:
                sizes[free[0]] = -1
    c.emit(f"ops.reshape({c.arg(0)}, {as_tuple(c, sizes)})")


@op("Flatten")
def flatten(c: Context) -> None:
    """To two axes."""
    rank, axis = c.need_rank(0), c.attr("axis", 1)
    axis = axis + rank if axis < 0 else axis
    shape = c.shape(0) or []
    if axis == 1 and rank >= 2 and c.path()[1]:
        c.call("layers.Flatten", (), (c.arg(0),), hint="flatten")
        return
    rest, before = shape[axis:], shape[:axis]
    if all(isinstance(size, int) for size in rest) and 0 not in rest:
        c.emit(f"ops.reshape({c.arg(0)}, (-1, {int(np.prod(rest))}))")  # type: ignore[arg-type]
    elif all(isinstance(size, int) for size in before) and 0 not in before:
        c.emit(f"ops.reshape({c.arg(0)}, ({int(np.prod(before))}, -1))")  # type: ignore[arg-type]
    elif axis == 1:
        c.emit(f"ops.reshape({c.arg(0)}, (ops.shape({c.arg(0)})[0], -1))")
    else:
        raise Refused("the sizes before and after its axis are free", "fix them (--dim)")


@op("Squeeze")
def squeeze(c: Context) -> None:
    """Without axes of size 1."""
    axes = c.need_ints(1, "axes") if c.has(1) else None
    if axes is None:
        c.emit(f"ops.squeeze({c.arg(0)})")
    elif not axes:
        c.emit(c.arg(0), LOWEST)
    else:
        told = axes[0] if len(axes) == 1 else listed(axes)
        c.emit(f"ops.squeeze({c.arg(0)}, axis={told})")


@op("Unsqueeze")
def unsqueeze(c: Context) -> None:
    """With axes of size 1."""
    axes = c.need_ints(1, "axes")
    out = c.node.outputs[0].shape
    rank = len(out) if out is not None else c.need_rank(0) + len(axes)
    if not axes:
        c.emit(c.arg(0), LOWEST)
        return
    places = sorted(axis % rank for axis in axes)
    told = places[0] if len(places) == 1 else listed(places)
    c.emit(f"ops.expand_dims({c.arg(0)}, axis={told})")


@op("Transpose")
def transpose(c: Context) -> None:
    """Axes in another order."""
    perm = c.attr("perm") or list(range(c.need_rank(0)))[::-1]
    if perm == sorted(perm):
        c.emit(c.arg(0), LOWEST)
    else:
        c.emit(f"ops.transpose({c.arg(0)}, {listed(perm)})")


@op("Expand")
def expand(c: Context) -> None:
    """Stretched to a shape, which may have 1 where the input has more."""
    sizes = need_sizes(c, 1)
    stretch = "ops.broadcast_to" if is_stretched(c, sizes) else c.helper("stretch")
    c.emit(f"{stretch}({c.arg(0)}, {as_tuple(c, sizes)})")


@op("Tile")
def tile(c: Context) -> None:
    """Repeated along each axis."""
    sizes = c.ints_in(1)
    if sizes is None:
        raise Refused(COMPUTED, "make its repeats constant")
    c.emit(f"ops.tile({c.arg(0)}, {listed(sizes)})")


@op("Concat")
def concat(c: Context) -> None:
    """Joined along an axis."""
    given = ", ".join(c.arg(at) for at in range(len(c.node.inputs)))
    c.emit(f"ops.concatenate([{given}], axis={c.attr('axis')})")


@op("Split")
def split(c: Context) -> None:
    """In parts along an axis."""
    axis, count = c.attr("axis", 0), len(c.node.outputs)
    if c.has(1):
        sizes = c.need_ints(1, "the sizes of its parts")
    else:
        size = (c.shape(0) or [])[axis] if c.shape(0) else None
        if not isinstance(size, int):
            raise Refused("it splits an axis whose size is free", "fix it (--dim)")
        whole = -(-size // count)
        sizes = [max(min(whole, size - whole * i), 0) for i in range(count)]
    if len(set(sizes)) == 1 and sizes[0]:
        c.emit_many(f"ops.split({c.arg(0)}, {count}, axis={axis})")
    else:
        ends = [int(end) for end in np.cumsum(sizes)[:-1]]
        c.emit_many(f"ops.split({c.arg(0)}, {ends}, axis={axis})")


@op("Trilu")
def triangle(c: Context) -> None:
    """One side of a diagonal."""
    function = "triu" if c.attr("upper", 1) else "tril"
    (k,) = c.need_ints(1, "diagonal") if c.has(1) else (0,)
    c.emit(f"{c.helper(function)}({c.arg(0)}, {k})")


@op("DepthToSpace", "SpaceToDepth")
def blocks(c: Context) -> None:
    """Channels as places, or the other way."""
    block = c.attr("blocksize")
    text = c.arg(0)
    if not channels_last(c.node):
        text = f"ops.transpose({text}, (0, 2, 3, 1))"
    if c.node.op_type == "SpaceToDepth":
        text = f"{c.helper('space_to_depth')}({text}, {block})"
    else:
        mode = ', "CRD"' if c.attr("mode", "DCR") == "CRD" else ""
        text = f"{c.helper('depth_to_space')}({text}, {block}{mode})"
    c.emit(text if channels_last(c.node) else f"ops.transpose({text}, (0, 3, 1, 2))")


@op("Pad")
def pad(c: Context) -> None:
    """Borders of one number, or of what is inside."""
    pairs, mode = borders(c), c.attr("mode", "constant")
    x = c.arg(0)
    if mode != "constant":
        c.emit(f'{c.helper("pad_from_inside")}({x}, {tuple(pairs)}, "{mode}")')
        return
    if any(min(pair) < 0 for pair in pairs):
        spans = [f"{-a if a < 0 else ''}:{b if b < 0 else ''}" for a, b in pairs]
        x = f"{c.operand(0)}[{', '.join(spans)}]"
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if not any(a or b for a, b in pairs):
        c.emit(x, LOWEST)
        return
    told, value = tuple(pairs), ""
    if c.has(2):
        given = c.array(2)
        if given is None:
            c.emit(f"{c.helper('pad_with')}({x}, {told}, {c.arg(2)})")
            return
        if given.reshape(-1)[0]:
            value = f", constant_values={number(given.reshape(-1)[0])}"
    if c.dtype(0) == "bool":
        value = value.replace("True", "1")
        c.emit(f'ops.cast(ops.pad(ops.cast({x}, "int32"), {told}{value}), "bool")')
        return
    name = "ops.pad" if value or not _is_taken(c) else c.helper("pad_apart")
    c.emit(f"{name}({x}, {told}{value})")


def _is_taken(c: Context) -> bool:
    """Whether TensorFlow would take zeros for a convolution's own where they aren't: they are added
    to its result, or lie around other axes than those of space."""
    pairs, users = borders(c), [node.op_type for node, _ in c.node.outputs[0].uses()]
    return "Add" in users or ("Conv" in users and any((*pairs[0], *pairs[-1])))
