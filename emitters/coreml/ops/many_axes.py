"""Tensors of more than five axes, between a reshape and the next.

Core ML has five axes. What a Reshape splits into six, a Transpose orders and a Reshape joins again
(windows and patches of images) never has to be there: no axis is split, the Transpose moves blocks
of axes, in two steps where there are more than five blocks.

    Given:   [B, H, W, C] -> [B, h, 8, w, 8, C] -> transpose 0 1 3 2 4 5 -> [B * h * w, 64, C]
    Result:  [B, H, W, C] -> [B * h, 8, w, 8 * C] -> transpose 0 2 1 3 -> [B * h * w, 64, C]

A repetition between them is one of an axis between two others.

The variable of such a value has its elements in their order, and any shape; only the operators
here know how to read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import wraps
from itertools import combinations, pairwise, permutations

import onnx_ir

from converter.ir.attributes import ints, number
from converter.ir.refused import Refused
from emitters.coreml import limits, sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import Lower
from emitters.coreml.sizing import Size

_DIMS = "coreml-dims"
"""Of a value's ``meta``: its sizes, where its variable has others."""

_HANDLED = (
    "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Expand", "Tile",
)  # fmt: skip


def up_to_five_axes(run: Lower) -> Lower:
    """Has a lowering only see nodes that take and give at most five axes; others go here."""

    @wraps(run)
    def lower(context: Context, node: onnx_ir.Node) -> None:
        (_lower if _has_many_axes(node) else run)(context, node)

    return lower


def _has_many_axes(node: onnx_ir.Node) -> bool:
    return any(
        value is not None and value.shape is not None and len(value.shape) > limits.MAX_RANK
        for value in (node.inputs[0], node.outputs[0])
    )


def _lower(context: Context, node: onnx_ir.Node) -> None:
    """Lowers a node of more axes.

    Raises:
        Refused: Something else takes the value, or it is an output.
    """
    source, output = node.inputs[0], node.outputs[0]
    x = context.var(source)
    assert source is not None
    dims: list[Size] = source.meta.get(_DIMS) or sizing.sizes(context, x)
    if node.op_type == "Transpose":
        perm = ints(node, "perm", range(len(dims))[::-1])
        made, dims = _transposed(context, x, dims, perm), [dims[axis] for axis in perm]
    elif node.op_type in ("Expand", "Tile"):
        made, dims = _repeated(context, node, x, dims)
    else:
        made, dims = x, _reshaped(context, node, dims)
    if len(dims) <= limits.MAX_RANK:
        made = sizing.reshape(context, made, dims)
    elif _is_passed_on(output):
        output.meta[_DIMS] = dims
    else:
        raise Refused(limits.RANK)
    context.give(output, made)


def _is_passed_on(value: onnx_ir.Value) -> bool:
    """Whether all that takes a value of many axes is handled here."""
    if value.is_graph_output():
        return False
    return all(
        user.op_type in _HANDLED
        and index == 0
        and user.outputs[0].shape is not None
        and (len(user.outputs[0].shape) <= limits.MAX_RANK or _is_passed_on(user.outputs[0]))
        for user, index in value.uses()
    )


# -- sizes ---------------------------------------------------------------------------------


def _reshaped(context: Context, node: onnx_ir.Node, dims: list[Size]) -> list[Size]:
    """The sizes after a node that leaves the order of the elements."""
    if node.op_type == "Identity":
        return dims
    if node.op_type == "Flatten":
        axis = number(node, "axis", 1)
        return [sizing.product(context, part) for part in (dims[:axis], dims[axis:])]
    if node.op_type == "Reshape":
        return _target(context, node, dims)
    given = context.given(node, 1, "axes")
    if node.op_type == "Unsqueeze":
        assert given is not None
        rank = len(dims) + given.size
        added = {int(axis) % rank for axis in given.ravel()}
        rest = iter(dims)
        return [1 if axis in added else next(rest) for axis in range(rank)]
    if given is None:
        raise Refused(limits.RANK)
    gone = {int(axis) % len(dims) for axis in given.ravel()}
    return [dim for axis, dim in enumerate(dims) if axis not in gone]


def _target(context: Context, node: onnx_ir.Node, dims: list[Size]) -> list[Size]:
    """The sizes of a Reshape, none of them 0 or -1."""
    array = context.array(node.inputs[1])
    if array is not None:
        wanted: list[Size] = [int(item) for item in array.ravel()]
    else:
        var = context.var(node.inputs[1])
        if var.sym_val is None:  # which may hold 0 or -1
            raise Refused("a shape of more than 5 axes of which nothing is known")
        wanted = sizing.elements(context, var)
    for axis, known in enumerate(context.shape(node.outputs[0])):
        if isinstance(known, int):
            wanted[axis] = known
        elif not free(wanted[axis]) and wanted[axis] == 0:
            wanted[axis] = dims[axis]
    others = [item for item in wanted if free(item) or item != -1]
    if len(others) == len(wanted):
        return wanted
    whole, rest = (sizing.product(context, items) for items in (dims, others))
    left = sizing.compute(context, "floor_div", whole, rest)
    return [left if not free(item) and item == -1 else item for item in wanted]


def _repeated(
    context: Context, node: onnx_ir.Node, x: Var, dims: list[Size]
) -> tuple[Var, list[Size]]:
    """The elements after an Expand or Tile, and the sizes: an axis at a time."""
    repeats = _repeats(context, node, dims)
    dims = [1] * (len(repeats) - len(dims)) + dims
    for axis, count in enumerate(repeats):
        if count == 1:
            continue
        before, after = (sizing.product(context, part) for part in (dims[:axis], dims[axis + 1 :]))
        x = sizing.reshape(context, x, [before, dims[axis], after])
        x = context.op("tile", x=x, reps=[1, count, 1])
        dims = [*dims[:axis], sizing.compute(context, "mul", dims[axis], count), *dims[axis + 1 :]]
    return x, dims


def _repeats(context: Context, node: onnx_ir.Node, dims: list[Size]) -> list[int]:
    """How often each axis comes.

    Raises:
        Refused: That isn't known.
    """
    given = context.needed(node, 1, "sizes of more than 5 axes").ravel()
    wanted = [int(item) for item in given]
    if node.op_type == "Tile":
        return wanted
    wanted = [1] * (len(dims) - len(wanted)) + wanted
    own = [1] * (len(wanted) - len(dims)) + dims
    if any(free(dim) and item != 1 for dim, item in zip(own, wanted, strict=True)):
        raise Refused("an Expand to more than 5 axes of one that may have size 1 or not")
    return [1 if dim == item else item for dim, item in zip(own, wanted, strict=True)]


# -- permutations --------------------------------------------------------------------------


def _transposed(context: Context, x: Var, dims: list[Size], perm: Sequence[int]) -> Var:
    """The elements in the order that they have after a Transpose."""
    kept = [axis for axis, dim in enumerate(dims) if free(dim) or dim != 1]
    order = [kept.index(axis) for axis in perm if axis in kept]
    sizes = [dims[axis] for axis in kept]
    for step in _steps(order):
        blocks = sorted(step)
        joined = [[sizes[axis] for axis in block] for block in blocks]
        x = sizing.reshape(context, x, [sizing.product(context, block) for block in joined])
        x = context.op("transpose", x=x, perm=[blocks.index(block) for block in step])
        sizes = [sizes[axis] for block in step for axis in block]
    return x


Step = tuple[tuple[int, ...], ...]
"""A permutation of blocks of neighbouring axes, in their new order."""


def _blocks(perm: Sequence[int]) -> Step:
    """A permutation as one of the fewest blocks."""
    blocks: list[list[int]] = []
    for axis in perm:
        if blocks and axis == blocks[-1][-1] + 1:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    return tuple(tuple(block) for block in blocks)


def _steps(perm: Sequence[int]) -> list[Step]:
    """One or two steps of up to five blocks that make a permutation; none where it is none.

    Raises:
        Refused: Two don't.
    """
    whole = _blocks(perm)
    if len(whole) <= 1:
        return []
    if len(whole) <= limits.MAX_RANK:
        return [whole]
    for first in _single_steps(len(perm)):
        between = [axis for block in first for axis in block]
        rest = _blocks([between.index(axis) for axis in perm])
        if len(rest) <= limits.MAX_RANK:
            return [first, rest]
    raise Refused(limits.RANK)


def _single_steps(axes: int) -> Iterator[Step]:
    """All permutations of the axes in five blocks."""
    for cuts in combinations(range(1, axes), limits.MAX_RANK - 1):
        ends = [0, *cuts, axes]
        blocks = [tuple(range(a, b)) for a, b in pairwise(ends)]
        yield from permutations(blocks)
