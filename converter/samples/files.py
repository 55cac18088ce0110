"""Samples from .npz and .npy files: one file, or a folder of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.files.digest import digest_of, file_digest
from converter.ir.model import TensorSpec
from converter.samples.base import Array, Sample, Samples
from converter.samples.fit import Layout, finish, lay_out, plain_label
from converter.samples.labels import FOLDER, are_by_file, classes_of, labels_of_files
from converter.samples.stored import StoredArrays

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)
"""Of pictures."""

SOUNDS = frozenset((".wav", ".flac", ".ogg", ".oga", ".mp3", ".aif", ".aiff"))
"""Of sounds."""


@dataclass(frozen=True)
class SampleFile:
    """A file of samples: its place, and its name without one."""

    path: Path
    name: str


@dataclass(frozen=True)
class _Fitted:
    file: SampleFile
    layout: Layout
    label: Any


class ArraySamples(Samples):
    """Samples from .npz or .npy files. Names, shapes and dtypes are checked here, from the
    headers; contents are read while iterating, a sample at a time.

    Args:
        files: The files, in order.
        inputs: The model's inputs.
        labels: ``none``, the key of an .npz, or for a folder ``filename``, ``folder`` or a CSV.
        label_names: Names of the classes; None where they aren't known.
        limit: Use only the first so many samples.
        origin: Where they came from, for the report.
        folder: Whether the files were found in a folder.
        skip_bad: Leave out files that can't be read.

    Raises:
        UsageError: A file can't be read, or doesn't fit.
    """

    def __init__(
        self,
        files: Sequence[SampleFile],
        inputs: tuple[TensorSpec, ...],
        *,
        labels: str | None,
        label_names: tuple[str, ...] | None,
        limit: int | None,
        origin: str,
        folder: bool,
        skip_bad: bool = False,
    ) -> None:
        self.inputs = inputs
        self.label_names = label_names
        self.origin = origin
        self.skipped = []
        if skip_bad:
            files = self._readable(files)
        by_file = are_by_file(labels)
        if labels == FOLDER and label_names is None:
            self.label_names = label_names = classes_of(file.name for file in files)
        if by_file and not folder:
            raise UsageError(
                f"--labels {Path(labels or '').name} only works with a folder of files",
                code="labels",
                hint="Store the labels of an .npz file inside of it, under the key that "
                "--labels names.",
            )
        key = "none" if by_file else labels
        found = labels_of_files([f.name for f in files], labels if by_file else None, label_names)
        self._options = {"labels": key, "by_file": found, "limit": limit}
        fitted = (
            _Fitted(
                file,
                lay_out(StoredArrays(file.path, file.name).headers, inputs, file.name, key),
                label,
            )
            for file, label in zip(files, found, strict=True)
        )
        self._files = list(_up_to(fitted, limit))
        self._count = _limited(self._files, limit)

    def _readable(self, files: Sequence[SampleFile]) -> list[SampleFile]:
        """The files that can be opened; notes the others."""
        good = []
        for file in files:
            try:
                StoredArrays(file.path, file.name)
            except UsageError as error:
                self.skipped.append(error.message)
            else:
                good.append(file)
        return some_left(good, self.skipped)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        left = self._count
        for fitted in self._files:
            taken = min(left, fitted.layout.count)
            yield from self._read(fitted, taken)
            left -= taken

    def _read(self, fitted: _Fitted, count: int) -> Iterator[Sample]:
        layout, file = fitted.layout, fitted.file
        parts = {layout.names[name]: part for name, part in layout.parts.items()}
        if layout.label is not None:
            parts[layout.label] = layout.label_part
        rows = StoredArrays(file.path, file.name).rows(parts, count)
        for index, arrays in enumerate(rows):
            name = file.name if layout.count == 1 else f"{file.name}[{index}]"
            feeds = feeds_of(arrays, layout, self.inputs, name)
            stored = arrays[layout.label] if layout.label is not None else None
            label = fitted.label if stored is None else plain_label(stored)
            yield Sample(name, feeds, label)

    @cached_property
    def digest(self) -> str:
        """The sha256 over the files' contents and names, the inputs and the options."""
        contents = [[f.file.name, file_digest(f.file.path)] for f in self._files]
        specs = [[spec.name, spec.describe()] for spec in self.inputs]
        return digest_of({"files": contents, "inputs": specs, "options": self._options})

    @property
    def labelled(self) -> bool:
        """Whether every file has labels, in it or by its name."""
        return all(f.layout.label is not None or f.label is not None for f in self._files)


def feeds_of(
    arrays: dict[str, Array], layout: Layout, inputs: Sequence[TensorSpec], where: str
) -> dict[str, Array]:
    """A sample's stored arrays as they are fed.

    Args:
        arrays: By stored name.
        layout: The stored name of each input's array.
        inputs: The model's inputs.
        where: What errors call the sample.

    Returns:
        By input name, each of its input's dtype, contiguous, read-only.

    Raises:
        UsageError: One holds NaN or infinity.
    """
    return {spec.name: finish(arrays[layout.names[spec.name]], spec, where) for spec in inputs}


def _up_to(files: Iterator[_Fitted], limit: int | None) -> Iterator[_Fitted]:
    """The files that hold the first ``limit`` rows: the others aren't looked at."""
    rows = 0
    for fitted in files:
        yield fitted
        rows += fitted.layout.count * fitted.layout.step
        if limit is not None and rows >= limit:
            return


def _limited(files: Sequence[_Fitted], limit: int | None) -> int:
    count = sum(f.layout.count for f in files)
    step = max(f.layout.step for f in files)
    return count if limit is None else min(count, limit_samples(limit, step))


def some_left(good: list[SampleFile], skipped: Sequence[str]) -> list[SampleFile]:
    """What ``--skip-bad`` leaves; raises UsageError where that is nothing."""
    if not good:
        raise UsageError(
            "none of the samples can be read", code="file-unreadable", details=list(skipped[:10])
        )
    return good


def readable(
    files: Sequence[SampleFile], read: Callable[[SampleFile], object], skipped: list[str]
) -> list[SampleFile]:
    """The files that can be read.

    Args:
        files: All of them.
        read: Reads a file; raises UsageError where that can't be.
        skipped: What is wrong with the others is added to it.

    Raises:
        UsageError: None is left.
    """
    good = []
    for file in files:
        try:
            read(file)
        except UsageError as error:
            skipped.append(error.message)
        else:
            good.append(file)
    return some_left(good, skipped)


def limit_samples(limit: int, step: int) -> int:
    """How many samples of ``step`` rows a limit of so many rows leaves; raises UsageError."""
    if limit < step:
        raise UsageError(
            f"--samples-limit {limit} is less than the model's fixed batch of {step}",
            code="samples-count",
        )
    return limit // step
