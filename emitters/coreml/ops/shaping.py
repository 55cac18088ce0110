"""Reshape, Transpose, Expand and their like: the same numbers in other shapes; Shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.attributes import ints, number
from converter.ir.refused import Refused
from emitters.coreml import limits, sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import Size


@lowers("Identity")
def identity(context: Context, node: onnx_ir.Node) -> None:
    context.give(node.outputs[0], context.var(node.inputs[0]))


@lowers("Transpose")
def transpose(context: Context, node: onnx_ir.Node) -> None:
    """transpose; without ``perm``, ONNX's reverses the axes."""
    x = context.var(node.inputs[0])
    perm = ints(node, "perm", range(len(x.shape))[::-1])
    same = perm == sorted(perm)
    context.give(node.outputs[0], x if same else context.op("transpose", x=x, perm=perm))


# -- reshapes ------------------------------------------------------------------------------


@lowers("Reshape")
def reshape(context: Context, node: onnx_ir.Node) -> None:
    """reshape. Sizes that ONNX's inference knows are numbers; of the others one may be -1, and
    ONNX's 0 is the input's size (MIL's counts from the last axis, from iOS17 on)."""
    x = context.var(node.inputs[0])
    if (
        node.outputs[0].shape is not None and len(node.outputs[0].shape) > limits.MAX_RANK
    ):  # the model's output: its last are joined
        context.give(node.outputs[0], x)
        return
    target = context.array(node.inputs[1])
    if number(node, "allowzero", 0) and target is not None and 0 in target:
        raise Refused(limits.EMPTY)
    known = _known(context, node.outputs[0])
    if target is not None:
        wanted = [int(item) for item in target.ravel()]
        wanted = [_first(known, axis, item) for axis, item in enumerate(wanted)]
        made = _to_constant(context, x, wanted)
    else:
        zeros = not number(node, "allowzero", 0)
        made = _to_computed(context, x, context.var(node.inputs[1]), known, zeros=zeros)
    context.give(node.outputs[0], made)


def _known(context: Context, value: onnx_ir.Value) -> list[int | None] | None:
    """The sizes that ONNX's inference knows of a value; None where it knows nothing."""
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) else None for dim in context.shape(value)]


def _first(known: list[int | None] | None, axis: int, item: int) -> int:
    """ONNX's inferred size along an axis, or ``item`` where that isn't known."""
    if known is None or axis >= len(known) or known[axis] is None:
        return item
    return int(known[axis] or 0)


def _to_constant(context: Context, x: Var, wanted: list[int]) -> Var:
    """To numbers, 0 and -1 as ONNX has them."""
    sizes: list[Size] = list(wanted)
    for axis, item in enumerate(wanted):
        if item == 0:
            if axis >= len(x.shape):
                raise Refused(f"its shape has a 0 where the input has no axis {axis}")
            # coremltools' inference takes MIL's own 0 for a size where sizes are free
            sizes[axis] = sizing.size(context, x, axis)
    return sizing.reshape(context, x, sizes)


def _to_computed(
    context: Context, x: Var, target: Var, known: list[int | None] | None, *, zeros: bool
) -> Var:
    """To sizes that are computed. Those of shapes are never 0; whether others are is looked at."""
    if free(target.shape[0]):
        raise Refused("a shape with a computed number of axes", "fix the input's sizes (--input)")
    count = int(target.shape[0])
    given = [None] * count if target.sym_val is None else list(np.asarray(target.sym_val).ravel())
    guarded = zeros and count != len(x.shape)
    sizes: list[Size] = []
    as_it_is = count > 1
    for axis, item in enumerate(given):
        inferred = known[axis] if known is not None and axis < len(known) else None
        if inferred is not None:
            sizes.append(inferred)
            as_it_is = as_it_is and not free(item) and item == inferred
        elif item is None:
            sizes.append(_element(context, x, target, axis, zeros=guarded))
            as_it_is = as_it_is and not guarded
        elif free(item):
            sizes.append(sizing.element(context, target, axis))
        elif item == 0 and zeros:
            sizes.append(sizing.size(context, x, axis))
            as_it_is = False
        else:
            sizes.append(int(item))
    computed = sum(free(item) for item in sizes)
    if as_it_is and (computed > 1 or -1 in [item for item in sizes if not free(item)]):
        return context.op("reshape", x=x, shape=target)
    return sizing.reshape(context, x, sizes)


def _element(context: Context, x: Var, target: Var, axis: int, *, zeros: bool) -> Size:
    """One size of a target; where it is 0, that of ``x``, if MIL's own 0 means something else."""
    item = sizing.element(context, target, axis)
    if not zeros or axis >= len(x.shape):
        return item
    own = sizing.size(context, x, axis)
    own = own if free(own) else np.asarray([own], np.int32)
    none = context.op("equal", x=item, y=np.int32(0))
    return context.op("select", cond=none, a=own, b=item)


@lowers("Flatten")
def flatten(context: Context, node: onnx_ir.Node) -> None:
    """reshape to two axes."""
    x = context.var(node.inputs[0])
    rank = len(x.shape)
    axis = number(node, "axis", 1)
    axis = axis + rank if axis < 0 else axis
    sizes = sizing.sizes(context, x) if rank else []
    before, after = sizes[:axis], sizes[axis:]
    if all(not free(item) for item in before):
        wanted: list[Size] = [sizing.product(context, before), -1]
    elif all(not free(item) for item in after):
        wanted = [-1, sizing.product(context, after)]
    else:
        wanted = [sizing.product(context, before), -1]
    context.give(node.outputs[0], sizing.reshape(context, x, wanted))


@lowers("Squeeze")
def squeeze(context: Context, node: onnx_ir.Node) -> None:
    """squeeze; a reshape where MIL doesn't know that an axis has size 1."""
    x = context.var(node.inputs[0])
    given = context.given(node, 1, "axes")
    if given is None:
        if any(free(dim) for dim in x.shape):
            raise Refused(
                "axes that depend on the input's sizes",
                "give sizes above 1 that make the axes known (--dim NAME=SIZE), or fix them "
                "(--input, --batch)",
            )
        axes = [axis for axis, dim in enumerate(x.shape) if dim == 1]
    else:
        axes = sorted(int(axis) % len(x.shape) for axis in given.ravel()) if x.shape else []
    if not axes:
        made = x
    elif all(not free(x.shape[axis]) for axis in axes):
        made = context.op("squeeze", x=x, axes=axes)
    else:
        rest = [axis for axis in range(len(x.shape)) if axis not in axes]
        made = sizing.reshape(context, x, [sizing.size(context, x, axis) for axis in rest])
    context.give(node.outputs[0], made)


@lowers("Unsqueeze")
def unsqueeze(context: Context, node: onnx_ir.Node) -> None:
    x = context.var(node.inputs[0])
    given = context.needed(node, 1, "axes")
    rank = len(x.shape) + given.size
    axes = sorted(int(axis) % rank for axis in given.ravel())
    context.give(node.outputs[0], context.op("expand_dims", x=x, axes=axes) if axes else x)


# -- repetitions ---------------------------------------------------------------------------


@lowers("Expand")
def expand(context: Context, node: onnx_ir.Node) -> None:
    """tile; an addition of nothing where it isn't known which axes have size 1."""
    x = context.var(node.inputs[0])
    names = context.shape(node.outputs[0])
    target = context.array(node.inputs[1])
    if target is not None:
        given: list[Any] = [int(item) for item in target.ravel()]
    else:
        given = _symbols(context.var(node.inputs[1]), len(names))
    given = [1] * (len(names) - len(given)) + given
    own = [None] * (len(names) - len(x.shape)) + list(context.shape(node.inputs[0]))
    dims = [1] * (len(names) - len(x.shape)) + list(x.shape)
    wanted: list[Size] = []
    for axis, name in enumerate(names):
        if name == own[axis] or (given[axis] is not None and given[axis] == dims[axis]):
            wanted.append(1)
        elif isinstance(name, int):
            wanted.append(name)
        elif isinstance(given[axis], int):
            wanted.append(given[axis])
        else:
            place = axis - len(names)
            wanted.append(sizing.element(context, context.var(node.inputs[1]), place))
    context.give(node.outputs[0], sizing.broadcast(context, x, wanted))


def _symbols(target: Var, rank: int) -> list[Any]:
    """What is known of a computed shape: numbers, symbols of other shapes, None."""
    if free(target.shape[0]):
        raise Refused("a shape with a computed number of axes", "fix the input's sizes (--input)")
    if target.sym_val is None:
        return [None] * min(int(target.shape[0]), rank)
    known = list(np.asarray(target.sym_val).ravel())
    return [item if free(item) else int(item) for item in known]


@lowers("Tile")
def tile(context: Context, node: onnx_ir.Node) -> None:
    x = context.var(node.inputs[0])
    repeats = context.array(node.inputs[1])
    if repeats is None:
        made = context.op("tile", x=x, reps=context.var(node.inputs[1]))
    elif 0 in repeats:
        raise Refused(limits.EMPTY)
    elif np.all(repeats == 1):
        made = x
    else:
        made = context.op("tile", x=x, reps=repeats.ravel().astype(np.int32))
    context.give(node.outputs[0], made)


# -- shapes --------------------------------------------------------------------------------


@lowers("Shape")
def shape(context: Context, node: onnx_ir.Node) -> None:
    """shape, and a part of it."""
    x = context.var(node.inputs[0])
    rank = len(x.shape)
    start, end, _ = slice(number(node, "start", 0), number(node, "end", rank)).indices(rank)
    if start >= end:
        raise Refused(limits.EMPTY)
    known = sizing.numbers(x.shape[start:end])
    if known is not None:
        made = context.const(np.asarray(known, np.int32))
    elif end - start == rank:
        made = context.op("shape", x=x)
    else:
        wanted = [sizing.size(context, x, axis) for axis in range(start, end)]
        made = sizing.vector(context, wanted)
    context.give(node.outputs[0], made)
