"""``modelyard run``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import click

from converter.cli import completing, options


@click.command("run", cls=options.GroupedCommand)
@click.argument(
    "recipes", metavar="RECIPE...", nargs=-1, required=True, type=click.Path(),
    shell_complete=completing.recipe,
)  # fmt: skip
@options.takes(
    "out", "overwrite", "keep_going", "repository", "strict", "bench", "dry_run", "offline",
    "cache", "reuse_source",
)  # fmt: skip
@click.option(
    "--trust-recipe",
    is_flag=True,
    help="Run code and interpreters that recipes name.",
)
@options.common
def command(recipes: Sequence[str], trust_recipe: bool, as_json: bool, **values: Any) -> None:
    """Carry out a recipe: a conversion written down as YAML.

    RECIPE is a file, or the name of one that comes with modelyard. Its keys are the
    options of `modelyard convert`. Several are carried out one after the other, each with
    its own output and error (the exit code is the highest), and load their framework once.

    A recipe that names code (FILE.py, module:name, --trust-source) or an interpreter is
    carried out once you trust it: a terminal asks, elsewhere --trust-recipe says so.
    """
    from converter import api
    from converter.cli.show import show_conversion

    given = options.given(values)
    if not trust_recipe and not given.get("dry_run") and sys.stdin.isatty():
        for recipe in recipes:
            _ask(recipe)
    given["trust_recipe"] = trust_recipe
    if len(recipes) > 1:
        _in_turn(recipes, as_json, given)
        return
    show_conversion(lambda told: api.run_recipe(recipes[0], listener=told, **given), as_json)


def _ask(recipe: str) -> None:
    """Asks whether what a recipe names may run, where that isn't known yet."""
    from converter.cli.printing import echo
    from converter.errors import UsageError
    from converter.options.recipe import find_recipe, load_recipe
    from converter.options.trust import trust, untrusted

    with suppress(UsageError):  # told when it is carried out
        path = find_recipe(recipe)
        if named := untrusted(path, load_recipe(path)):
            echo(f"The recipe {path} names what would run with your rights:", err=True)
            echo(*(f"  {item}" for item in named), err=True)
            if click.confirm("Do you trust it?", default=False, err=True):
                trust(path)


def _in_turn(recipes: Sequence[str], as_json: bool, given: dict[str, Any]) -> None:
    from converter import api
    from converter.cli.in_turn import each
    from converter.cli.show import show_result
    from converter.commands.progress import Progress
    from converter.errors import ModelyardError, UsageError

    if "out" in given:
        raise UsageError(
            f"--out {given['out']} is one output, and there are {len(recipes)} recipes",
            hint="Have out: FOLDER in each recipe; without it, the output is build/NAME.",
        )

    def carried_out(recipe: str) -> api.Converted:
        with Progress() as progress:
            return api.run_recipe(recipe, listener=progress, **given)

    items = [(recipe, {"recipe": recipe}, partial(carried_out, recipe)) for recipe in recipes]
    with api.warm_workers():
        each("recipes", items, as_json, show_result, api.Converted.as_dict, (ModelyardError,))
