"""Options as people write them in a recipe: a flag's name or a field's, with dashes or underscores,
and one value where a list has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from converter.errors import UsageError
from converter.options.request import Request, all_fields, option_of, sections

_OPTIONS = {item.name for item in all_fields() if "option" in item.metadata}


@cache
def spellings() -> Mapping[str, tuple[str, bool]]:
    """The field that each name stands for, and whether it says no (``no-bench``); the names have
    dashes."""
    found: dict[str, tuple[str, bool]] = {}
    for item in all_fields():
        found[_dashed(item.name)] = (item.name, False)
        for flag in item.metadata["option"].flags if "option" in item.metadata else ():
            for index, name in enumerate(flag.split("/")):
                found[name.removeprefix("--")] = (item.name, index > 0)
    return found


def field_of(key: str) -> tuple[str, bool]:
    """The field that a key names, and whether it says no; what isn't known stays."""
    return spellings().get(_dashed(key), (key, False))


def fields_of(written: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields of Request that were written, and how each was spelled; what isn't known stays.

    Raises:
        UsageError: One option is there twice, by two names; what says no isn't true or false.
    """
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for key, value in written.items():
        written_as, no = field_of(key)
        for name, given in as_written(written_as, value):
            if name in values:
                raise UsageError(
                    f"{where} has {spelled[name]} and {key}, which are the same option",
                    code="recipe-invalid",
                )
            if no and not isinstance(given, bool):
                raise UsageError(
                    f"{where} has {key}: {given!r}; write true or false", code="recipe-invalid"
                )
            spelled[name] = key
            values[name] = not given if no else _fitted(name, given)
    return values, spelled


def as_written(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Fields and their values: ``prepare`` says where, by a word; how, by a mapping or a list of
    such, which is the field ``preparation``; or both, by a list that has a word, too."""
    if isinstance(value, Mapping) and name in ("prepare", "answer"):
        value = [dict(value)]
    if isinstance(value, list) and name in ("prepare", "answer"):
        value = [{"kind": "step", **i} if isinstance(i, Mapping) and "step" in i else i
                 for i in value]  # fmt: skip
    if name != "prepare" or not isinstance(value, list):
        yield name, value
        return
    words = [item for item in value if isinstance(item, str)]
    if words:
        yield name, words[0] if len(words) == 1 else words
    yield "preparation", [item for item in value if not isinstance(item, str)]


@cache
def _hints() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in (*sections(), Request):
        found |= get_type_hints(kind)
    return found


def type_of(name: str) -> Any:
    """The type of an option's field: ``int | None``."""
    return _hints()[name]


def value_type(name: str) -> type:
    """The type of one value of the field: ``int`` for ``int | None`` and for ``list[int]``."""
    hint = _hints()[name]
    inner = [item for item in get_args(hint) if item is not type(None)]
    inner = [item for item in inner if get_origin(item) is None] or inner
    kind = inner[-1] if inner else hint
    return kind if isinstance(kind, type) and kind is not Any else str


def _dashed(name: str) -> str:
    return name.removeprefix("--").replace("_", "-")


def _fitted(name: str, value: Any) -> Any:
    """A value as the field has it: text for a number where text is meant, a list of one."""
    if name not in _OPTIONS or value is None:
        return value
    hint = _hints()[name]
    option, text = option_of(name), value_type(name) is str and get_args(hint) != (Any,)
    if option.by_name:
        return _by_name(value)
    if option.pairs:
        items = value if isinstance(value, list) else [value]
        pairs = [_pair(item) if isinstance(item, str) else item for item in items]
        if not all(isinstance(pair, Mapping) for pair in pairs):
            return value
        return {key: _plain(part, text) for pair in pairs for key, part in pair.items()}
    if get_origin(hint) is not list:
        return _plain(value, text)
    given = value if isinstance(value, list) else [value]
    if option.split:
        given = [p for v in given for p in (v.split(",") if isinstance(v, str) else [v])]
        given = [v.strip() if isinstance(v, str) else v for v in given]
    return [_plain(item, text) for item in option.spelled_out(given)]


def _by_name(value: Any) -> Any:
    """One value, or a mapping of names to values, as it is; of ``NAME=VALUE`` that mapping."""
    items = value if isinstance(value, list) else [value]
    if not any(isinstance(item, str) for item in items) and not isinstance(value, list):
        return value
    pairs = [_pair(item) if isinstance(item, str) else {"": item} for item in items]
    if not all(isinstance(pair, Mapping) for pair in pairs):
        return value
    return {key: part for pair in pairs for key, part in pair.items()}


def _plain(value: Any, text: bool) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if text and number else value


def _pair(text: str) -> Any:
    name, equals, value = text.partition("=")
    return {name: value} if equals and name else text
