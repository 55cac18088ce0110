"""``modelyard run``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import completing, options


@click.command("run", cls=options.GroupedCommand)
@click.argument("recipe", type=click.Path(), shell_complete=completing.recipe)
@options.takes(
    "out", "overwrite", "keep_going", "repository", "strict", "bench", "dry_run", "offline",
    "cache", "reuse_source",
)  # fmt: skip
@options.common
def command(recipe: str, as_json: bool, **values: Any) -> None:
    """Carry out a recipe: a conversion written down as YAML.

    RECIPE is a file, or the name of one that comes with modelyard. Its keys are the
    options of `modelyard convert`.
    """
    from converter import api
    from converter.cli.show import show_conversion

    given = options.given(values)
    show_conversion(lambda told: api.run_recipe(recipe, listener=told, **given), as_json)
