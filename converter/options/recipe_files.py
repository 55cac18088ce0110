"""Recipes in files: the documents of one file, what they extend, and their variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.files.reading import reading
from converter.options.parts import require_parts
from converter.options.recipe import find_recipe, read_fields
from converter.options.recipe_variables import Budget, Variables, require_names
from converter.options.recipe_yaml import HINT, YamlFile
from converter.options.spelling import field_of

_LONGEST = 10
"""Files of a chain, in which each extends the next."""


@dataclass(frozen=True)
class Recipe:
    """A recipe as it is carried out.

    Attributes:
        path: Its file.
        where: How messages call it: ``the recipe all.yaml, document 2``.
        values: Fields of :class:`converter.options.request.Request`, the inputs' paths absolute.
        variables: The names that its variables have.
        read: Every file that says something of it, with its text.
        flow_places: Where a file has each step of its flow: ``r.yaml, line 12``.
    """

    path: Path
    where: str
    values: dict[str, Any]
    variables: frozenset[str]
    read: Mapping[Path, str]
    flow_places: Sequence[str] = ()


@dataclass(frozen=True)
class _Level:
    """A document of a chain: what it says, and for messages where."""

    file: YamlFile
    number: int
    values: dict[str, Any]
    where: str

    def places(self, key: str) -> list[str]:
        """Where the file has each item of a list."""
        return [f"{self.file.path}, line {line}" for line in self.file.lines(self.number, key)]


class RecipeFile:
    """A file of recipes, each a YAML document.

    Args:
        path: The file.
        given: Variables from outside (``--set``), by name.

    Attributes:
        numbers: The documents that are recipes, counted from 1.

    Raises:
        UsageError: It can't be read, isn't YAML, or comes to too much.
    """

    def __init__(self, path: Path, given: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self._given = given or {}
        require_names(self._given, "--set names a variable")
        self._file = YamlFile(path, f"the recipe {path}")
        self._files = {path.resolve(): self._file}
        self._budget = Budget()
        self._made: dict[int, Recipe] = {}
        self.numbers = self._file.numbers

    def title(self, number: int) -> str:
        """``all.yaml, document 2``; the path alone where there is one."""
        return self._file.where(number).removeprefix("the recipe ")

    def recipe(self, number: int | None = None) -> Recipe:
        """The recipe of a document; without a number, the only one.

        Raises:
            UsageError: There are several; the document, or what it extends, isn't right.
        """
        if number is None and len(self.numbers) > 1:
            raise UsageError(
                f"the recipe {self.path} holds {len(self.numbers)} recipes, and one is needed",
                code="choose-one",
                hint=f"Name its document: document={self.numbers[0]}.",
            )
        number = self.numbers[0] if number is None else number
        if number not in self.numbers:
            found = ", ".join(map(str, self.numbers))
            raise UsageError(
                f"the recipe {self.path} has the documents {found}, but not {number}",
                code="unknown-name",
            )
        if number not in self._made:
            with reading(self._file.where(number), UsageError, HINT):
                self._made[number] = self._make(number)
        return self._made[number]

    def _make(self, number: int) -> Recipe:
        variables = Variables(self._given, self._budget)
        chain = self._chain(number, variables)
        made: dict[str, Any] = {}
        for level in chain:
            values = {k: v for k, v in level.values.items() if field_of(k)[0] not in made}
            filled = variables.fill(values, level.where)
            variables.require_values()
            made = {**read_fields(filled, level.file.path.parent, level.where), **made}
        if "parts" in made:  # one file may have them, another the source
            beside = {key: value for key, value in made.items() if key != "parts"}
            require_parts(made["parts"], beside, chain[0].where)
        return Recipe(
            self.path,
            chain[0].where,
            made,
            frozenset(variables.known),
            {level.file.path.resolve(): level.file.text for level in chain},
            next((level.places("flow") for level in chain if "flow" in level.values), ()),
        )

    def _chain(self, number: int, variables: Variables) -> list[_Level]:
        """The document, then what it extends, and so on; their variables are declared."""
        found: list[_Level] = []
        file, where = self._file, self._file.where(number)
        while True:
            values = file.values(number)
            if "vars" in values:
                variables.declare(values.pop("vars"), file.texts(number, "vars"), where)
            base = values.pop("extends", None)
            found.append(_Level(file, number, values, where))
            if base is None:
                return found
            base = variables.fill(base, where)
            variables.require_values()
            file = self._extended(base, found)
            (number,) = file.numbers
            where = file.where(number)

    def _extended(self, name: Any, chain: list[_Level]) -> YamlFile:
        """The file that the last of a chain extends."""
        last = chain[-1]
        if not isinstance(name, str) or not name:
            raise UsageError(
                f"{last.where} has extends: {name!r}; give the file of one recipe, or the "
                "name of a recipe that comes with Modelyard",
                code="recipe-invalid",
            )
        path = find_recipe(name, last.file.path.parent)
        places = [level.file.path.resolve() for level in chain]
        names = [*(str(level.file.path) for level in chain), str(path)]
        steps = [f"{one} extends {other}" for one, other in pairwise(names)]
        if path.resolve() in places:
            raise UsageError(
                "recipes extend each other in a circle", code="recipe-invalid", details=steps
            )
        if len(chain) >= _LONGEST:
            raise UsageError(
                f"a recipe is a chain of more than {_LONGEST} files",
                code="recipe-invalid",
                details=steps,
            )
        file = self._files.get(path.resolve())
        if file is None:
            file = YamlFile(path, f"the recipe {path} (extended by {last.file.path})")
            self._files[path.resolve()] = file
        if len(file.numbers) > 1:
            raise UsageError(
                f"{last.where} extends {path}, which holds {len(file.numbers)} recipes",
                code="recipe-invalid",
                hint="Put the shared part into a file of its own.",
            )
        return file


def open_recipe(
    path: Path, given: Mapping[str, Any] | None = None, document: int | None = None
) -> Recipe:
    """The recipe of a file, or of one document of it.

    Args:
        path: The file.
        given: Variables from outside, by name.
        document: Counted from 1; None where there is one.

    Raises:
        UsageError: It isn't there, isn't YAML, isn't a mapping, a key or value isn't right, or
            a variable has no value or isn't one of its own.
    """
    recipe = RecipeFile(path, given).recipe(document)
    require_known(given or {}, [recipe])
    return recipe


def require_known(given: Iterable[str], recipes: Iterable[Recipe]) -> None:
    """Refuses variables from outside that stand in none of the recipes; raises UsageError."""
    found = {recipe.where: sorted(recipe.variables) for recipe in recipes}
    unknown = sorted(set(given) - {name for names in found.values() for name in names})
    if unknown:
        raise UsageError(
            f"--set names variables that don't exist: {', '.join(unknown)}",
            code="recipe-variables",
            details=[f"{where} has {', '.join(names) or 'none'}" for where, names in found.items()],
            hint="Variables are ${name} in a recipe's values, and the names under vars:.",
        )
