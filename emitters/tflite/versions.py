"""The version of each operator that a file asks its runtime for.

A runtime that is too old for what an operator is given refuses the file by its version, instead of
failing inside. Source: ``GetBuiltinOperatorVersion`` in ``op_version.cc`` of LiteRT.
"""

from __future__ import annotations

from collections.abc import Mapping

from emitters.tflite.graph import DataType, Operator
from emitters.tflite.version_rules import RULES

F32, STRING, BOOL = DataType.FLOAT, DataType.STRING, DataType.BOOL
I8, I16, I32, I64 = DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64
U8, U32 = DataType.UINT8, DataType.UINT32

_SMALL = {I8: 2}
_BOTH = {I16: 3, I8: 2}
_EITHER = {I8: 2, I16: 2}

BY_TYPE: dict[str, Mapping[DataType, int]] = {
    **dict.fromkeys(
        ("DEPTH_TO_SPACE", "GREATER", "LESS_EQUAL", "LOG_SOFTMAX", "SPACE_TO_DEPTH", "SPLIT_V",
         "SQUARED_DIFFERENCE", "SUM"),
        _SMALL,
    ),
    **dict.fromkeys(
        ("AVERAGE_POOL_2D", "GREATER_EQUAL", "LESS", "LOGISTIC", "MAX_POOL_2D", "MEAN",
         "MIRROR_PAD", "REDUCE_MAX", "REDUCE_MIN", "RELU6", "RSQRT", "SOFTMAX", "TANH"),
        _BOTH,
    ),
    **dict.fromkeys(("EXP", "FLOOR_MOD", "LOG", "REDUCE_PROD"), _EITHER),
    "ARG_MAX": {BOOL: 3, I8: 2},
    "ARG_MIN": {BOOL: 3, I8: 2},
    "CONCATENATION": {U32: 4, **_BOTH},
    "EQUAL": {I16: 4, STRING: 3, I8: 2},
    "FLOOR_DIV": {I16: 3, I8: 3, F32: 2},
    "GELU": {I8: 2, U8: 2},
    "LEAKY_RELU": {I16: 2},
    "NOT_EQUAL": {STRING: 3, I8: 2},
    "PACK": {U32: 4, **_BOTH},
    "RANGE": {I64: 2},
    "RELU": {I16: 3, I8: 2, U8: 2},
    "REVERSE_V2": {I8: 3, BOOL: 2},
    "SELECT_V2": {U32: 2},
    "SIGN": {I32: 2},
    "SQUEEZE": {STRING: 2},
    "TILE": {I8: 3, STRING: 2},
    "UNPACK": {I8: 2, U8: 2, BOOL: 3, I16: 4},
}  # fmt: skip
"""Operators of which nothing but the first input's type counts; 1 for types that aren't listed."""


def version_of(operator: Operator) -> int:
    """The lowest version that has what the operator uses."""
    rule = RULES.get(operator.op)
    if rule is not None:
        return rule(operator)
    tensor = operator.inputs[0] if operator.inputs else None
    first = DataType.UNDEFINED if tensor is None else tensor.dtype
    return BY_TYPE.get(operator.op, {}).get(first, 1)
