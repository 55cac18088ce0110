"""Samples from a CSV: a line is a sample, the first line names the columns."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import UsageError, from_os_error
from converter.files.digest import digest_of, file_digest
from converter.ir.model import TensorSpec
from converter.samples.base import Array, Sample, Samples
from converter.samples.columns import Columns, Table, few, match_columns, step_of
from converter.samples.files import limit_samples
from converter.samples.fit import LABEL_KEYS, finish, numpy_dtype
from converter.samples.labels import check_labels, parse_label

_BOOLS = {"true": 1, "false": 0, "1": 1, "0": 0}
MISSING = ("", "nan", "na", "n/a", "null", "none", "<na>")
"""What a cell of numbers holds that is missing, in small letters."""


class TableSamples(Samples):
    """Samples from a CSV in UTF-8.

    An input of one number a line is the column of its name. One of k numbers is the columns that
    the model was trained on, by their names, or ``name[0]`` to ``name[k-1]`` (or ``name_0``,
    ``name.0``); for a model with one input, also any k columns in their order. Where all have their
    columns by name, others are left out. Numbers are cast to the input's dtype, which has to hold
    them; an empty cell is NaN where the model has an answer for it.

    Args:
        file: The CSV.
        inputs: The model's inputs.
        sizes: Sizes of free dimensions.
        labels: The column of the labels; ``none``; None for ``label``, ``labels`` or ``y``.
        label_names: Names of the classes, where known.
        limit: Use only the first so many lines.

    Raises:
        UsageError: The columns don't fit the inputs, or the file can't be read.
    """

    def __init__(
        self,
        file: Path,
        inputs: tuple[TensorSpec, ...],
        sizes: Mapping[str, int],
        *,
        labels: str | None,
        label_names: tuple[str, ...] | None,
        limit: int | None,
    ) -> None:
        self._file = file
        self.inputs = inputs
        self.label_names = label_names
        with explained(file), file.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.reader(stream)
            written = next(lines, [])
            rows = sum(1 for line in lines if line)
        header = [name.strip() for name in written]
        _check_header(file, header)
        self._label = _label_column(file, header, inputs, labels)
        self._step = step_of(inputs)
        self._width = len(header)
        free = [i for i in range(len(header)) if i != self._label]
        if labels == "none":
            free = [i for i in free if header[i] not in LABEL_KEYS]
        self._columns, unused = match_columns(Table(file, header, written, free), inputs, sizes)
        self._header = header
        self._count = _line_count(file, rows, limit, self._step) // self._step
        without = f", without {few(unused)}" if unused else ""
        self.origin = f"{file.name} ({rows} lines{without})"

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        lines = self._lines()
        for _ in range(self._count):
            group = list(islice(lines, self._step))
            if len(group) < self._step:
                raise UsageError(
                    f"{self._file.name} has fewer lines than when it was opened",
                    code="file-unreadable",
                )
            where = f"{self._file.name}, line {group[0][0]}"
            feeds = {
                part.spec.name: finish(self._array(part, group), part.spec, where)
                for part in self._columns
            }
            yield Sample(where, feeds, self._label_of(group))

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """The line number and cells of each line that isn't empty."""
        with explained(self._file), self._file.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.reader(stream)
            next(lines)
            for cells in lines:
                if cells and len(cells) != self._width:
                    raise UsageError(
                        f"{self._file.name}, line {lines.line_num}: expected {self._width} "
                        f"columns, found {len(cells)}",
                        code="file-unreadable",
                    )
                if cells:
                    yield lines.line_num, cells

    def _array(self, part: Columns, group: Sequence[tuple[int, list[str]]]) -> Array:
        dtype = numpy_dtype(part.spec)
        values = [
            self._value(cells[column], part.spec, number, column, place)
            for number, cells in group
            for place, column in enumerate(part.columns)
        ]
        array = np.empty(len(values), dtype)
        with np.errstate(over="ignore"):  # an infinity is refused by finish()
            array[:] = values
        return array.reshape(part.shape)

    def _value(self, cell: str, spec: TensorSpec, number: int, column: int, place: int) -> Any:
        gone = spec.is_float and cell.strip().lower() in MISSING
        if gone and place in (spec.missing or ()):
            return math.nan
        try:
            return _parse(cell, spec)
        except (ValueError, OverflowError) as error:
            why = ", and the model has no answer where it is missing" if gone else ""
            raise UsageError(
                f"{self._file.name}, line {number}, column {self._header[column]!r}: "
                f"{cell!r} isn't of type {spec.dtype}{why}",
                code="file-unreadable",
                hint="Remove the line, or fill the cell." if gone else "",
            ) from error

    def _label_of(self, group: Sequence[tuple[int, list[str]]]) -> Any:
        if self._label is None:
            return None
        found = [parse_label(cells[self._label], self.label_names) for _, cells in group]
        check_labels(found, self.label_names)
        return found[0] if self._step == 1 else np.asarray(found)

    @cached_property
    def digest(self) -> str:
        """The sha256 over the file, the columns taken from it and the inputs."""
        columns = [[c.spec.name, c.spec.describe(), c.shape, c.columns] for c in self._columns]
        options = {"columns": columns, "label": self._label, "count": self._count}
        return digest_of({"table": file_digest(self._file), **options})

    @property
    def labelled(self) -> bool:
        """Whether there is a column of labels."""
        return self._label is not None


def _parse(cell: str, spec: TensorSpec) -> Any:
    """A cell as the input's dtype has it; ValueError or OverflowError where it can't."""
    if spec.dtype == "string":
        return cell
    cell = cell.strip()
    if spec.dtype == "bool":
        if cell.lower() not in _BOOLS:
            raise ValueError(cell)
        return _BOOLS[cell.lower()]
    if spec.is_float:
        return float(_BOOLS.get(cell.lower(), cell))
    value = int(cell) if re.fullmatch(r"[+-]?\d+", cell) else float(cell)
    if value != int(value):
        raise ValueError(cell)
    limits = np.iinfo(numpy_dtype(spec))
    if not limits.min <= value <= limits.max:
        raise OverflowError(cell)
    return int(value)


def _check_header(file: Path, header: Sequence[str]) -> None:
    if not header:
        raise UsageError(f"{file.name} is empty", code="file-unreadable")
    if any(_is_number(name) for name in header):
        raise UsageError(
            f"{file.name}: its first line holds numbers, but has to name the columns",
            code="file-unreadable",
            hint="Write a line of column names above the numbers.",
        )
    if twice := sorted(name for name, count in Counter(header).items() if count > 1):
        raise UsageError(
            f"{file.name} has two columns of one name: {', '.join(twice)}", code="file-unreadable"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() not in ("nan", "inf", "infinity")


def _label_column(
    file: Path, header: Sequence[str], inputs: Sequence[TensorSpec], labels: str | None
) -> int | None:
    names = {name for spec in inputs for name in (spec.name, *(spec.columns or ()))}
    if labels == "none":
        return None
    if labels is None:
        found = next((key for key in LABEL_KEYS if key in header and key not in names), None)
        return header.index(found) if found and len(header) > 1 else None
    if labels not in header:
        raise UsageError(
            f"--labels {labels}: {file.name} has no such column",
            code="labels",
            details=[f"it has {', '.join(header[:20])}"],
        )
    return header.index(labels)


def _line_count(file: Path, rows: int, limit: int | None, step: int) -> int:
    if not rows:
        raise UsageError(f"{file.name} holds no samples", code="samples-missing")
    if limit is not None:
        return min(rows - rows % step, limit_samples(limit, step) * step)
    if rows % step:
        raise UsageError(
            f"{file.name}: {rows} lines aren't a multiple of the model's fixed batch of {step}",
            code="samples-count",
        )
    return rows


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Says of a file that can't be read which one it is and why; raises UsageError."""
    try:
        yield
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(
            f"{file.name} isn't a CSV file in UTF-8 ({error})", code="file-unreadable"
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading {file.name}") from error
