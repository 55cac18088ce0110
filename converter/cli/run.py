"""``modelyard run``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import options


@click.command("run", cls=options.GroupedCommand)
@click.argument("recipe", type=click.Path())
@options.takes("out", "overwrite", "repository", "bench", "dry_run", "offline", "cache")
@options.common
def command(recipe: str, as_json: bool, **values: Any) -> None:
    """Carry out a recipe: a conversion written down as YAML.

    RECIPE is a file, or the name of one that comes with modelyard. Its keys are the
    options of `modelyard convert`, with underscores.
    """
    from converter import api
    from converter.cli.show import Progress, show_result

    with Progress() as progress:
        result = api.run_recipe(recipe, listener=progress, **options.given(values))
    show_result(result, as_json)
