"""A constant's bytes become its array: packed integers, strings and sparse weights unpacked."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from converter.errors import ModelError
from parsers.tflite.sparse import densify

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float64": np.float64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bool": np.bool_,
    "complex64": np.complex64,
    "complex128": np.complex128,
}
"""numpy's type for each that is stored as it is."""

PACKED = {"int4": 4, "uint4": 4, "int2": 2}
"""Bits of the types that share a byte, the first in the lowest bits."""

LARGEST = 1 << 40
"""Bytes above which a tensor's shape can't be meant."""


def constant(content: Array, dtype: str, shape: tuple[int, ...], sparsity: Any, name: str) -> Array:
    """A constant tensor's value.

    Args:
        content: uint8, the buffer.
        dtype: The tensor's type.
        shape: Its dense shape.
        sparsity: The schema's ``SparsityParametersT``, or None.
        name: The tensor's, for messages.

    Returns:
        An array of ``shape``, read-only where it is a view of the file. int4 and int2 come as
        int8, strings as an object array of bytes.

    Raises:
        ModelError: The buffer has another size than the shape needs, or contradicts itself.
    """
    if sparsity is not None:
        return densify(_flat(content, dtype, None, name), shape, sparsity, name)
    return _flat(content, dtype, math.prod(shape), name).reshape(shape)


def _flat(content: Array, dtype: str, count: int | None, name: str) -> Array:
    """``count`` elements; all that are there where it is None."""
    if dtype == "string":
        return _strings(content.tobytes(), count, name)
    if dtype in PACKED:
        return _unpacked(content, dtype, count, name)
    if dtype not in DTYPES:
        raise ModelError(
            f"the tensor {name} of type {dtype} has a constant value", code="model-damaged"
        )
    kind = np.dtype(DTYPES[dtype])
    if count is None and content.nbytes % kind.itemsize == 0:
        count = content.nbytes // kind.itemsize
    if count is None or content.nbytes != count * kind.itemsize:
        raise _misfit(name, dtype, content.nbytes, (count or 0) * kind.itemsize)
    return np.frombuffer(content, kind, count)


def _unpacked(content: Array, dtype: str, count: int | None, name: str) -> Array:
    bits = PACKED[dtype]
    each = 8 // bits
    if count is None:
        count = content.nbytes * each
    needed = -(-count // each)
    if content.nbytes != needed:
        raise _misfit(name, dtype, content.nbytes, needed)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = ((content[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count].astype(np.int8)
    if dtype.startswith("u"):
        return values
    half = 1 << (bits - 1)
    return np.where(values >= half, values - 2 * half, values).astype(np.int8)


def _strings(content: bytes, count: int | None, name: str) -> Array:
    """Strings as TFLite stores them: how many, their offsets and the end, all int32; the text."""
    if len(content) < 4:
        raise _misfit(name, "string", len(content), 4)
    found = int.from_bytes(content[:4], "little", signed=True)
    if found < 0 or (count is not None and found != count) or 4 * (found + 2) > len(content):
        raise ModelError(
            f"the constant {name} holds {found} strings; {count} were expected",
            code="model-damaged",
        )
    offsets = np.frombuffer(content, np.int32, found + 1, 4)
    if (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > len(content):
        raise ModelError(
            f"the strings of the constant {name} lie outside its buffer", code="model-damaged"
        )
    texts = np.empty(found, object)
    for index in range(found):
        texts[index] = content[offsets[index] : offsets[index + 1]]
    return texts


def _misfit(name: str, dtype: str, found: int, needed: int) -> ModelError:
    return ModelError(
        f"the constant {name} of type {dtype} has {found} bytes; its shape needs {needed}",
        code="model-damaged",
        hint="The file is damaged, or the program that wrote it made a mistake. Convert the "
        "original again.",
    )
