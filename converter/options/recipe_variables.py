"""Variables of a recipe: ``${name}`` in its values, declared by ``vars:``, given by ``--set``.

Values are replaced after YAML is read, so that no variable adds a key. One that is nothing but
``${name}`` becomes the variable's value, of its type; within a text stands what was written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from converter.errors import UsageError
from converter.options.recipe_yaml import MOST_BYTES, MOST_VALUES, plain_scalar

_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_PART = re.compile(r"\$\$\{|\$\{([^{}$]*)\}?")
_DEEPEST = 20
"""Variables that name one another."""


class Budget:
    """What a file, with all that it extends, comes to once variables stand in their places."""

    def __init__(self) -> None:
        self._values = self._characters = 0

    def take(self, where: str, text: str = "") -> None:
        """Counts a value; raises UsageError where they are too many, or too long."""
        self._values += 1
        self._characters += len(text)
        if self._values > MOST_VALUES or self._characters > MOST_BYTES:
            raise UsageError(
                f"{where} has more than {MOST_VALUES:,} values or {MOST_BYTES:,} bytes, "
                "counting its variables and the recipes that it extends",
                code="recipe-variables",
            )


class Variables:
    """The variables of one recipe.

    Args:
        given: What ``--set`` says: texts are read as YAML's scalars, and hold no variables.
        budget: Counts what values come to.

    Attributes:
        known: Names that are declared, or stand in a value.
        missing: Names that stand in a value and have none, with where.
    """

    def __init__(self, given: Mapping[str, Any], budget: Budget) -> None:
        self.known: set[str] = set()
        self.missing: dict[str, str] = {}
        self._given, self._budget = given, budget
        self._declared: dict[str, tuple[Any, str | None, str]] = {}
        self._filled: dict[str, tuple[Any, str | None]] = {}
        self._filling: list[str] = []

    def declare(self, values: Any, texts: Mapping[str, str], where: str) -> None:
        """Takes defaults over, where whoever extends them declares none.

        Args:
            values: What ``vars`` is.
            texts: Those of its scalars as they are written.
            where: The recipe, for messages.

        Raises:
            UsageError: They aren't a mapping of names.
        """
        if not isinstance(values, dict):
            raise UsageError(
                f"{where} has vars: {values!r}; write a mapping: {{name: value}}",
                code="recipe-variables",
            )
        require_names(values, f"{where} has the variable")
        for name, value in values.items():
            self.known |= {name, *_names_in(value)}
            self._declared.setdefault(name, (value, texts.get(name), where))

    def fill(self, value: Any, where: str) -> Any:
        """A value with its variables replaced; keys of mappings stay.

        Raises:
            UsageError: A variable isn't written as one, names itself, or is no text within one.
        """
        if isinstance(value, str):
            return self._text(value, where)[0]
        self._budget.take(where)
        if isinstance(value, dict):
            return {key: self.fill(item, where) for key, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item, where) for item in value]
        return value

    def require_values(self) -> None:
        """Refuses variables that have no value; raises UsageError with all of them."""
        if self.missing:
            raise UsageError(
                "a recipe has variables without a value",
                code="recipe-variables",
                details=[f"{where}: ${{{name}}}" for name, where in self.missing.items()],
                hint=f"Give it with --set {next(iter(self.missing))}=VALUE, or declare it: vars: "
                f"{{{next(iter(self.missing))}: VALUE}}. {self._there_are()}\nWrite $${{ "
                "for a ${ that isn't a variable.",
            )

    def _there_are(self) -> str:
        found = sorted({*self._declared, *self._given})
        return f"There are: {', '.join(found)}." if found else "There are none yet."

    def _text(self, text: str, where: str) -> tuple[Any, str | None]:
        """What a text is with its variables replaced, and how that is written within another."""
        whole = _PART.fullmatch(text)
        if whole and whole[1] is not None:
            found = self._value(whole, where)
            self._count(found[0], where)
            return found
        pieces, end = [], 0
        for part in _PART.finditer(text):
            pieces += [text[end : part.start()], self._within(part, where)]
            self._budget.take(where, pieces[-1])
            end = part.end()
        self._budget.take(where, text[end:])
        made = "".join([*pieces, text[end:]])
        return made, made

    def _within(self, found: re.Match[str], where: str) -> str:
        """The text that stands for one variable within others."""
        if found[1] is None:
            return "${"
        value, text = self._value(found, where)
        if text is None:
            raise UsageError(
                f"{where} has {found[0]} inside a text, but its value is "
                f"{type(value).__name__}: only text and numbers can be there",
                code="recipe-variables",
            )
        return text

    def _value(self, found: re.Match[str], where: str) -> tuple[Any, str | None]:
        """A variable's value, and its text where it has one."""
        name = found[1]
        if not (found[0].endswith("}") and _NAME.fullmatch(name)):
            raise UsageError(
                f"{where} has {found[0]!r}, which isn't a variable: write ${{name}}",
                code="recipe-variables",
                hint="Write $${ for a ${ that isn't a variable.",
            )
        self.known.add(name)
        if name in self._given:
            return _typed(self._given[name])
        if name not in self._declared:
            self.missing.setdefault(name, where)
            return found[0], found[0]
        if name not in self._filled:
            self._filled[name] = self._declaration(name)
        return self._filled[name]

    def _declaration(self, name: str) -> tuple[Any, str | None]:
        if name in self._filling or len(self._filling) > _DEEPEST:
            names = " -> ".join([*self._filling, name])
            raise UsageError(
                f"variables use each other in a circle, or too deeply: {names}",
                code="recipe-variables",
            )
        value, text, where = self._declared[name]
        self._filling.append(name)
        is_text = isinstance(value, str)
        filled = self._text(value, where) if is_text else (self.fill(value, where), text)
        self._filling.pop()
        return filled

    def _count(self, value: Any, where: str) -> None:
        """Counts a whole value once more, for the place that it stands in."""
        self._budget.take(where, value if isinstance(value, str) else "")
        for item in value.values() if isinstance(value, dict) else ():
            self._count(item, where)
        for item in value if isinstance(value, list) else ():
            self._count(item, where)


def require_names(names: Iterable[Any], where: str) -> None:
    """Refuses what can't be a variable's name; raises UsageError."""
    for name in names:
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise UsageError(
                f"{where} {name!r}: a name consists of letters, digits, '_', '-' and '.', "
                "with a letter first",
                code="recipe-variables",
            )


def _names_in(value: Any) -> set[str]:
    """The variables in a text."""
    return (
        {found[1] for found in _PART.finditer(value)} - {None} if isinstance(value, str) else set()
    )


def _typed(given: Any) -> tuple[Any, str | None]:
    """A value from outside, and its text."""
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if isinstance(given, str):
        return plain_scalar(given), given
    if isinstance(given, bool):
        return given, str(given).lower()
    return given, str(given) if isinstance(given, (int, float)) else None
