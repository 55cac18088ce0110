"""Weights in a ``.safetensors`` file, written and read here: a header in JSON, and the bytes.

Source of the format: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ModelError
from converter.files.reading import reading
from emitters.code.steps import Weight

CODES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "bool": "BOOL",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "complex64": "C64",
}
"""By numpy's names of types."""

_NAMES = {code: name for name, code in CODES.items()}
_ALIGNMENT = 8
_LONGEST = 100_000_000


def write(path: Path, weights: Mapping[str, Weight]) -> None:
    """Writes tensors by name, the widest types first, as the format's own library orders them.

    Raises:
        OSError: The file can't be written.
    """
    names = sorted(weights, key=lambda name: (-weights[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        weight = weights[name]
        start, end = end, end + int(np.prod(weight.shape)) * weight.dtype.itemsize
        header[name] = {
            "dtype": CODES[weight.dtype.name],
            "shape": list(weight.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in names:
            array = np.ascontiguousarray(weights[name].make())
            file.write(array.reshape(-1).view(np.uint8).data)


def header(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type (numpy's name) and shape of each tensor in a file.

    Raises:
        ModelError: It is damaged.
    """
    with reading(path.name), path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_LONGEST, path.stat().st_size):
            raise ModelError(
                f"{path.name} is damaged: its header is longer than the file", code="model-damaged"
            )
        told = json.loads(file.read(length))
        told.pop("__metadata__", None)
        return {name: (_NAMES[i["dtype"]], tuple(i["shape"])) for name, i in told.items()}
