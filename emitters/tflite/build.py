"""Small pieces that many lowerings are made of, on TFLite tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.ir.refused import Refused
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Shape, Tensor, known

FUSED = {"NONE": 0, "RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3, "TANH": 4, "SIGN_BIT": 5}
"""``ActivationFunctionType`` of the schema."""

TENSOR_TYPES: dict[DataType, int] = {
    DataType.FLOAT: 0,
    DataType.FLOAT16: 1,
    DataType.INT32: 2,
    DataType.UINT8: 3,
    DataType.INT64: 4,
    DataType.STRING: 5,
    DataType.BOOL: 6,
    DataType.INT16: 7,
    DataType.COMPLEX64: 8,
    DataType.INT8: 9,
    DataType.DOUBLE: 10,
    DataType.COMPLEX128: 11,
    DataType.UINT64: 12,
    DataType.UINT32: 15,
    DataType.UINT16: 16,
    DataType.INT4: 17,
    DataType.BFLOAT16: 18,
}
"""``TensorType`` of the schema."""


def reshape(context: Context, x: Tensor, shape: Sequence[int | str], name: str = "") -> Tensor:
    """A tensor in another shape.

    Args:
        context: Where it goes.
        x: The tensor.
        shape: The result's; one free dimension is -1 in the file, more are put together at run
            time.
        name: Roughly what the result is called; else after the node.
    """
    target = tuple(shape)
    if target == x.shape:
        return x
    if x.data is not None and known(target) is not None:
        return context.constant(x.data.reshape(known(target)), name or x.name, quant=x.quant)
    free = [dim for dim in target if isinstance(dim, str)]
    if len(free) <= 1 and 0 not in target:
        numbers = [dim if isinstance(dim, int) else -1 for dim in target]
        return context.emit(
            "RESHAPE", [x, context.integers(numbers)], target, quant=x.quant, name=name,
            options={"newShape": np.asarray(numbers, np.int32)},
        )  # fmt: skip
    unknown = [dim for dim in dict.fromkeys(free) if not context.knows(dim)]
    if len(unknown) == 1 and free.count(unknown[0]) == 1 and 0 not in target:
        sizes = context.sizes([-1 if dim == unknown[0] else dim for dim in target])
    else:
        sizes = context.sizes(target)
    return context.emit("RESHAPE", [x, sizes], target, quant=x.quant, name=name)


def transpose(context: Context, x: Tensor, perm: Sequence[int], name: str = "") -> Tensor:
    """A tensor with its axes in another order.

    Args:
        context: Where it goes.
        x: The tensor; a constant is moved here.
        perm: The axis of ``x`` for each axis of the result.
        name: Roughly what the result is called; else after the node.
    """
    if list(perm) == list(range(x.rank)):
        return x
    shape = tuple(x.shape[axis] for axis in perm)
    quant = x.quant
    if quant is not None and quant.axis is not None:
        quant = quant.moved(list(perm).index(quant.axis))
    if x.data is not None:
        return context.constant(x.data.transpose(perm), name or x.name, quant=quant)
    return context.emit("TRANSPOSE", [x, context.integers(perm)], shape, quant=quant, name=name)


def cast(context: Context, x: Tensor, dtype: DataType) -> Tensor:
    """A tensor in another type.

    Args:
        context: Where it goes.
        x: The tensor; a constant is cast here.
        dtype: The result's type.
    """
    if x.dtype == dtype:
        return x
    if x.data is not None:
        return context.constant(x.data.astype(dtype.numpy()), x.name)
    return context.emit(
        "CAST", [x], x.shape, dtype,
        options={"inDataType": TENSOR_TYPES[x.dtype], "outDataType": TENSOR_TYPES[dtype]},
    )  # fmt: skip


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape that numpy's broadcasting gives; a free dimension beside a number above 1 is that
    number, and beside 1 stays free."""
    rank = max(map(len, shapes))
    result: list[int | str] = []
    for place in range(rank):
        dims = [s[place - rank + len(s)] for s in shapes if place - rank + len(s) >= 0]
        fixed = [dim for dim in dims if isinstance(dim, int) and dim != 1]
        free = [dim for dim in dims if isinstance(dim, str)]
        result.append(fixed[0] if fixed else free[0] if free else 1)
    return tuple(result)


def binary(
    context: Context, op: str, a: Tensor, b: Tensor, dtype: DataType | None = None
) -> Tensor:
    """A binary operator with broadcasting.

    Args:
        context: Where it goes.
        op: ADD, SUB, MUL, DIV, MAXIMUM...
        a: The first operand.
        b: The second operand, of the same type.
        dtype: The result's type; None: the operands'.
    """
    options = {"fusedActivationFunction": 0} if op in _FUSING else {}
    return context.emit(
        op, [a, b], broadcast_shape(a.shape, b.shape), dtype or a.dtype, options=options
    )


_FUSING = frozenset({"ADD", "SUB", "MUL", "DIV"})


def unary(context: Context, op: str, x: Tensor, dtype: DataType | None = None) -> Tensor:
    """An operator of one input and an output of its shape.

    Args:
        context: Where it goes.
        op: NEG, EXP, SQRT...
        x: The input.
        dtype: The result's type; None: the input's.
    """
    return context.emit(op, [x], x.shape, dtype or x.dtype)


def scalar(context: Context, number: float, like: Tensor) -> Tensor:
    """A constant of no axes.

    Args:
        context: Where it goes.
        number: What it holds.
        like: Gives the type.
    """
    return context.constant(np.asarray(number, like.dtype.numpy()))


def pad(
    context: Context,
    x: Tensor,
    before: Sequence[int],
    after: Sequence[int],
    value: float = 0.0,
) -> Tensor:
    """A tensor with a constant border.

    Args:
        context: Where it goes.
        x: The tensor.
        before: Elements added before each axis.
        after: Elements added behind each axis.
        value: What the border holds; the real number where ``x`` is of integers with scales.

    Raises:
        Refused: A number of elements is negative.
    """
    if not any(before) and not any(after):
        return x
    if min(*before, *after) < 0:
        raise Refused("negative padding crops, which needs a Slice here")
    shape = tuple(
        dim + low + high if isinstance(dim, int) else f"{dim}+{low + high}" if low + high else dim
        for dim, low, high in zip(x.shape, before, after, strict=True)
    )
    pads = context.constant(np.asarray(list(zip(before, after, strict=True)), np.int32))
    if x.quant is not None:
        limits = np.iinfo(x.dtype.numpy())
        stored = value / float(x.quant.scale[0]) + int(x.quant.zero_point[0])
        near = np.rint(np.clip(stored, limits.min, limits.max)).astype(x.dtype.numpy())
        fill = context.constant(near.reshape(1), quant=x.quant)
        return context.emit("PADV2", [x, pads, fill], shape, quant=x.quant)
    if value == 0.0:
        return context.emit("PAD", [x, pads], shape)
    return context.emit("PADV2", [x, pads, scalar(context, value, x)], shape)
