"""ONNX's types in MIL, which has float16, float32, int32 and bool to compute with."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from emitters.coreml import limits

Array = np.ndarray[Any, Any]
DataType = onnx_ir.DataType

_HELD = {
    DataType.FLOAT: "fp32",
    DataType.FLOAT16: "fp16",
    DataType.BOOL: "bool",
    **dict.fromkeys(
        (DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16, DataType.INT32,
         DataType.UINT32, DataType.INT64, DataType.UINT64, DataType.INT4, DataType.UINT4),
        "int32",
    ),
}  # fmt: skip
"""What a tensor of each type is held in. Integers of all widths are int32: what wraps around or
saturates in a narrower type is the lowerings' to do."""

_MISSING = {
    DataType.DOUBLE: limits.DOUBLE,
    DataType.BFLOAT16: limits.BFLOAT,
    DataType.STRING: limits.STRINGS,
    DataType.COMPLEX64: limits.COMPLEX,
    DataType.COMPLEX128: limits.COMPLEX,
}

NUMPY = {"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "bool": np.bool_}


def held(dtype: DataType | None) -> str:
    """The MIL type that holds an ONNX type: ``fp32``, ``fp16``, ``int32`` or ``bool``.

    Raises:
        Refused: There is none.
    """
    if dtype is None:
        raise Refused("a tensor of unknown type")
    name = _HELD.get(dtype)
    if name is None:
        raise Refused(_MISSING.get(dtype, limits.SMALL_FLOATS))
    return name


def narrowed(array: Array, *, saturate: bool = False) -> Array:
    """A constant as MIL holds it.

    Args:
        array: Of any type that :func:`held` takes.
        saturate: Whether integers too large are the largest: ends of slices are.

    Raises:
        Refused: Integers don't fit into 32 bits, or there are no elements.
    """
    if array.dtype.kind in "iu" or array.dtype.name in ("int4", "uint4"):
        info = np.iinfo(np.int32)
        wide = array.astype(np.int64) if array.dtype != np.uint64 else array
        if wide.size and (wide.min() < info.min or wide.max() > info.max):
            if not saturate:
                raise Refused(limits.WIDE)
            wide = np.clip(wide, info.min, info.max)
        return np.ascontiguousarray(wide, np.int32).reshape(array.shape)
    if array.dtype.kind == "b" or array.dtype in (np.float32, np.float16):
        return array
    return array.astype(NUMPY[held(DataType.from_numpy(array.dtype))])
