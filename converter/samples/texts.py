"""Samples from a CSV of texts: a line is a sample, made of tokens by the source's own tokenizer."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.files.digest import digest_of
from converter.ir.model import BATCH, TensorSpec
from converter.samples.base import Sample, Samples, Tokenize
from converter.samples.fit import LABEL_KEYS, finish, numpy_dtype
from converter.samples.labels import check_labels, parse_label
from converter.samples.table import explained

TEXT, PAIR = "text", "text_pair"
"""The columns: a text, and where the model takes two the other one."""

_NAMES = {"tokens": "input_ids", "mask": "attention_mask", "segments": "token_type_ids"}
"""The tokenizer's name of an input, by what the input means."""


def holds_texts(file: Path, inputs: Sequence[TensorSpec]) -> bool:
    """Whether a CSV has a column of texts, and no input that takes it as it is."""
    if any(spec.name == TEXT for spec in inputs):
        return False
    with explained(file), file.open(newline="", encoding="utf-8-sig") as stream:
        return TEXT in [name.strip() for name in next(csv.reader(stream), [])]


class TextSamples(Samples):
    """Samples from a CSV with a column ``text``, and for models of two texts ``text_pair``.

    Args:
        file: The CSV, in UTF-8.
        inputs: The model's inputs, of [batch, sequence] each; what they are to the tokenizer is
            their meaning, else their name.
        tokenize: The source's tokenizer.
        sizes: Sizes of free dimensions: a text is cut to that of the sequence. One that the model
            has fixed is padded to.
        labels: The column of the labels; ``none``; None for ``label``, ``labels`` or ``y``.
        label_names: Names of the classes, where known.
        limit: Use only the first so many lines.

    Raises:
        UsageError: The source has no tokenizer, the tokenizer doesn't give what an input takes, or
            the file can't be read.
    """

    def __init__(
        self,
        file: Path,
        inputs: tuple[TensorSpec, ...],
        tokenize: Tokenize | None,
        sizes: Mapping[str, int],
        *,
        labels: str | None,
        label_names: tuple[str, ...] | None,
        limit: int | None,
    ) -> None:
        self.inputs, self.label_names = inputs, label_names
        rows = _rows(file)[:limit]
        if not rows:
            raise UsageError(f"{file.name} holds no samples", code="samples-missing")
        if tokenize is None:
            raise UsageError(
                f"{file.name} holds texts, and the source has no tokenizer that turns them "
                "into tokens",
                code="tokenizer",
                hint="Texts need a Hugging Face folder with its tokenizer's files. For any "
                "other source, give the model's own inputs as .npz.",
            )
        self._labels = _labels(file, rows, labels, label_names)
        self._lines = [f"{file.name}, line {number}" for number, _ in rows]
        self.origin = f"{file.name} ({len(rows)} texts)"
        length, fixed = _length(inputs, sizes)
        texts = [row[TEXT] for _, row in rows]
        pairs = [row[PAIR] for _, row in rows] if PAIR in rows[0][1] else None
        self._tokens = tokenize(texts, pairs, length, fixed)
        self._require_given(file)

    def _require_given(self, file: Path) -> None:
        given = sorted(self._tokens[0])
        lacking = [spec.name for spec in self.inputs if _key(spec) not in given]
        if lacking:
            raise UsageError(
                f"the tokenizer doesn't give {', '.join(lacking)} for the texts of {file.name}",
                code="tokenizer",
                details=[f"it gives {', '.join(given)}"],
                hint="Give the model's own inputs as .npz.",
            )

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[Sample]:
        for name, tokens, label in zip(self._lines, self._tokens, self._labels, strict=True):
            feeds = {
                spec.name: finish(np.array([tokens[_key(spec)]], numpy_dtype(spec)), spec, name)
                for spec in self.inputs
            }
            yield Sample(name, feeds, label)

    @cached_property
    def digest(self) -> str:
        """The sha256 over the tokens, the labels and the inputs."""
        specs = [[spec.name, spec.describe()] for spec in self.inputs]
        return digest_of({"texts": self._tokens, "labels": self._labels, "inputs": specs})

    @property
    def labelled(self) -> bool:
        """Whether there is a column of labels."""
        return self._labels[0] is not None


def _key(spec: TensorSpec) -> str:
    return _NAMES.get(spec.meaning or "", spec.name)


def _rows(file: Path) -> list[tuple[int, dict[str, str]]]:
    """The lines that aren't empty, with their numbers, by column."""
    found = []
    with explained(file), file.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream)
        header = [name.strip() for name in next(reader)]
        for cells in reader:
            if cells and len(cells) != len(header):
                raise UsageError(
                    f"{file.name}, line {reader.line_num}: expected {len(header)} columns, found "
                    f"{len(cells)}",
                    code="file-unreadable",
                    hint="Put a text with a comma into double quotes.",
                )
            if cells:
                found.append((reader.line_num, dict(zip(header, cells, strict=True))))
    return found


def _labels(
    file: Path,
    rows: Sequence[tuple[int, Mapping[str, str]]],
    asked: str | None,
    names: Sequence[str] | None,
) -> list[Any]:
    header = rows[0][1]
    column = asked or next((key for key in LABEL_KEYS if key in header), "none")
    if column == "none":
        return [None] * len(rows)
    if column not in header:
        raise UsageError(
            f"--labels {column}: {file.name} has no such column",
            code="labels",
            details=[f"it has {', '.join(header)}"],
        )
    found = [parse_label(row[column], names) for _, row in rows]
    check_labels(found, names)
    return found


def _length(inputs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> tuple[int | None, bool]:
    """How long a sequence may be, and whether the model has fixed that."""
    for spec in inputs:
        if spec.shape is None or len(spec.shape) != 2 or spec.shape[0] not in (1, BATCH):
            raise UsageError(
                f"texts fill inputs of [batch, sequence], and {spec.name} is {spec.describe()}",
                code="samples-mismatch",
                hint="Give the model's own inputs as .npz.",
            )
    last = (inputs[0].shape or (None,))[-1]
    return (last, True) if isinstance(last, int) else (sizes.get(str(last)), False)
