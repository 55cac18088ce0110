"""``modelyard inspect``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import options


@click.command("inspect", cls=options.GroupedCommand)
@click.argument("source")
@options.takes(*options.SOURCE, "offline")
@options.common
def command(source: str, as_json: bool, **values: Any) -> None:
    """Show a model's inputs, outputs, operators, parameters and multiply-adds."""
    from converter import api
    from converter.cli.show import Progress, show_facts, show_inspection

    facts = api.inspect_artifact(source)
    if facts is not None:
        show_facts(facts, as_json)
        return
    with Progress() as progress:
        found = api.inspect(source, listener=progress, **options.given(values))
    show_inspection(found, as_json)
