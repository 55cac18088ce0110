"""Recipes in turn: those of several files, and of a file's documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from converter.cli.errors import known
from converter.cli.in_turn import Attempt, each
from converter.cli.printing import echo
from converter.cli.show import show_overview, show_result
from converter.commands.convert import Converted, run_recipe
from converter.commands.overview import Index, entry_of
from converter.commands.progress import Progress
from converter.errors import ModelyardError, PartlyError, UsageError
from converter.options.recipe import find_recipe
from converter.options.recipe_files import Recipe, RecipeFile, require_known
from converter.options.trust import trust, untrusted
from converter.runtime.worker import warm_workers


@dataclass(frozen=True)
class Job:
    """A recipe that is to be carried out.

    Attributes:
        title: How it is shown: ``all.yaml, document 2``.
        facts: What JSON says of it whatever comes of it.
        recipe: Gives it, or raises what is wrong with it.
    """

    title: str
    facts: Mapping[str, Any]
    recipe: Callable[[], Recipe]


def jobs(recipes: Sequence[str], given: Mapping[str, str]) -> list[Job]:
    """What is to be carried out: each recipe that the named files hold.

    Args:
        recipes: Files, or names of recipes that come with modelyard.
        given: Variables, by name.

    Raises:
        UsageError: A variable stands in none of them.
    """
    found = [job for name in recipes for job in _jobs_of(name, given)]
    read: list[Recipe] = []
    wrong: list[ModelyardError] = []
    for job in found if given else ():
        try:
            read.append(job.recipe())
        except ModelyardError as error:
            wrong.append(error)
    try:
        require_known(given, read)
    except UsageError as error:
        raise wrong[0] if wrong else error from None  # what couldn't be read may have it
    return found


def _jobs_of(name: str, given: Mapping[str, str]) -> list[Job]:
    try:
        file = RecipeFile(find_recipe(name), given)
    except ModelyardError as error:  # told in its turn
        return [Job(name, {"recipe": name}, partial(_fail, error))]
    several = len(file.numbers) > 1
    return [
        Job(
            f"{name}, document {number}" if several else name,
            {"recipe": name, **({"document": number} if several else {})},
            partial(file.recipe, number),
        )
        for number in file.numbers
    ]


def _fail(error: ModelyardError) -> Recipe:
    raise error


def ask(found: Sequence[Job]) -> None:
    """Asks whether what recipes name may run, of each file where that isn't known yet."""
    recipes: dict[Path, list[Recipe]] = {}
    for job in found:
        with suppress(ModelyardError):  # told when it is carried out
            recipe = job.recipe()
            recipes.setdefault(recipe.path, []).append(recipe)
    for path, those in recipes.items():
        named = dict.fromkeys(item for recipe in those for item in untrusted(recipe))
        if not named:
            continue
        echo(f"The recipe {path} names code that would run with your rights:", err=True)
        echo(*(f"  {item}" for item in named), err=True)
        if click.confirm("Do you trust it?", default=False, err=True):
            for recipe in those:
                trust(recipe)


def carry_out(
    found: Sequence[Job], index: str | None, as_json: bool, given: Mapping[str, Any]
) -> None:
    """Carries recipes out one after the other, then shows all of them in a table and on a page.

    Args:
        found: The recipes.
        index: Where the page is written; None for where all outputs lie.
        as_json: One object is printed, with a list of them.
        given: Options that override the recipes'.

    Raises:
        UsageError: One output is given for several, or the page can't be written there.
    """
    if "out" in given and len(found) > 1:
        raise UsageError(
            f"--out {given['out']} names one output, but there are {len(found)} recipes",
            code="option-conflict",
            hint="Write out: FOLDER into each recipe. Without it, a recipe's output is build/NAME.",
        )
    page = None if given.get("dry_run") else Index(index)
    taken: dict[Path, str] = {}

    def run(job: Job) -> Converted:
        recipe = job.recipe()
        try:
            with Progress() as progress:
                made = run_recipe(recipe, listener=progress, taken=taken, **given)
        except PartlyError as error:
            taken[error.converted.out.resolve()] = job.title
            raise
        except (ModelyardError, BrokenPipeError):
            raise
        except Exception as error:  # a bug of ours doesn't keep the others from their turn
            raise known(error) from error
        taken[made.out.resolve()] = job.title
        return made

    def conclude(attempts: Sequence[Attempt[Converted]]) -> Mapping[str, Any]:
        if page is None:
            return {}
        entries = [entry_of(item.title, item.made, item.error) for item in attempts]
        if not as_json:
            show_overview(entries)
        written = page.write(entries)
        if not as_json:
            echo(f"index: {written}" if written else page.why_not, err=not written)
        return {"index": str(written) if written else None}

    items = [(job.title, job.facts, partial(run, job)) for job in found]
    with warm_workers():
        each("recipes", items, as_json, show_result, Converted.as_dict, (ModelyardError,), conclude)
