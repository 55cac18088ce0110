"""``modelyard run``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from converter.cli import completing, options


def pairs(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    """Reads NAME=VALUE; of two with one name, the last one counts.

    Args:
        ctx: Click's context, for errors.
        param: The option that is read, for errors.
        texts: What was typed, one text for each time that the option was given.

    Raises:
        click.BadParameter: A text has no ``=``, or no name before it.
    """
    found = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, found, strict=True):
        if not equals or not name:
            raise click.BadParameter(f"{text!r} isn't NAME=VALUE", ctx, param)
    return {name: value for name, _, value in found}


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
    "--set",
    metavar="NAME=VALUE",
    multiple=True,
    callback=pairs,
    help="The value of the variable ${NAME} in recipes.",
)
@click.option(
    "--index",
    metavar="FILE",
    help="Write the page of all outputs to this file. Default for several recipes: index.html in"
    " the folder that holds the outputs.",
)
@click.option(
    "--trust-recipe",
    is_flag=True,
    help="Allow the code and interpreters that recipes name.",
)
@options.common
def command(
    recipes: Sequence[str],
    set: dict[str, str],
    index: str | None,
    trust_recipe: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Run a recipe: a conversion written as YAML.

    RECIPE is a file, or the name of a recipe that comes with Modelyard. Its keys are the options
    of `modelyard convert`. `extends: FILE` takes the keys of another recipe, and
    `vars: {NAME: VALUE}` declares variables. Several recipes (files, or YAML documents in one
    file) run one after the other and load their framework once. Each has its own output and
    error. The exit code is the highest of all. A table and a page show all results.

    A recipe that names code (FILE.py, module:name, --trust-source) or an interpreter runs only if
    you trust it: a terminal asks you, and elsewhere you pass --trust-recipe.
    """
    from converter.cli.several_recipes import ask, carry_out, jobs
    from converter.cli.show import show_conversion
    from converter.commands.convert import run_recipe

    given = {**options.given(values), "trust_recipe": trust_recipe}
    found = jobs(recipes, set)
    if not trust_recipe and not given.get("dry_run") and sys.stdin.isatty():
        ask(found)
    if len(found) > 1 or index is not None:
        carry_out(found, index, as_json, given)
        return
    recipe = found[0].recipe()
    show_conversion(lambda told: run_recipe(recipe, listener=told, **given), as_json)
