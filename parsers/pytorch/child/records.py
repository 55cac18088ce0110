"""Whether a checkpoint's zip archive holds what its pickle says: torch.load doesn't look.

Mapped, it takes a tensor's bytes from where its record starts, whatever the record's size and
compression are; in no case does it compare checksums. The layout: a pickle ``NAME/data.pkl``, whose
persistent ids are ``("storage", type, key, location, number of elements)``, and a record
``NAME/data/KEY`` for each key (torch/serialization.py).
"""

from __future__ import annotations

import pickle
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ...worker.archive import grown, opened
from ...worker.errors import WorkerError

_PICKLE = "data.pkl"
_ITEM_SIZES = {
    **dict.fromkeys(("ComplexDoubleStorage",), 16),
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage", "QInt32Storage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("CharStorage", "ByteStorage", "BoolStorage", "UntypedStorage"), 1),
    **dict.fromkeys(("QInt8Storage", "QUInt8Storage"), 1),
}
"""Bytes of an element, by torch's names of its storages."""


def checked(path: Path) -> bool:
    """Whether a zip archive can be mapped: nothing in it is compressed.

    Raises:
        WorkerError: usage: It is damaged: a record's checksum or size is another.
    """
    problem, mappable = looked_at(path)
    if problem:
        raise WorkerError("usage", f"{path} is damaged: {problem}", code="model-damaged")
    return mappable


def looked_at(path: Path) -> tuple[str, bool]:
    """What is wrong with a zip archive, empty where nothing is, and whether it can be mapped."""
    try:
        with opened(path) as archive:
            problem = next(grown(archive), "") or next(_misfits(archive), "") or _damage(archive)
            stored = all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist())
            return problem, stored
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        return str(error) or type(error).__name__, False


def _damage(archive: zipfile.ZipFile) -> str:
    """The first record whose bytes have another checksum."""
    if not any(member.CRC for member in archive.infolist()):
        for member in archive.infolist():  # as torch.serialization.set_crc32_options(False) has it
            del member.CRC  # zipfile compares none then
    damaged = archive.testzip()
    return f"the checksum of its record {damaged} is another" if damaged else ""


def _misfits(archive: zipfile.ZipFile) -> Iterator[str]:
    """Records that aren't there, or that haven't the size that their tensor needs."""
    sizes = {member.filename: member.file_size for member in archive.infolist()}
    for name in sizes:
        if name.count("/") == 1 and name.endswith(f"/{_PICKLE}"):
            for key, needed in _storages(archive, name).items():
                record = f"{name[: -len(_PICKLE)]}data/{key}"
                if record not in sizes:
                    yield f"it has no record {record}"
                elif sizes[record] != needed:
                    yield f"its record {record} holds {sizes[record]} bytes, not {needed}"


def _storages(archive: zipfile.ZipFile, name: str) -> dict[str, int]:
    """The bytes that each key's storage has; empty where the pickle is none of torch's."""
    with archive.open(name) as file:
        reader = _Reader(file)
        with suppress(Exception):  # whatever a damaged one raises: torch.load says what it is
            reader.load()
    return reader.needed


class _Inert:
    """What stands for whatever a pickle makes: it takes everything, and does nothing."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def append(self, value: Any) -> None: ...
    def extend(self, values: Any) -> None: ...


class _Reader(pickle.Unpickler):
    """Reads a pickle without importing or calling anything that it names."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.needed: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        return type(name, (_Inert,), {})

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, count = pid
        if kind.__name__ in _ITEM_SIZES:
            self.needed[key] = count * _ITEM_SIZES[kind.__name__]
        return _Inert()
