"""What a program's constants take, by the types that they are stored in.

Large ones lie in the package's file of weights, types below a byte packed there; small ones lie
among the operations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from converter.ir.model import dtype_name
from parsers.coreml.blob import bits_of
from parsers.coreml.importer import Blobs
from parsers.coreml.opened import PROGRAM, open_file
from parsers.coreml.operation import element_bits, type_of


def stored_bytes(path: Path) -> dict[str, int]:
    """Bytes by type: ``float16``, ``int8``, ``uint4``...; what several constants share counts once.

    Raises:
        UsageError, ModelError, UnsupportedError: As :func:`.opened.open_file`.
    """
    opened = open_file(path)
    if opened.kind != PROGRAM:
        return {}
    blobs, sums = Blobs(opened.parts), Counter[str]()
    seen: set[tuple[str, int]] = set()
    for function in opened.spec.mlProgram.functions.values():
        for value in _constants(function.block_specializations[function.opset]):
            place = value.blobFileValue
            if value.WhichOneof("value") == "blobFileValue":
                if (key := (place.fileName, place.offset)) not in seen:
                    seen.add(key)
                    stored = blobs(place.fileName).at(place.offset)
                    sums[_name(bits_of(stored.kind), dtype_name(stored.dtype))] += stored.size
            elif value.type.WhichOneof("type") == "tensorType":
                kind, bits = type_of(value.type), element_bits(value.type.tensorType.dataType)
                if kind.dtype is not None and None not in (kind.shape or ()):
                    count = math.prod(size or 0 for size in kind.shape or ())
                    name = dtype_name(kind.dtype)
                    sums[_name(bits, name)] += -(-count * (bits or kind.dtype.bitwidth) // 8)
    return dict(sums)


def _name(bits: int | None, whole: str) -> str:
    """``uint4`` for a type below a byte, whose whole one is ``uint8``."""
    return whole if bits is None else whole.replace("8", str(bits))


def _constants(block: Any) -> Iterator[Any]:
    """The values in a block and in those within it."""
    for operation in block.operations:
        if operation.type == "const" or operation.type.startswith("constexpr"):
            yield from (v for name, v in operation.attributes.items() if name != "name")
        for argument in operation.inputs.values():
            yield from (b.value for b in argument.arguments if b.WhichOneof("binding") == "value")
        for inner in operation.blocks:
            yield from _constants(inner)
