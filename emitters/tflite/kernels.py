"""What LiteRT's built-in kernels take: types and ranks, by operator.

A file that asks more of a kernel is refused by the runtime when it is opened, or when it runs.
Source: the ``Prepare`` and ``Eval`` functions in ``tflite/kernels/*.cc`` of LiteRT 2.3, each line
held against the runtime by the conformance tests.
"""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor

F32, I32, I64 = DataType.FLOAT, DataType.INT32, DataType.INT64
I8, U8, I16, U16, U32 = (
    DataType.INT8,
    DataType.UINT8,
    DataType.INT16,
    DataType.UINT16,
    DataType.UINT32,
)
BOOL = DataType.BOOL

TYPES: dict[str, frozenset[DataType]] = {
    "ABS": frozenset({F32, I32}),
    "ADD": frozenset({F32, I32, I64}),
    "BITWISE_XOR": frozenset({I8, U8, I16, U16, I32, U32}),
    "DIV": frozenset({F32, I32}),
    "EQUAL": frozenset({BOOL, F32, I16, I32, I64}),
    "FLOOR_DIV": frozenset({F32, I32}),
    "FLOOR_MOD": frozenset({F32, I32, I64}),
    "GREATER": frozenset({F32, I16, I32, I64}),
    "GREATER_EQUAL": frozenset({F32, I16, I32, I64}),
    "LESS": frozenset({F32, I16, I32, I64}),
    "LESS_EQUAL": frozenset({F32, I16, I32, I64}),
    "MAXIMUM": frozenset({F32, I32, I64}),
    "MINIMUM": frozenset({F32, I32, I64}),
    "MUL": frozenset({F32, I32, I64}),
    "NEG": frozenset({F32, I32, I64}),
    "NOT_EQUAL": frozenset({BOOL, F32, I16, I32, I64}),
    "POW": frozenset({F32, I32}),
    "REDUCE_MAX": frozenset({F32, I32, I64}),
    "REDUCE_MIN": frozenset({F32, I32, I64}),
    "REDUCE_PROD": frozenset({F32, I32, I64}),
    "REVERSE_SEQUENCE": frozenset({F32, U8, I16, I32, I64}),
    "RIGHT_SHIFT": frozenset({I8, U8, I16, U16, I32, U32}),
    "SIGN": frozenset({F32, I32}),
    "SQUARED_DIFFERENCE": frozenset({F32, I32}),
    "SUB": frozenset({F32, I32, I64}),
    "SUM": frozenset({F32, I32, I64}),
}
"""The types of numbers without scales; an operator that isn't listed takes float32 alone."""

_WIDER = {
    BOOL: (I32, F32),
    I8: (I32, F32),
    U8: (I32, F32),
    I16: (I32, F32),
    U16: (I32, F32),
    U32: (I64,),
    I32: (I64,),
}
"""Types that hold every value of a type; integers wrap around on the way back as they do in C."""


def computed_in(op: str, dtype: DataType) -> DataType:
    """The type in which an operator can be computed for data of ``dtype``.

    Raises:
        Refused: No kernel takes it, nor a type that holds all its values.
    """
    known = TYPES.get(op, frozenset({F32}))
    for candidate in (dtype, *_WIDER.get(dtype, ())):
        if candidate in known:
            return candidate
    raise Refused(
        f"LiteRT's {op} doesn't take {dtype.name.lower()}, nor a wider type",
        "cast to float32 or int32 in the model",
    )


def widened(context: Context, op: str, *tensors: Tensor) -> list[Tensor]:
    """The operands in a type that the operator's kernel takes."""
    target = computed_in(op, tensors[0].dtype)
    return [build.cast(context, tensor, target) for tensor in tensors]


def binary(context: Context, op: str, a: Tensor, b: Tensor) -> Tensor:
    """A binary operator of broadcasting, in the operands' type as ONNX has it.

    Args:
        context: Where it goes.
        op: The schema's name.
        a: The first operand.
        b: The second operand, of the same type.
    """
    first, second = widened(context, op, a, b)
    return build.cast(context, build.binary(context, op, first, second), a.dtype)


def compare(context: Context, op: str, a: Tensor, b: Tensor) -> Tensor:
    """A comparison with broadcasting.

    Args:
        context: Where it goes.
        op: EQUAL, LESS, GREATER...
        a: The first operand.
        b: The second operand, of the same type.

    Returns:
        A tensor of bool.
    """
    first, second = widened(context, op, a, b)
    return build.binary(context, op, first, second, BOOL)


def unary(context: Context, op: str, x: Tensor) -> Tensor:
    """An operator of one input, in its type.

    Of int64, |x| is max(x, -x), and the sign is x between -1 and 1.

    Args:
        context: Where it goes.
        op: The schema's name.
        x: The input.
    """
    if x.dtype == I64 and op == "ABS":
        return build.binary(context, "MAXIMUM", x, build.unary(context, "NEG", x))
    if x.dtype == I64 and op == "SIGN":
        up = build.binary(context, "MAXIMUM", x, build.scalar(context, -1, x))
        return build.binary(context, "MINIMUM", up, build.scalar(context, 1, x))
    (wide,) = widened(context, op, x)
    return build.cast(context, build.unary(context, op, wide), x.dtype)
