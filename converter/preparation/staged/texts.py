"""Texts and a table's rows, as a model's inputs."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from converter.preparation.staged.base import (
    Array,
    Arrays,
    Item,
    Known,
    StageError,
    library_of,
    packages_of,
)


def tokenizer_of(known: Known, folder: Path) -> Any:
    """The tokenizer of a text, set up as the model wants it.

    Raises:
        StageError: Its file isn't there.
    """
    (name,) = packages_of(known["kind"])
    library, file = library_of(name), folder / known["file"]
    if not file.is_file():
        raise StageError(f"{file} isn't there, which holds the tokenizer")
    made = library.Tokenizer.from_file(str(file))
    made.no_padding()
    if known["longest"] is None:
        made.no_truncation()
    else:
        made.enable_truncation(known["longest"])
    return made


def text_item(said: Mapping[str, Any], name: str) -> Item:
    """A text of JSON, or two: ``{"text": ..., "pair": ...}``.

    Raises:
        StageError: One of them is no text, or empty, or it holds something else.
    """
    if more := [key for key in said if key not in ("text", "pair")]:
        raise StageError(
            f'{name} holds {more[0]}: the form of a text is {{"text": ..., "pair": ...}}'
        )
    for key, value in said.items():
        if not isinstance(value, str):
            raise StageError(f"{key} of {name} isn't a text in JSON")
        if not value:
            raise StageError(f"{key} of {name} is empty")
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise StageError(f"{key} of {name} isn't Unicode: it holds half of a surrogate pair")
    return Item("text", said["text"], name, said.get("pair"))


def read_rows(known: Known, text: str, name: str, most: int | None = None) -> Arrays:
    """The lines of a CSV with a header as inputs, a row each.

    Args:
        known: The declared columns of each input.
        text: The CSV.
        name: What messages call it.
        most: Lines that it may have; None for any number.

    Returns:
        Arrays by input name, [rows, ...].

    Raises:
        StageError: A column is missing, a line is cut off, or a value is no number.
    """
    try:
        lines = [line for line in csv.reader(StringIO(text), strict=True) if line]
    except csv.Error as error:
        raise StageError(f"{name} isn't CSV: {error}") from error
    if len(lines) < 2:
        raise StageError(f"{name} has no line below its header")
    header = [cell.strip() for cell in lines[0]]
    if most is not None and len(lines) - 1 > most:
        raise StageError(f"{name} has {len(lines) - 1} lines; the limit is {most}", "", 413)
    wanted = [column for part in known["inputs"] for column in part["columns"]]
    if missing := [column for column in wanted if column not in header]:
        raise StageError(f"{name} lacks the columns {', '.join(missing[:10])}")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(header):
            raise StageError(f"{name}, line {number}: {len(line)} values for {len(header)} columns")
    feeds = {}
    for part in known["inputs"]:
        places = [header.index(column) for column in part["columns"]]
        cells = [[line[place] for place in places] for line in lines[1:]]
        feeds[part["name"]] = _numbers(cells, part, name)
    return feeds


def _numbers(cells: Sequence[Sequence[str]], part: Known, name: str) -> Array:
    if part["dtype"] == "string":
        return np.array(cells, object)
    dtype = np.dtype(part["dtype"])
    found = np.empty((len(cells), len(part["columns"])), dtype)
    for row, line in enumerate(cells):
        for place, cell in enumerate(line):
            try:
                number = float(cell) if cell.strip() or dtype.kind != "f" else math.nan
                found[row, place] = number if dtype.kind == "f" else int(cell)
            except (ValueError, OverflowError) as error:
                column = part["columns"][place]
                raise StageError(f"{name}, line {row + 2}: {column} is {cell!r}") from error
    return found
