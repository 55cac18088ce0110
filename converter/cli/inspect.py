"""``modelyard inspect``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from converter.cli import completing, options

if TYPE_CHECKING:
    from converter.cli.show import Inspected


@click.command("inspect", cls=options.GroupedCommand)
@click.argument("source", shell_complete=completing.source)
@options.takes(*options.SOURCE, "to", "precision", "offline")
@click.option(
    "--time-limit",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop after this time. 0 means no limit.",
)
@options.common
def command(source: str, time_limit: float, as_json: bool, **values: Any) -> None:
    """Show a model's inputs, outputs, operators, parameters and multiply-adds.

    SOURCE is anything that convert takes, an artifact, or an output folder. In a folder, each
    artifact is shown; --to and --precision select some.
    """
    from converter import api
    from converter.cli.in_turn import in_turn
    from converter.cli.show import as_dict, show_inspected
    from converter.commands.progress import Progress
    from converter.runtime.supervised import limit_time

    limit_time(time_limit)

    def run(path: str, given: dict[str, Any]) -> Inspected:
        facts = api.inspect_artifact(path)
        if facts is not None:
            return facts
        with Progress() as progress:
            return api.inspect(path, listener=progress, **given)

    in_turn(source, values, as_json, run, show_inspected, as_dict)
