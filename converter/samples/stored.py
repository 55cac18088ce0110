"""Arrays in .npy and .npz files, read a few rows at a time."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from converter.errors import UsageError
from converter.files.archives import opened
from converter.files.reading import reading
from converter.samples.base import Array
from converter.samples.fit import Header, Part

_AGAIN = "It is truncated, or no .npz or .npy file: write it again with np.savez or np.save."

LARGEST = 2 << 30
"""Bytes of one sample, or of an array of an archive that has to be read whole: a few megabytes of
zeros come to any number, and no protobuf or flatbuffer is larger."""


@dataclass(frozen=True)
class _Place:
    """Where an array lies: a file, or a member of an archive."""

    file: Path
    member: str | None
    header: Header
    fortran: bool


class StoredArrays:
    """The arrays of one .npz or .npy file; opening it reads only their headers.

    Args:
        file: The file.
        where: What messages call it.

    Raises:
        UsageError: It can't be read: not such a file, truncated, pickled.
    """

    def __init__(self, file: Path, where: str) -> None:
        self._where = where
        with reading(where, UsageError, _AGAIN):
            self._places = dict(_places(file))
        if not self._places:
            raise UsageError(f"{where} holds no arrays", code="samples-missing")

    @property
    def headers(self) -> Mapping[str, Header]:
        """The dtype and shape of each array by name; a .npy's is ``""``."""
        return {name: place.header for name, place in self._places.items()}

    def rows(self, parts: Mapping[str, Part], count: int) -> Iterator[dict[str, Array]]:
        """The arrays of one sample after another, by stored name.

        Only a sample's own rows are in memory, except of arrays whose samples don't follow
        each other there.
        """
        with reading(self._where, UsageError, _AGAIN), ExitStack() as stack:
            archive = self._archive(stack)
            streams = {
                name: _stream(_Opened(self._places[name], archive), part, count, stack)
                for name, part in parts.items()
            }
            for _ in range(count):
                yield {name: next(stream) for name, stream in streams.items()}

    def _archive(self, stack: ExitStack) -> zipfile.ZipFile | None:
        """The archive, opened once: its list of contents is read each time."""
        place = next(iter(self._places.values()))
        if place.member is None:
            return None
        return stack.enter_context(zipfile.ZipFile(place.file))


@dataclass(frozen=True)
class _Opened:
    """Where an array lies, with the archive, if it is in one."""

    place: _Place
    archive: zipfile.ZipFile | None

    def stream(self) -> IO[bytes]:
        """From its header on."""
        if self.archive is None or self.place.member is None:
            return self.place.file.open("rb")
        return self.archive.open(self.place.member)


def _stream(opened: _Opened, part: Part, count: int, stack: ExitStack) -> Iterator[Array]:
    place = opened.place
    shape, dtype = place.header.shape, place.header.dtype
    _require_readable(place, part.shape(shape))
    if not part.sequential or place.fortran:
        whole = _whole(opened)
        return (part.take(whole, index) for index in range(count))
    stream = stack.enter_context(opened.stream())
    _read_header(stream)
    return _sequence(stream, part, dtype, shape, count)


def _require_readable(place: _Place, sample: tuple[int, ...]) -> None:
    size = math.prod(sample) * place.header.dtype.itemsize
    if size > LARGEST:
        raise UsageError(
            f"{place.member or place.file.name}: one sample has {size:,} bytes; the limit is "
            f"{LARGEST:,}",
            code="file-unreadable",
        )


def _whole(opened: _Opened) -> Array:
    """An array whose samples don't follow each other: mapped, or out of an archive in memory."""
    place = opened.place
    if place.member is None:
        mapped: Array = np.load(place.file, mmap_mode="r", allow_pickle=False)
        return mapped
    size = math.prod(place.header.shape) * place.header.dtype.itemsize
    if size > LARGEST:
        raise UsageError(
            f"{place.member} in {place.file.name} can only be read as a whole, because its "
            f"samples aren't stored one after another: {size:,} bytes; the limit is "
            f"{LARGEST:,}",
            code="file-unreadable",
            hint="Save it in C order with samples first (np.ascontiguousarray), or as .npy.",
        )
    with opened.stream() as stream:
        array: Array = npy.read_array(stream, allow_pickle=False)
    return array


def _sequence(
    stream: IO[bytes], part: Part, dtype: np.dtype[np.generic], shape: tuple[int, ...], count: int
) -> Iterator[Array]:
    rows = (part.step, *shape[1:])
    size = math.prod(rows) * dtype.itemsize
    for _ in range(count):
        data = stream.read(size)
        if len(data) != size:
            raise EOFError("it ends early")
        yield part.finish(np.frombuffer(data, dtype).reshape(rows))


def _places(file: Path) -> Iterator[tuple[str, _Place]]:
    if file.suffix == ".npy":
        with file.open("rb") as stream:
            header, fortran = _read_header(stream)
            left = file.stat().st_size - stream.tell()
        _check_length(header, left)
        yield "", _Place(file, None, header, fortran)
        return
    with opened(file) as archive:
        for item in archive.infolist():
            with archive.open(item) as member:
                header, fortran = _read_header(member)
                _check_length(header, item.file_size - member.tell())
            name = item.filename.removesuffix(".npy")
            yield name, _Place(file, item.filename, header, fortran)


def _check_length(header: Header, found: int) -> None:
    """A header may claim any size: memory is only taken for what the file really holds."""
    expected = math.prod(header.shape) * header.dtype.itemsize
    if not header.dtype.hasobject and found != expected:
        raise EOFError(f"expected {expected} bytes of values, found {found}")


def _read_header(stream: IO[bytes]) -> tuple[Header, bool]:
    """Reads up to the data; gives dtype and shape, and whether it is in Fortran order."""
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(stream)
    else:  # 3.0 is only for field names beyond Latin-1, and no input has fields
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is not read")
    return Header(dtype, shape), fortran
