"""Samples from a function of the user's, run once in a process of its own.

What it yields is kept in a temporary file without a name, so that the samples are the same
every time, memory doesn't grow with their number, and nothing stays behind.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from converter.errors import (
    DependencyError,
    MachineError,
    ModelyardError,
    UsageError,
    from_os_error,
)
from converter.files.digest import digest_of
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.runtime.child import Child, ChildError, here, worker_env
from converter.samples.base import Array, Sample, Samples
from converter.samples.files import feeds_of, limit_samples
from converter.samples.fit import Header, Layout, lay_out, plain_label

_LABEL = "\0label"
"""The name that an item's label is kept under; no input can have it."""


@dataclass(frozen=True)
class _Item:
    """One yielded item: where it lies in the file, and how samples lie in it."""

    offset: int
    length: int
    layout: Layout


class FunctionSamples(Samples):
    """Samples that ``FILE.py:FUNCTION`` yields: an array (for a model with one input), a dict of
    arrays by input name, or a pair of either and a label. An item may hold several samples, along
    its batch dimension. The function takes no arguments; its file's folder, and the request's
    ``search_paths``, are on its path.

    Args:
        file: The user's Python file.
        function: The function's name.
        inputs: The model's inputs.
        request: Its ``search_paths``, ``samples_limit`` and ``labels`` count.
        label_names: Names of the classes, where known.

    Raises:
        UsageError: The code fails, or what it yields doesn't fit.
        DependencyError: It imports what isn't installed.
        MachineError: Its process was killed, or the disk is full.
    """

    def __init__(
        self,
        file: Path,
        function: str,
        inputs: tuple[TensorSpec, ...],
        request: Request,
        *,
        label_names: tuple[str, ...] | None,
    ) -> None:
        if request.labels not in (None, "none"):
            raise UsageError(
                f"--labels {request.labels} can't be used with a function",
                code="labels",
                hint="The function has to yield (sample, label).",
            )
        self.inputs = inputs
        self.label_names = label_names
        self._function = function
        self._keep_labels = request.labels is None
        self._spool = _run(file, function, request)
        self._items = [self._item(offset, length) for offset, length in _places(self._spool)]
        if not self._items:
            raise UsageError(
                f"{function}() of {file.name} yielded no samples", code="samples-missing"
            )
        self._count = sum(item.layout.count for item in self._items)
        if request.samples_limit is not None:
            step = max(item.layout.step for item in self._items)
            self._count = min(self._count, limit_samples(request.samples_limit, step))
        self.origin = f"{file.name}:{function}"

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        number = 0
        for item in self._items:
            arrays = self._read(item.offset, item.length)
            for index in range(min(item.layout.count, self._count - number)):
                yield self._sample(arrays, item.layout, index, f"{self._function}[{number}]")
                number += 1

    def _sample(self, arrays: dict[str, Array], layout: Layout, index: int, name: str) -> Sample:
        parts = {layout.names[key]: part for key, part in layout.parts.items()}
        taken = {key: part.take(arrays[key], index) for key, part in parts.items()}
        label = None
        if layout.label is not None:
            label = plain_label(np.asarray(layout.label_part.take(arrays[layout.label], index)))
        return Sample(name, feeds_of(taken, layout, self.inputs, name), label)

    def _item(self, offset: int, length: int) -> _Item:
        arrays = self._read(offset, length)
        headers = {name: Header(array.dtype, array.shape) for name, array in arrays.items()}
        label = _LABEL if _LABEL in headers else "none"
        where = f"what {self._function}() yields"
        return _Item(offset, length, lay_out(headers, self.inputs, where, label))

    def _read(self, offset: int, length: int) -> dict[str, Array]:
        """An item's arrays by name, its label among them."""
        stream = io.BytesIO(_pread(self._spool, length, offset))
        head = json.loads(stream.readline())
        arrays = {name: npy.read_array(stream, allow_pickle=False) for name in head["arrays"]}
        if head["label"] and self._keep_labels:
            arrays[_LABEL] = npy.read_array(stream, allow_pickle=False)
        return arrays

    @cached_property
    def digest(self) -> str:
        """The sha256 over what the function yielded, the inputs and the options."""
        digest = hashlib.sha256()
        for item in self._items:
            digest.update(_pread(self._spool, item.length, item.offset))
        specs = [[spec.name, spec.describe()] for spec in self.inputs]
        options = {"labels": self._keep_labels, "count": self._count}
        return digest_of({"items": digest.hexdigest(), "inputs": specs, **options})

    @property
    def labelled(self) -> bool:
        """Whether the function yielded a label with every item."""
        return all(item.layout.label is not None for item in self._items)


def _run(file: Path, function: str, request: Request) -> IO[bytes]:
    """Runs the function in a child; gives the file, already without a name, of what it yielded."""
    if not file.is_file():
        raise UsageError(
            f"--samples {file.name}:{function}: there is no such file", code="file-not-found"
        )
    try:
        handle, name = tempfile.mkstemp(prefix="modelyard-")
    except OSError as error:
        raise from_os_error(error, "making a temporary file for samples") from error
    spool, path = os.fdopen(handle, "rb"), Path(name)
    try:
        with closing(_start(function)) as child:
            child.call("open", spool=name)
            path.unlink()
            child.call(
                "collect",
                file=str(file.absolute()),
                function=function,
                search_paths=[str(Path(p).absolute()) for p in request.search_paths],
                limit=request.samples_limit or 0,
            )
    except ChildError as error:
        spool.close()
        raise _error_of(error) from error
    except BaseException:  # not swallowed: the file is closed, and it goes on
        spool.close()
        raise
    finally:
        path.unlink(missing_ok=True)
    return spool


def _start(function: str) -> Child:
    argv = [sys.executable, "-P", here(__file__, "child.py")]
    return Child(argv, what=f"the process of {function}()", env=worker_env())


def _error_of(error: ChildError) -> ModelyardError:
    if error.kind == "dependency":
        return DependencyError(
            error.message,
            code="package-missing",
            details=error.details,
            hint="Install it with pip.",
        )
    if error.kind == "machine":
        return MachineError(
            error.message,
            code="write-failed",
            hint="Free space in the temporary folder, or use --samples-limit.",
        )
    return UsageError(error.message, code="file-unreadable", details=error.details)


def _pread(spool: IO[bytes], length: int, offset: int) -> bytes:
    """``length`` bytes from ``offset``; iterators that run side by side share no position."""
    data = bytearray()
    while len(data) < length:
        piece = os.pread(spool.fileno(), length - len(data), offset + len(data))
        if not piece:
            raise MachineError(
                "the temporary file of the samples was cut short", code="process-ended"
            )
        data += piece
    return bytes(data)


def _places(spool: IO[bytes]) -> Iterator[tuple[int, int]]:
    """The offset and length of each item in the file."""
    end = os.fstat(spool.fileno()).st_size
    spool.seek(0)
    start = 0
    while start < end:
        head = json.loads(spool.readline())
        for _ in range(len(head["arrays"]) + head["label"]):
            npy.read_magic(spool)
            shape, _, dtype = npy.read_array_header_2_0(spool)
            spool.seek(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, os.SEEK_CUR)
        yield start, spool.tell() - start
        start = spool.tell()
