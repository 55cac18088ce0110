"""Which options table of the schema goes with which operator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

_SHARED = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MULTINOMIAL": "RandomOptions",
    "RANDOM_STANDARD_NORMAL": "RandomOptions",
    "RANDOM_UNIFORM": "RandomOptions",
    "REDUCE_ALL": "ReducerOptions",
    "REDUCE_ANY": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "SUM": "ReducerOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}
"""Operators whose table isn't called after them (comments of ``tflite.fbs``)."""


def options_table(op: str, options: Mapping[str, Any]) -> tuple[int, Any]:
    """The table's number in the union ``BuiltinOptions`` and its object; (0, None) without options.

    Raises:
        ValueError: The operator has no options, or none of a name.
    """
    name = _table_name(op)
    if name is None:
        if options and not has_second_table(op):
            raise ValueError(f"{op} has no options, but was given {', '.join(options)}")
        return 0, None
    return int(getattr(schema.BuiltinOptions, name)), _filled(name, options)


def second_table(op: str, options: Mapping[str, Any]) -> tuple[int, Any]:
    """The same of the union ``BuiltinOptions2``, which newer operators have theirs in."""
    name = _table_name(op, second=True)
    if name is None:
        return 0, None
    return int(getattr(schema.BuiltinOptions2, name)), _filled(name, options)


def has_second_table(op: str) -> bool:
    """Whether an operator's options are in ``BuiltinOptions2``."""
    return _table_name(op, second=True) is not None


def _filled(name: str, options: Mapping[str, Any]) -> Any:
    table = getattr(schema, f"{name}T")()
    for field, value in options.items():
        if not hasattr(table, field):
            raise ValueError(f"{name} has no field {field!r}")
        setattr(table, field, value)
    for field, value in vars(table).items():
        if isinstance(value, (list, tuple)):
            setattr(table, field, np.asarray(value, np.int32))
    return table


def code_of(op: str) -> int:
    """The operator's number in ``BuiltinOperator``."""
    return int(getattr(schema.BuiltinOperator, op))


@cache
def _table_name(op: str, second: bool = False) -> str | None:
    if op in _SHARED and not second:
        return _SHARED[op]
    wanted = f"{op.replace('_', '')}options".lower()
    union = schema.BuiltinOptions2 if second else schema.BuiltinOptions
    return next((name for name in vars(union) if name.lower() == wanted), None)
