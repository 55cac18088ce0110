"""A sweep: one request for each combination of options.

A recipe has it under ``sweep:``, a mapping of options to lists of values, with ``exclude``, a list
of combinations that are left out, and ``want``, the need that decides what to ship. A name that is
no option stands for values that are mappings of options: ``model: [{source: a.onnx, samples: a/},
{source: b.onnx, samples: b/}]``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.files.digest import digest_of
from converter.options.parts import OF_ALL
from converter.options.recipe_yaml import plain_scalar
from converter.options.spelling import field_of, spellings

MOST = 1000
"""Combinations that a sweep may have, before any are excluded."""

_NOT_SWEPT = {"parts", "sweep", *OF_ALL} - {"keep_going"}
_LONGEST = 80
_TAKEN = ("sweep.json", "report.html")

Read = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Gives the fields of a request of options as they are written; raises UsageError."""


@dataclass(frozen=True)
class Choice:
    """A value of an axis.

    Attributes:
        text: For people: of a path the last part.
        fields: What it says, as fields of a request.
    """

    text: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One combination.

    Attributes:
        name: Of its folder in the output.
        options: What was chosen on each axis, for people.
        fields: The same as fields of a request.
    """

    name: str
    options: Mapping[str, str]
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Sweep:
    """A sweep as it is asked for.

    Attributes:
        axes: The choices on each.
        exclude: Combinations that are left out: the text of the choice, by axis.
        want: The need that decides what to ship; empty for none.
    """

    axes: Mapping[str, Sequence[Choice]]
    exclude: Sequence[Mapping[str, str]] = ()
    want: str = ""

    def beside(self, axes: Mapping[str, Sequence[Choice]], exclude: Sequence[Any] = ()) -> Sweep:
        """The sweep with more axes, or with others in the place of its own."""
        more = [_excluded(item) for item in exclude]
        return replace(self, axes={**self.axes, **axes}, exclude=[*self.exclude, *more])

    def choices(self) -> Iterator[Choice]:
        """Of all axes."""
        for choices in self.axes.values():
            yield from choices

    def cells(self, where: str) -> list[Cell]:
        """Its cells, the last axis turning fastest.

        Args:
            where: What it is from, for messages.

        Raises:
            UsageError: There are none or more than :data:`MOST`, or two axes say the same.
        """
        if not self.axes:
            raise UsageError(
                f"{where} sweeps nothing", code="sweep", hint="As in: sweep: {to: [onnx, tflite]}"
            )
        if (count := math.prod(map(len, self.axes.values()))) > MOST:
            raise UsageError(
                f"{where} has {count:,} combinations; the limit is {MOST:,}", code="sweep"
            )
        if unknown := {axis for item in self.exclude for axis in item} - self.axes.keys():
            raise UsageError(
                f"{where}: exclude names {', '.join(unknown)}, which the sweep doesn't vary",
                code="sweep",
            )
        combinations = (dict(zip(self.axes, chosen, strict=True))
                        for chosen in product(*self.axes.values()))  # fmt: skip
        cells = [_cell(chosen, where) for chosen in combinations if not self._excludes(chosen)]
        if not cells:
            raise UsageError(f"{where}: every combination is excluded", code="sweep")
        return list(_apart(cells))

    def _excludes(self, chosen: Mapping[str, Choice]) -> bool:
        return any(all(chosen[axis].text == text for axis, text in item.items())
                   for item in self.exclude)  # fmt: skip


def read_sweep(written: Any, where: str, read: Read) -> Sweep:
    """A sweep as a recipe has it.

    Args:
        written: What stands under ``sweep:``, as YAML gives it.
        where: What errors call the recipe.
        read: Reads options as a recipe writes them.

    Raises:
        UsageError: It is no mapping of options to lists, or a value isn't right.
    """
    if not isinstance(written, Mapping):
        raise UsageError(
            f"{where} has a sweep that isn't a mapping of options to lists",
            code="sweep",
            hint="For example: sweep: {to: [onnx, tflite], precision: [fp32, int8]}",
        )
    want, excluded = written.get("want", ""), written.get("exclude", [])
    if not isinstance(excluded, list) or not all(isinstance(i, Mapping) and i for i in excluded):
        raise UsageError(
            f"{where}: exclude isn't a list of combinations",
            code="sweep",
            hint="For example: exclude: [{to: tflite, precision: int8}]",
        )
    if not isinstance(want, str):
        raise UsageError(f"{where}: want has to be text, as in p95<20ms size<10MB", code="sweep")
    axes = {key: value for key, value in written.items() if key not in ("exclude", "want")}
    return Sweep(read_axes(axes, where, read), [_excluded(item) for item in excluded], want)


def read_axes(written: Mapping[Any, Any], where: str, read: Read) -> dict[str, list[Choice]]:
    """The axes of a sweep.

    Args:
        written: Options with their lists of values, as YAML gives them.
        where: What errors call the recipe.
        read: Reads options as a recipe writes them.

    Returns:
        For each axis, its choices in order.

    Raises:
        UsageError: An axis is no option, or has no list of values.
    """
    axes: dict[str, list[Choice]] = {}
    for key, values in written.items():
        axis = str(key)
        if not isinstance(values, list) or not values:
            raise UsageError(f"{where}, sweep: {axis} isn't a list of values", code="sweep")
        is_option = axis.removeprefix("--").replace("_", "-") in {*spellings(), *_NOT_SWEPT}
        if not is_option and not all(isinstance(item, Mapping) and item for item in values):
            raise UsageError(
                f"{where}, sweep: {axis} isn't an option",
                code="sweep",
                hint="A name of your own needs values that are mappings of options, as in "
                "model: [{source: a.onnx}, {source: b.onnx}].",
            )
        name = field_of(axis)[0] if is_option else axis
        axes[name] = [_choice({axis: v} if is_option else v, v, where, read) for v in values]
    return axes


def _choice(options: Mapping[Any, Any], value: Any, where: str, read: Read) -> Choice:
    named = {str(key): item for key, item in options.items()}
    if wrong := [key for key in named if field_of(key)[0] in _NOT_SWEPT]:
        raise UsageError(
            f"{where}, sweep: {wrong[0]} holds for the whole run, so a sweep can't vary it",
            code="sweep",
        )
    return Choice(_text(value), read(named))


def axes_from(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Axes of a command line: ``to=onnx,tflite``; where values hold commas, ``;`` separates.

    Raises:
        UsageError: One isn't OPTION=VALUE,VALUE.
    """
    found = {}
    for text in texts:
        axis, equals, values = text.partition("=")
        if not equals or not axis or not values:
            raise UsageError(
                f"{text!r} isn't OPTION=VALUE,VALUE",
                code="option-value",
                hint="As in: to=onnx,tflite",
            )
        parts = values.split(";" if ";" in values else ",")
        found[axis] = [plain_scalar(part.strip()) for part in parts]
    return found


def excluded_from(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Combinations of a command line: ``to=tflite,precision=int8``; raises UsageError."""
    found = []
    for text in texts:
        pairs = [part.partition("=") for part in text.split(",")]
        if not all(name and equals for name, equals, _ in pairs):
            raise UsageError(
                f"--exclude {text}: the form is OPTION=VALUE,OPTION=VALUE", code="option-value"
            )
        found.append({name: plain_scalar(value) for name, _, value in pairs})
    return found


def _excluded(item: Mapping[Any, Any]) -> dict[str, str]:
    return {field_of(str(axis))[0]: _text(value) for axis, value in item.items()}


def _cell(chosen: Mapping[str, Choice], where: str) -> Cell:
    fields: dict[str, Any] = {}
    for choice in chosen.values():
        if twice := fields.keys() & choice.fields.keys():
            raise UsageError(
                f"{where}, sweep: two axes set {', '.join(sorted(twice))}", code="sweep"
            )
        fields |= choice.fields
    names = [f"{axis}-{choice.text}" if _is_bare(choice.text) else choice.text
             for axis, choice in chosen.items()]  # fmt: skip
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(names)).strip("-._") or "cell"
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{digest_of(names)[:8]}"
    return Cell(name, {axis: choice.text for axis, choice in chosen.items()}, fields)


def _is_bare(text: str) -> bool:
    """Whether a text says nothing without its axis: a number, yes or no."""
    return not isinstance(plain_scalar(text), str)


def _text(value: Any) -> str:
    """A value in few words: of a path its last part."""
    if isinstance(value, Mapping):
        return _text(value.get("name") or value.get("source") or [*value.values()])
    if isinstance(value, list):
        return "+".join(map(_text, value))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return (Path(text).stem or text) if "/" in text or text.endswith(".onnx") else text


def _apart(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Cells of one name told apart by a number, on systems that know no small letters, too."""
    seen = {*_TAKEN}
    for cell in cells:
        name, number = cell.name, 1
        while name.lower() in seen:
            number += 1
            name = f"{cell.name}-{number}"
        seen.add(name.lower())
        yield replace(cell, name=name)
