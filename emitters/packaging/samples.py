"""The samples of a package: ``warmup/``, what goes in, and ``expected/``, what the source gave.

What goes in lies there in the types in which it is served. ``.npy`` files hold bfloat16 as the same
numbers in float32, and strings as numpy's own; ``.bin`` files are the raw little-endian values,
strings each behind their length in four bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np

from converter.check.feeding import quantized, typed
from converter.check.shipping import Item
from converter.check.sums import is_float
from converter.ir.model import TensorSpec
from emitters.packaging.script.stored import to_bytes

WARMUP, EXPECTED = "warmup", "expected"

Array = np.ndarray[Any, Any]
Form = Literal["npy", "bin"]


def file_of(number: int, index: int, name: str, form: str) -> str:
    """The name of a tensor's file: ``sample1-0-image.npy``.

    Args:
        number: The sample's, from 1.
        index: The tensor's among the sample's, from 0.
        name: The tensor's; what a file's name can't hold becomes ``_``.
        form: The suffix: ``npy`` or ``bin``.
    """
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:64]
    return f"sample{number}-{index}-{safe}.{form}"


def write_samples(
    folder: Path,
    items: Sequence[Item],
    inputs: Sequence[TensorSpec],
    *,
    form: Form = "npy",
    wider: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Writes the samples' files.

    Args:
        folder: The package's.
        items: The samples.
        inputs: As they are served: floats may be narrower than the source's, or integers that stand
            for them.
        form: Of what goes in.
        wider: Names of inputs and outputs that are served with one more axis, of size 1, at the
            end: a server may have no scalars.

    Returns:
        For each sample its name, and of ``feeds`` and ``expected`` the file, dtype and shape by
        name, and ``sequence`` of a step in one: JSON values.
    """
    written = []
    for number, item in enumerate(items, start=1):
        feeds, expected = {}, {}
        for index, spec in enumerate(inputs):
            array = _wider(_served(item.feeds[spec.name], spec), spec.name in wider)
            file = f"{WARMUP}/{file_of(number, index, spec.name, form)}"
            feeds[spec.name] = _write(folder, file, array, spec.dtype)
        for index, (name, values) in enumerate(item.expected.items()):
            file = f"{EXPECTED}/{file_of(number, index, name, 'npy')}"
            expected[name] = _write(folder, file, _wider(values, name in wider), _dtype(values))
        step = {"sequence": dict(item.sequence)} if item.sequence else {}
        written.append({"name": item.name, "feeds": feeds, "expected": expected, **step})
    return written


def _served(array: Array, spec: TensorSpec) -> Array:
    if spec.dtype == "bfloat16" and array.dtype == np.uint16:  # its bits
        return array.view(ml_dtypes.bfloat16)
    if spec.scale is not None and is_float(array.dtype):
        return quantized(array, spec)
    return typed(array, spec)


def _wider(array: Array, wider: bool) -> Array:
    return np.asarray(array)[..., np.newaxis] if wider else np.asarray(array)


def _dtype(array: Array) -> str:
    return "string" if array.dtype.kind in "OSU" else array.dtype.name


def _write(folder: Path, file: str, array: Array, dtype: str) -> Mapping[str, Any]:
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    if file.endswith(".bin"):
        path.write_bytes(
            to_bytes(array.astype(np.float32) if dtype == "bfloat16" else array, dtype)
        )
    else:
        np.save(path, plain(array), allow_pickle=False)
    return {"file": file, "dtype": dtype, "shape": list(array.shape)}


def plain(array: Array) -> Array:
    """The array in a type that every reader of .npy files has."""
    if array.dtype.kind in "OS":
        texts = [v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in array.flat]
        return np.array(texts, np.str_).reshape(array.shape)
    if array.dtype.name.startswith(("bfloat", "float8")):
        return array.astype(np.float32)
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")  # a scalar stays one
