"""``modelyard sensitivity``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import completing, options


@click.command("sensitivity", cls=options.GroupedCommand)
@click.argument("source", shell_complete=completing.source)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show only the N layers that cost the most.",
)
@options.takes(
    *options.SOURCE,
    "to",
    "precision",
    "simplify",
    "skip_passes",
    *options.SAMPLES,
    *options.PRECISION,
    "offline",
    "cache",
)
@options.common
def command(source: str, limit: int | None, as_json: bool, **values: Any) -> None:
    """Show what a lower precision costs in each layer.

    One layer at a time gets the lower precision, and the outputs are compared with the float
    model's. SOURCE is anything that convert takes.

    \b
    modelyard sensitivity net.py:Net --weights net.pth --input x:batchx3x224x224 \\
        --precision int8 --samples photos/ --limit 20
    """
    from converter import api
    from converter.cli.show_sensitivity import show_sensitivity
    from converter.commands.progress import Progress

    with Progress() as progress:
        result = api.sensitivity(source, listener=progress, **options.given(values))
    show_sensitivity(result, limit, as_json)
