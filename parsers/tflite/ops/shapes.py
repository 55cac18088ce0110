"""Other shapes for the same elements, and questions about shapes."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.ops.spectral import COMPLEX, reshape_complex
from parsers.tflite.registry import lowers
from parsers.tflite.sizes import size, vector

_MOST = 32
"""Dimensions that a shape may have."""


@lowers("RESHAPE")
def reshape(ctx: Context) -> None:
    """Reshape, to the second input or to the options' ``new_shape``. A 0 there is an empty
    dimension, where ONNX takes it for a size to keep unless told (``allowzero``)."""
    shape = ctx.integers(1)
    if shape is None and not ctx.has(1):
        shape = [int(item) for item in ctx.option("newShape", [])]
    if ctx.input(0).dtype == COMPLEX:
        ctx.set_raw(0, reshape_complex(ctx, shape))
        return
    (value,) = ctx.moved(0)
    if shape is None:
        target, allow_zero = ctx.int64(1), None
    else:
        target, allow_zero = ctx.ints(shape), 1 if 0 in shape and -1 not in shape else None
    ctx.set_moved(0, ctx.add("Reshape", value, target, allowzero=allow_zero))


@lowers("SQUEEZE")
def squeeze(ctx: Context) -> None:
    """Squeeze of the options' dimensions; of all that are 1 where there are none."""
    (value,) = ctx.moved(0)
    axes = [int(item) for item in ctx.option("squeezeDims", [])]
    if not axes:
        axes = [axis for axis, count in enumerate(ctx.shape(0)) if count == 1]
        if len(ctx.output().shape) != ctx.rank(0) - len(axes):
            ctx.refuse("which dimensions go depends on a free size")
    ctx.set_moved(0, ctx.add("Squeeze", value, ctx.ints(axes)) if axes else value)


@lowers("EXPAND_DIMS")
def expand_dims(ctx: Context) -> None:
    (value,) = ctx.moved(0)
    ctx.set_moved(0, ctx.add("Unsqueeze", value, ctx.int64(1)))


@lowers("TRANSPOSE")
def transpose(ctx: Context) -> None:
    """Transpose by a constant permutation."""
    permutation = ctx.integers(1)
    if permutation is None:
        ctx.refuse("a permutation that isn't constant")
    (value,) = ctx.moved(0)
    rank = len(permutation)
    ctx.set_moved(0, ctx.transpose(value, [item % rank for item in permutation]))


@lowers("SHAPE")
def shape(ctx: Context) -> None:
    """Shape, in the output's type."""
    ctx.set(0, ctx.cast(ctx.add("Shape", ctx.raw(0)), ctx.output_dtype()))


@lowers("RANK")
def rank(ctx: Context) -> None:
    """The size of the shape."""
    ctx.set(0, ctx.cast(ctx.add("Size", ctx.add("Shape", ctx.raw(0))), ctx.output_dtype()))


@lowers("PACK")
def pack(ctx: Context) -> None:
    """Unsqueeze of each input, and Concat."""
    axis = int(ctx.option("axis")) % (ctx.rank(0) + 1)
    values = ctx.moved(*range(ctx.n_inputs))
    rows = [ctx.add("Unsqueeze", value, ctx.ints([axis])) for value in values]
    ctx.set_moved(0, ctx.add("Concat", *rows, axis=axis))


@lowers("UNPACK")
def unpack(ctx: Context) -> None:
    """Split into slices of 1, and Squeeze of each."""
    (value,) = ctx.moved(0)
    axis = int(ctx.option("axis")) % ctx.rank(0)
    parts = _split(ctx, value, axis, [1] * ctx.n_outputs)
    for i, part in enumerate(parts):
        ctx.set_moved(i, ctx.add("Squeeze", part, ctx.ints([axis])))


@lowers("CONCATENATION")
def concatenation(ctx: Context) -> None:
    axis = int(ctx.option("axis"))
    if ctx.option("fusedActivationFunction"):
        values = [ctx.value(i) for i in range(ctx.n_inputs)]
        ctx.set(0, ctx.activate(ctx.add("Concat", *values, axis=axis)))
        return
    values = ctx.moved(*range(ctx.n_inputs))
    ctx.set_moved(0, ctx.add("Concat", *values, axis=axis))


@lowers("SPLIT")
def split(ctx: Context) -> None:
    """Split into equal parts; the axis is the first input."""
    axis = _constant_axis(ctx, 0)
    (value,) = ctx.moved(1)
    if ctx.n_outputs == 1:
        ctx.set_moved(0, value)
        return
    parts = ctx.add_many("Split", ctx.n_outputs, value, axis=axis, num_outputs=ctx.n_outputs)
    for i, part in enumerate(parts):
        ctx.set_moved(i, part)


@lowers("SPLIT_V")
def split_v(ctx: Context) -> None:
    """Split into parts of given sizes, one of which may be -1: what is left over."""
    axis, sizes = _constant_axis(ctx, 2), ctx.integers(1)
    if sizes is None:
        ctx.refuse("sizes that aren't constant")
    if -1 in sizes:
        whole = ctx.shape(0)[axis]
        if whole < 0:
            ctx.refuse("a part of the rest of a dimension of free size")
        sizes[sizes.index(-1)] = whole - sum(sizes) - 1
    (value,) = ctx.moved(0)
    for i, part in enumerate(_split(ctx, value, axis, sizes)):
        ctx.set_moved(i, part)


def _split(ctx: Context, value: onnx_ir.Value, axis: int, sizes: list[int]) -> list[onnx_ir.Value]:
    if len(sizes) == 1:
        return [value]
    return list(ctx.add_many("Split", len(sizes), value, ctx.ints(sizes), axis=axis))


def _constant_axis(ctx: Context, i: int) -> int:
    axis = ctx.integers(i)
    if axis is None:
        ctx.refuse("an axis that isn't constant")
    return axis[0]


@lowers("TILE")
def tile(ctx: Context) -> None:
    (value,) = ctx.moved(0)
    ctx.set_moved(0, ctx.add("Tile", value, ctx.int64(1)))


@lowers("BROADCAST_TO")
def broadcast_to(ctx: Context) -> None:
    (value,) = ctx.moved(0)
    ctx.set_moved(0, ctx.add("Expand", value, ctx.int64(1)))


@lowers("BROADCAST_ARGS")
def broadcast_args(ctx: Context) -> None:
    """The larger of each two sizes, after ones in front of the shorter shape."""
    lengths = [ctx.shape(i)[0] for i in (0, 1)]
    if min(lengths) < 0 or max(lengths) > _MOST:
        ctx.refuse(f"shapes of free rank, or of more than {_MOST} dimensions")
    padded = []
    for i, length in enumerate(lengths):
        ones = ctx.ints([1] * (max(lengths) - length))
        vector = ctx.int64(i)
        padded.append(vector if length == max(lengths) else ctx.add("Concat", ones, vector, axis=0))
    ctx.set(0, ctx.cast(ctx.add("Max", *padded), ctx.output_dtype()))


@lowers("FILL")
def fill(ctx: Context) -> None:
    """Expand of the value to the shape."""
    (value,) = ctx.moved(1)
    ctx.set_moved(0, ctx.add("Expand", value, ctx.int64(0)))


@lowers("RANGE")
def range_(ctx: Context) -> None:
    ctx.set(0, ctx.add("Range", *(ctx.value(i) for i in range(3))))


@lowers("ONE_HOT")
def one_hot(ctx: Context) -> None:
    """Where an index equals its place, the on value. (ONNX's OneHot counts negative indices
    from the end, TFLite takes them for none.)"""
    axis = int(ctx.option("axis", -1)) % (ctx.rank(0) + 1)
    indices = ctx.add("Unsqueeze", ctx.int64_like(0), ctx.ints([axis]))
    depth = ctx.add("Squeeze", ctx.int64(1), ctx.ints([0]))
    zero, one = (ctx.const(np.array(item, np.int64)) for item in (0, 1))
    places = ctx.add("Range", zero, depth, one)
    places = ctx.reshape(places, [-1 if k == axis else 1 for k in range(ctx.rank(0) + 1)])
    chosen = ctx.add("Equal", indices, places)
    ctx.set(0, ctx.add("Where", chosen, ctx.value(2), ctx.value(3)))


@lowers("MATRIX_DIAG")
def matrix_diag(ctx: Context) -> None:
    """A square with the last dimension on its diagonal, zero elsewhere."""
    row = ctx.add("Unsqueeze", ctx.value(0), ctx.ints([-2]))
    ctx.set(0, ctx.add("Where", _diagonal(ctx), row, ctx.number(0, ctx.dtype(0))))


@lowers("MATRIX_SET_DIAG")
def matrix_set_diag(ctx: Context) -> None:
    """The first input with the second on its diagonal."""
    rows, columns = ctx.shape(0)[-2:]
    if rows < 0 or rows != columns:
        ctx.refuse("matrices that aren't square or are of free size")
    row = ctx.add("Unsqueeze", ctx.value(1), ctx.ints([-2]))
    ctx.set(0, ctx.add("Where", _diagonal(ctx), row, ctx.value(0)))


def _diagonal(ctx: Context) -> onnx_ir.Value:
    """A square bool matrix, true on the diagonal, as large as the last dimension."""
    count = ctx.reshape(vector(ctx, [size(ctx, 0, -1)]), [])
    zero, one = (ctx.const(np.array(item, np.int64)) for item in (0, 1))
    places = ctx.add("Range", zero, count, one)
    return ctx.add("Equal", ctx.reshape(places, [-1, 1]), places)
