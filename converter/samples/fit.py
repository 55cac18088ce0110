"""Fits stored arrays to a model's inputs: names, dtypes, shapes, and where one sample ends.

All that can be said from an array's header (dtype and shape) is said from it, before any
contents are read. How a stored array of shape S becomes samples of an input of shape D:

1. D has the symbolic ``batch`` at some axis, S has as many dimensions: each index of that
   axis is a sample, kept as a batch of 1.
2. D starts with ``batch`` (or is fixed to 1), S lacks that dimension: one sample.
3. S has one dimension more than D: its first one counts samples.
4. No input has a symbolic batch, and D starts with a number B: each B of S are a sample.
5. Anything else of D's rank: the same array in every sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.ir.model import BATCH, TensorSpec, dtype_from_name
from converter.samples.base import Array

LABEL_KEYS = ("label", "labels", "y")
"""Names under which an .npz or a .csv may hold labels without ``--labels`` saying so."""


_LISTED = 50
"""Names that an error lists."""


@dataclass(frozen=True)
class Header:
    """What is known of a stored array without reading it."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Part:
    """How samples lie in a stored array.

    Attributes:
        count: How many there are; None where the whole array is every sample's.
        axis, step: Sample i is ``step`` indices of ``axis``, from ``i * step``.
        drop: The axis counts samples and is no dimension of the input.
        expand: The one sample lacks its batch dimension.
    """

    count: int | None = None
    axis: int = 0
    step: int = 1
    drop: bool = False
    expand: bool = False

    @property
    def sequential(self) -> bool:
        """Whether samples follow each other in memory, in C order."""
        return self.count is not None and self.axis == 0 and not self.expand

    def take(self, array: Array, index: int) -> Array:
        """Sample ``index`` out of the whole array."""
        if self.expand:
            return array[np.newaxis]
        if self.count is None:
            return array
        start = index * self.step
        taken = array[(slice(None),) * self.axis + (slice(start, start + self.step),)]
        return self.finish(taken)

    def finish(self, rows: Array) -> Array:
        """A sample out of its own slice of the array."""
        return rows[0] if self.drop else rows

    def shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one sample, of an array of shape ``stored``."""
        if self.expand:
            return (1, *stored)
        if self.count is None:
            return stored
        if self.drop:
            return stored[1:]
        return (*stored[: self.axis], self.step, *stored[self.axis + 1 :])


@dataclass(frozen=True)
class Layout:
    """How samples lie in a set of stored arrays.

    Attributes:
        names: The stored name of each input's array.
        parts: How samples lie in it, by input name.
        label: The stored name of the labels, where there are any.
        label_part: How labels lie in that.
        count: How many samples there are.
        step: How many rows make one: the fixed batch, or 1.
    """

    names: Mapping[str, str]
    parts: Mapping[str, Part]
    label: str | None
    label_part: Part
    count: int
    step: int


class Misfit(Exception):
    """One thing about one array that doesn't fit."""


def numpy_dtype(spec: TensorSpec) -> np.dtype[Any]:
    """The dtype of the arrays fed to an input; strings are objects."""
    if spec.dtype == "string":
        return np.dtype(object)
    return np.dtype(dtype_from_name(spec.dtype).numpy())


def lay_out(
    headers: Mapping[str, Header],
    inputs: Sequence[TensorSpec],
    where: str,
    labels: str | None = None,
) -> Layout:
    """How samples of ``inputs`` lie in the arrays of one file.

    Args:
        headers: The stored arrays by name; ``""`` for one that has no name.
        inputs: The model's inputs.
        where: What messages call the file.
        labels: The stored name of the labels; ``"none"`` for no labels; None for the usual ones.

    Raises:
        UsageError: They don't fit; every reason is listed.
    """
    label = _label_name(headers, inputs, where, labels)
    names = _match_names([n for n in headers if n != label], inputs, where, labels)
    batched = any(BATCH in (spec.shape or ()) for spec in inputs)
    parts: dict[str, Part] = {}
    problems: list[str] = []
    sizes: dict[str, tuple[int, str]] = {}
    for spec in inputs:
        header = headers[names[spec.name]]
        try:
            check_dtype(header.dtype, spec)
            part = parts[spec.name] = _part(spec, header, batched)
            _check_shape(spec, part.shape(header.shape), sizes)
        except Misfit as misfit:
            found = f"{spec.name}: expected {spec.describe()}, found {header}"
            problems.append(f"{found}: {misfit}")
    if not problems:
        problems.extend(_check_counts(parts))
    if problems:
        raise UsageError(
            f"{where} doesn't fit the model's inputs", code="samples-mismatch", details=problems
        )
    counted = [part for part in parts.values() if part.count is not None]
    count = counted[0].count or 0 if counted else 1
    step = max((part.step for part in counted), default=1)
    label_part = _label_part(headers[label], count, step, where) if label else Part()
    return Layout(names, parts, label, label_part, count, step)


def check_dtype(found: np.dtype[Any], spec: TensorSpec) -> None:
    """Raises Misfit unless arrays of dtype ``found`` are the input's without a cast."""
    if found.hasobject:
        raise Misfit("pickled objects are not read; save it with a plain dtype")
    if spec.dtype == "string":
        good = found.kind == "U"
    elif spec.dtype == "bfloat16":
        good = found == numpy_dtype(spec) or found == np.dtype("V2")  # as numpy saves it
    else:
        good = found.newbyteorder("=") == numpy_dtype(spec)
    if not good:
        raise Misfit(
            f"the dtype differs; convert it with array.astype({spec.dtype!r}) if that is "
            "what you want"
        )


def finish(array: Array, spec: TensorSpec, where: str) -> Array:
    """An array as it is fed: the input's dtype, contiguous, read-only.

    Args:
        array: Of a kind that can be cast to the input's dtype.
        spec: The input.
        where: What errors call the array.

    Raises:
        UsageError: It holds NaN or infinity; the first index is named.
    """
    wanted = numpy_dtype(spec)
    if array.dtype == np.dtype("V2"):
        array = array.view(wanted)
    array = np.asarray(array, dtype=wanted, order="C")
    if spec.is_float or spec.dtype.startswith("complex"):
        _check_finite(array, spec, where)
    array.setflags(write=False)
    return array


def _check_finite(array: Array, spec: TensorSpec, where: str) -> None:
    finite = np.isfinite(array)
    if spec.missing and array.ndim:
        finite |= np.isnan(array) & np.isin(np.arange(array.shape[-1]), spec.missing)
    if not finite.all():
        index = np.unravel_index(int(np.argmin(finite)), array.shape)
        value = array[index]
        place = f"[{', '.join(str(int(i)) for i in index)}]"
        if spec.columns:
            place += f", the column {spec.columns[int(index[-1])]!r}"
        unanswered = (
            " for which the model has no answer" if np.isnan(value) and spec.columns else ""
        )
        raise UsageError(
            f"{where}: the input {spec.name!r} holds {'NaN' if np.isnan(value) else value} at "
            f"{place}{',' * bool(unanswered)}{unanswered}",
            code="not-finite",
            hint="Remove the sample, or repair it.",
        )


def plain_label(label: Array) -> Any:
    """A label as Python has it: a number, a text; an array stays one."""
    return label.item() if label.ndim == 0 else label


def _label_name(
    headers: Mapping[str, Header],
    inputs: Sequence[TensorSpec],
    where: str,
    labels: str | None,
) -> str | None:
    names = {spec.name for spec in inputs}
    if labels is None:
        found = next((key for key in LABEL_KEYS if key in headers and key not in names), None)
        return found if len(headers) > 1 else None
    if labels == "none":
        return None
    if labels in names:
        raise UsageError(f"--labels {labels}: that is an input of the model", code="labels")
    if labels not in headers:
        raise UsageError(
            f"--labels {labels}: {where} holds no such array",
            code="labels",
            details=[f"it holds {', '.join(filter(None, headers)) or 'one without a name'}"],
        )
    return labels


def _match_names(
    stored: Sequence[str], inputs: Sequence[TensorSpec], where: str, labels: str | None
) -> dict[str, str]:
    """The stored name for each input: its own, or the only one there is for the only input."""
    names = [spec.name for spec in inputs]
    if labels == "none":
        stored = [name for name in stored if name in names or name not in LABEL_KEYS] or stored
    if set(stored) == set(names):
        return {name: name for name in names}
    if len(stored) == len(names) == 1:
        return {names[0]: stored[0]}
    missing = sorted(set(names) - set(stored))
    extra = sorted(set(stored) - set(names))
    details = [f"the model's inputs: {_few(names)}", f"found: {_few(stored)}"]
    if missing:
        details.append(f"missing: {_few(missing)}")
    if extra:
        details.append(f"not an input: {_few(extra)}")
    raise UsageError(
        f"{where}: its arrays don't have the names of the model's inputs",
        code="samples-mismatch",
        details=details,
        hint="Name each array after its input, as in np.savez(file, "
        f"{', '.join(f'{n}=...' if n.isidentifier() else '...' for n in names)}). Labels "
        "have the name 'label', or the name given with --labels.",
    )


def _few(names: Sequence[str]) -> str:
    """The first names of many: an .npz may hold any number."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _part(spec: TensorSpec, header: Header, batched: bool) -> Part:
    """Cases as numbered in the module's docstring."""
    if spec.shape is None:
        return Part()
    rank, shape = len(spec.shape), header.shape
    axis = spec.shape.index(BATCH) if BATCH in spec.shape else None
    first = spec.shape[0] if rank else None
    fixed = first if isinstance(first, int) and not batched and rank > 1 else None
    if len(shape) == rank:
        if axis is not None:  # 1
            return Part(shape[axis], axis)
        if fixed is None:  # 5
            return Part()
        if fixed == 0 or shape[0] % fixed:
            raise Misfit(f"its first dimension isn't a multiple of the fixed batch {fixed}")
        return Part(shape[0] // fixed, 0, fixed)  # 4
    if len(shape) == rank - 1 and (axis == 0 or fixed == 1):  # 2
        return Part(1, expand=True)
    if len(shape) == rank + 1 and (axis is None or shape[axis + 1] == 1):  # 3
        return Part(shape[0], 0, 1, drop=True)
    raise Misfit(f"it has {len(shape)} dimensions instead of {rank}")


def _check_shape(
    spec: TensorSpec, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]
) -> None:
    """Compares one sample's shape; ``sizes`` collects each symbol's size and who has it."""
    for axis, (wanted, found) in enumerate(zip(spec.shape or (), shape, strict=False)):
        if isinstance(wanted, int):
            if wanted != found:
                raise Misfit(f"dimension {axis} is {found} instead of {wanted}")
        elif wanted != BATCH and wanted != "?":
            size, name = sizes.setdefault(wanted, (found, spec.name))
            if size != found:
                raise Misfit(f"{wanted} is {found} here, but {size} in {name}")


def _check_counts(parts: Mapping[str, Part]) -> list[str]:
    counts = {name: part.count for name, part in parts.items() if part.count is not None}
    if 0 in counts.values():
        return [f"{name} holds no samples" for name, count in counts.items() if not count]
    if len(set(counts.values())) > 1:
        return [f"{name} holds {count} samples" for name, count in counts.items()]
    return []


def _label_part(header: Header, count: int, step: int, where: str) -> Part:
    """Labels: one a row (of which ``step`` make a sample), or one a sample."""
    if header.dtype.hasobject:
        raise UsageError(
            f"{where}: its labels are pickled objects, which are not read",
            code="labels",
            hint="Save them as numbers or as text.",
        )
    rows = header.shape[0] if header.shape else None
    if rows == count * step and step > 1:
        return Part(count, 0, step)
    if rows == count:
        return Part(count, 0, 1, drop=True)
    if count == 1 and rows is None:
        return Part()
    raise UsageError(
        f"{where} holds {count * step} samples, but labels of shape {list(header.shape)}",
        code="labels",
        hint="Give one label for each sample.",
    )
