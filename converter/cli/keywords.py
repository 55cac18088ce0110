"""Writes converter/options/keywords.py: ``python -m converter.cli.keywords``."""

from __future__ import annotations

from converter.options.request import all_fields, options
from converter.options.spelling import type_of

_HEAD = '''"""The fields of :class:`converter.options.request.Request`, as keywords of Python calls.

Written by ``python -m converter.cli.keywords``; editors and type checkers read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    import numpy as np

    Text: TypeAlias = str | PathLike[str]
    Arrays: TypeAlias = Mapping[str, Any] | np.ndarray[Any, Any]
    Declared: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any] | str]


class Keywords(TypedDict, total=False):
    """Options; docs/options.md says what each does."""

'''
_WRITTEN = "Declared"
_ARRAYS = ("samples", "calibration_samples")
_PLAIN = {
    "str": "Text",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "bool | str": "bool | Text",
    "Any": "Any",
}


def keywords_module() -> str:
    """The module's text: a key for each option, with the types that the calls take."""
    lines = [
        f"    {item.name}: {_type(item.name, type_of(item.name))}"
        for item in all_fields()
        if item.name not in ("source", "preparation", "layers")
    ]
    return _HEAD + "\n".join(lines) + "\n"


def _type(name: str, hint: object) -> str:
    text = str(hint).replace("typing.", "").removeprefix("<class '").removesuffix("'>")
    if text == "list[dict[str, Any]]":
        return _WRITTEN
    option = options().get(name)
    optional = " | None" if text.endswith(" | None") else ""
    text = text.removesuffix(" | None")
    if option and option.by_name:
        return text.replace("dict[", "Mapping[") + optional
    if name == "prepare":  # or how, which a recipe writes under the same key; or both
        optional = f" | {_WRITTEN}{optional}"
    if option and option.choices:
        return f"Literal[{', '.join(map(repr, option.choices))}]{optional}".replace("'", '"')
    if text.startswith("dict[str, "):
        return f"Mapping[str, {text.removeprefix('dict[str, ').removesuffix(']')}]"
    if text.startswith("list["):
        inner = _PLAIN[text.removeprefix("list[").removesuffix("]")]
        one = inner if inner == "Text" else f"Text | {inner}"
        return "Sequence[Any]" if inner == "Any" else f"{one} | Sequence[{inner}]"
    return (
        f"{_PLAIN[text]}{' | int' * (name == 'batch')}{' | Arrays' * (name in _ARRAYS)}{optional}"
    )


if __name__ == "__main__":
    print(keywords_module(), end="")
