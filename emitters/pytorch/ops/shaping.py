"""Elements in other shapes, moved, repeated, joined."""

from __future__ import annotations

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.literals import listed, number
from emitters.code.shapes import as_tuple, borders, copied, is_stretched
from emitters.code.sizes import Element
from emitters.code.steps import LOWEST
from emitters.pytorch.registry import op


@op("Reshape")
def reshape(c: Context) -> None:
    """To sizes that are known, or come of shapes."""
    sizes = c.sizes(1)
    if sizes is None:
        if c.attr("allowzero", 0):
            c.emit(f"{c.operand(0)}.reshape({c.operand(1)}.tolist())")
        else:
            c.emit(f"{c.helper('reshape')}({c.arg(0)}, {c.arg(1)})")
        return
    sizes = copied(c, sizes)
    out = c.node.outputs[0].shape
    if _is_flat(c, sizes):
        c.emit(f"{c.operand(0)}.flatten(1)")
        return
    free = [i for i, size in enumerate(sizes) if not isinstance(size, int)]
    if len(free) == 1 and -1 not in sizes and 0 not in sizes:
        shape = c.shape(0)
        same = shape is not None and out is not None and not isinstance(out[free[0]], int)
        if not same:
            sizes = [-1 if i == free[0] else size for i, size in enumerate(sizes)]
    c.emit(
        f"{c.operand(0)}.reshape{as_tuple(c, sizes)}" if sizes else f"{c.operand(0)}.reshape(())"
    )


def _is_flat(c: Context, sizes: list[Element]) -> bool:
    """Whether all axes but the first become one."""
    shape, out = c.shape(0), c.node.outputs[0].shape
    if shape is None or out is None or len(shape) < 2 or len(out) != 2 or len(sizes) != 2:
        return False
    first = out[0] if isinstance(out[0], int) else out[0].value
    if shape[0] is None or first != shape[0]:
        return False
    rest = shape[1:]
    known = all(isinstance(size, int) and size > 0 for size in rest)
    return known and isinstance(out[1], int) and int(np.prod(rest)) == out[1]  # type: ignore[arg-type]


@op("Flatten")
def flatten(c: Context) -> None:
    """To two axes."""
    rank, axis = c.need_rank(0), c.attr("axis", 1)
    axis = axis + rank if axis < 0 else axis
    if axis == 1 and rank >= 2:
        if c.path()[1]:
            c.call("nn.Flatten", (), (c.arg(0),), hint="flatten")
        else:
            c.emit(f"{c.operand(0)}.flatten(1)")
    elif axis == 0:
        c.emit(f"{c.operand(0)}.reshape(1, -1)")
    else:
        x = c.operand(0)
        c.emit(f"{x}.reshape({x}.shape[:{axis}].numel(), -1)")


@op("Squeeze")
def squeeze(c: Context) -> None:
    """Without axes of size 1."""
    axes = c.ints_in(1) if c.has(1) else None
    if c.has(1) and axes is None:
        raise Refused("its axes are computed", "make them constant")
    if axes is None:
        c.emit(f"{c.operand(0)}.squeeze()")
    elif not axes:
        c.emit(c.arg(0), LOWEST)
    else:
        c.emit(f"{c.operand(0)}.squeeze({axes[0] if len(axes) == 1 else listed(axes)})")


@op("Unsqueeze")
def unsqueeze(c: Context) -> None:
    """With axes of size 1."""
    axes = c.need_ints(1, "axes")
    out = c.node.outputs[0].shape
    rank = len(out) if out is not None else c.need_rank(0) + len(axes)
    text = c.operand(0)
    for axis in sorted(axis % rank for axis in axes):
        text += f".unsqueeze({axis})"
    c.emit(text, 10 if axes else LOWEST)


@op("Transpose")
def transpose(c: Context) -> None:
    """Axes in another order."""
    perm = c.attr("perm") or list(range(c.need_rank(0)))[::-1]
    moved = [i for i, axis in enumerate(perm) if i != axis]
    if not moved:
        c.emit(c.arg(0), LOWEST)
    elif len(moved) == 2:
        c.emit(f"{c.operand(0)}.transpose({moved[0]}, {moved[1]})")
    else:
        c.emit(f"{c.operand(0)}.permute{listed(perm)}")


@op("Expand")
def expand(c: Context) -> None:
    """Stretched to a shape, which may have 1 where the input has more."""
    sizes, x = c.sizes(1), c.operand(0)
    if sizes is not None and is_stretched(c, sizes):
        c.emit(f"{x}.expand{as_tuple(c, sizes)}")
        return
    shape = f"{c.operand(1)}.tolist()" if sizes is None else as_tuple(c, sizes)
    c.emit(f"{x}.expand(torch.broadcast_shapes({x}.shape, {shape}))")


@op("Tile")
def tile(c: Context) -> None:
    """Repeated along each axis."""
    sizes = c.sizes(1)
    c.emit(
        f"{c.operand(0)}.repeat{as_tuple(c, sizes)}"
        if sizes is not None
        else f"{c.operand(0)}.repeat({c.operand(1)}.tolist())"
    )


@op("Concat")
def concat(c: Context) -> None:
    """Joined along an axis."""
    given = ", ".join(c.arg(at) for at in range(len(c.node.inputs)))
    c.emit(f"torch.cat([{given}], dim={c.attr('axis')})")


@op("Split")
def split(c: Context) -> None:
    """In parts along an axis."""
    axis, count = c.attr("axis", 0), len(c.node.outputs)
    if c.has(1):
        sizes = c.sizes(1)
        if sizes is None:
            raise Refused("the sizes of its parts are computed", "make them constant")
        listed_ = ", ".join(c.element(size) for size in sizes)
        c.emit_many(f"{c.operand(0)}.split([{listed_}], dim={axis})")
        return
    size = (c.shape(0) or [])[axis] if c.shape(0) else None
    if isinstance(size, int):
        whole = -(-size // count)
        sizes_ = [min(whole, size - whole * i) for i in range(count)]
        if len(set(sizes_)) == 1 and count > 1:
            c.emit_many(f"{c.operand(0)}.chunk({count}, dim={axis})")
        else:
            c.emit_many(f"{c.operand(0)}.split({sizes_}, dim={axis})")
        return
    c.emit_many(f"{c.operand(0)}.chunk({count}, dim={axis})")


@op("Trilu")
def triangle(c: Context) -> None:
    """One side of a diagonal."""
    function = "triu" if c.attr("upper", 1) else "tril"
    if not c.has(1):
        c.emit(f"torch.{function}({c.arg(0)})")
        return
    (k,) = c.need_ints(1, "diagonals")
    c.emit(f"torch.{function}({c.arg(0)}, diagonal={k})" if k else f"torch.{function}({c.arg(0)})")


@op("DepthToSpace", "SpaceToDepth")
def blocks(c: Context) -> None:
    """Channels as places, or the other way."""
    block = c.attr("blocksize")
    if c.node.op_type == "SpaceToDepth":
        c.emit(f"{c.helper('space_to_depth')}({c.arg(0)}, {block})")
    elif c.attr("mode", "DCR") == "CRD":
        c.emit(f"F.pixel_shuffle({c.arg(0)}, {block})")
    else:
        c.emit(f"{c.helper('depth_to_space')}({c.arg(0)}, {block})")


@op("Col2Im")
def fold(c: Context) -> None:
    """Overlapping blocks added up."""
    image, block = c.need_ints(1, "sizes"), c.need_ints(2, "blocks")
    pads = c.attr("pads") or [0, 0, 0, 0]
    if len(image) != 2 or pads[:2] != pads[2:]:
        raise Refused("PyTorch only folds pictures with even borders", "make its pads even")
    told = f"{listed(image)}, {listed(block)}, dilation={listed(c.attr('dilations') or [1, 1])}"
    told += f", padding={listed(pads[:2])}, stride={listed(c.attr('strides') or [1, 1])}"
    c.emit(f"F.fold({c.arg(0)}, {told})")


@op("Pad")
def pad(c: Context) -> None:
    """Borders of one number, or of what is inside."""
    flat = [size for pair in reversed(borders(c)) for size in pair]
    mode = c.attr("mode", "constant")
    if mode != "constant":
        name = c.helper("pad_from_inside")
        c.emit(f'{name}({c.arg(0)}, {listed(flat)}, "{mode}")')
        return
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    told = ""
    if c.has(2):
        value = c.number(2)
        if value is None:
            told = f", value={c.operand(2)}.item()"
        elif value:
            told = f", value={number(np.asarray(c.array(2)).reshape(-1)[0])}"
    if c.dtype(0) == "bool":
        c.emit(f"F.pad({c.operand(0)}.to(torch.uint8), {listed(flat)}{told}).bool()")
        return
    c.emit(f"F.pad({c.arg(0)}, {listed(flat)}{told})")
