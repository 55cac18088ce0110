"""Which columns of a CSV feed which input of a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from converter.errors import UsageError
from converter.ir.model import BATCH, TensorSpec


@dataclass(frozen=True)
class Columns:
    """Which columns feed an input, in order, and the shape of its array for one line."""

    spec: TensorSpec
    shape: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """A CSV.

    Attributes:
        file: Where it is.
        header: The names of its columns, and as they are ``written``, blanks around them included.
        free: The columns that may feed inputs.
    """

    file: Path
    header: Sequence[str]
    written: Sequence[str]
    free: Sequence[int]

    @property
    def places(self) -> dict[str, int]:
        """Each column's index by its name."""
        stripped = {name: index for index, name in enumerate(self.header)}
        return stripped | {name: index for index, name in enumerate(self.written)}


def step_of(inputs: Sequence[TensorSpec]) -> int:
    """How many lines make a sample: the fixed batch where there is one, else 1."""
    if any(spec.has_batch for spec in inputs):
        return 1
    firsts = {spec.shape[0] for spec in inputs if spec.shape and len(spec.shape) > 1}
    first = next(iter(firsts), 1)
    return first if len(firsts) == 1 and isinstance(first, int) else 1


def match_columns(
    table: Table, inputs: Sequence[TensorSpec], sizes: Mapping[str, int]
) -> tuple[list[Columns], list[str]]:
    """The columns of each input, and the names of those that are left out.

    Args:
        table: The CSV.
        inputs: The model's inputs.
        sizes: Sizes of free dimensions.

    Raises:
        UsageError: They don't fit; every reason is listed.
    """
    free, header, places = table.free, table.header, table.places
    step, named = step_of(inputs), True
    parts, problems = [], []
    for spec in inputs:
        shape = _line_shape(spec, sizes)
        each = math.prod(shape) // step
        columns = _named(spec, each, places)
        if columns is None and len(inputs) == 1 and len(free) == each and not _known(spec, places):
            columns, named = tuple(free), False
        if columns is None:
            problems.append(f"{spec.name} {spec.describe()}: needs {_needed(spec, each, places)}")
        else:
            parts.append(Columns(spec, shape, columns))
    used = {column for part in parts for column in part.columns}
    unused = [header[i] for i in free if i not in used]
    if not problems and not named:
        problems = [f"{name!r} feeds no input" for name in unused]
    if problems:
        raise UsageError(
            f"{table.file.name} doesn't fit the model's inputs",
            code="samples-mismatch",
            details=[*problems[:20], f"its columns: {', '.join(header[:20])}"],
            hint="Name each column after its input. For several columns of one input, write "
            "NAME[0], NAME[1]...",
        )
    return parts, unused


def _known(spec: TensorSpec, places: Mapping[str, int]) -> list[str]:
    """Those of the columns that the model was trained on which a header has."""
    return [name for name in spec.columns or () if name in places]


def _needed(spec: TensorSpec, count: int, places: Mapping[str, int]) -> str:
    if not _known(spec, places):
        return f"{count} columns"
    lacking = [name for name in spec.columns or () if name not in places]
    return f"the columns that it was trained on; missing: {few(lacking)}"


def few(names: Sequence[str]) -> str:
    """The first names of many."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(repr, names[:10])) + more


def _line_shape(spec: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    known = {**sizes, BATCH: 1}
    if spec.shape is None:
        raise UsageError(
            f"a CSV file can't fill {spec.name}: its number of dimensions is unknown",
            code="samples-mismatch",
        )
    if missing := [dim for dim in spec.shape if isinstance(dim, str) and dim not in known]:
        raise UsageError(
            f"a CSV file can't fill {spec.name} {spec.describe()}: {missing[0]} has no size",
            code="size-unknown",
            hint=f"Give the size with --dim {missing[0]}=SIZE.",
        )
    return spec.sized(known)


def _named(spec: TensorSpec, count: int, places: Mapping[str, int]) -> tuple[int, ...] | None:
    """The columns named after an input, or as those that it was trained on; None where they aren't
    all there."""
    name = spec.name
    if count == 1 and name in places:
        return (places[name],)
    if len(spec.columns or ()) == count and len(_known(spec, places)) == count:
        return tuple(places[column] for column in spec.columns or ())
    if count > len(places):
        return None
    for style in ("{}[{}]", "{}_{}", "{}.{}"):
        wanted = [style.format(name, index) for index in range(count)]
        if all(column in places for column in wanted):
            return tuple(places[column] for column in wanted)
    return None
