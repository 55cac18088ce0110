"""``modelyard tune``."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import click

from converter.cli import completing, options
from converter.cli.serve import agree


def _milliseconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """``20ms``, ``20``, ``0.5s``."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s)?", text.strip())
    if found is None or not float(found[1]):
        raise click.BadParameter(f"{text}: a time has to be above 0, as in 20ms", ctx, param)
    return float(found[1]) * (1000 if found[2] == "s" else 1)


def _callers(ctx: click.Context, param: click.Parameter, text: str | None) -> list[int]:
    """Numbers above 0, by comma."""
    parts = text.split(",") if text else []
    if not all(part.isdecimal() and int(part) for part in parts):
        raise click.BadParameter(f"{text}: give whole numbers above 0, as in 1,4", ctx, param)
    return [int(part) for part in parts]


@click.command("tune", cls=options.GroupedCommand)
@click.argument("folder", type=click.Path(), shell_complete=completing.file)
@click.option(
    "--p95", callback=_milliseconds, metavar="TIME", help="The limit of p95, for example 20ms."
)
@click.option(
    "--for",
    "goal",
    type=click.Choice(["throughput", "latency", "memory"]),
    default="throughput",
    show_default=True,
    help="The goal: most samples a second within --p95, smallest p95, or least memory.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="The most minutes that it may take.",
)
@click.option("--trials", type=click.IntRange(1), metavar="N", help="The most settings to try.")
@click.option(
    "--concurrency",
    "callers",
    callback=_callers,
    metavar="N,N",
    help="How many callers ask at the same time. Default: 1,2,4,8 for throughput, else 1.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=2.0,
    show_default=True,
    help="How long each load lasts.",
)
@click.option(
    "--files",
    metavar="DIR",
    help="Send these files, if the server prepares files. Their preparation is tuned, too.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be tried.")
@click.option("--yes", is_flag=True, help="Download what the server needs without asking.")
@options.takes("seed", "offline")
@options.common
def command(folder: str, yes: bool, as_json: bool, **values: Any) -> None:
    """Find a package's best settings on its real server.

    FOLDER is a package, or an output folder that holds one. The settings are instances, batches,
    waiting and threads, and the precision if the package has several. Every trial has to give the
    expected answers. Settings that are better by more than noise are written into the package.
    Otherwise it stays as it is.

    \b
    modelyard tune build/net --p95 20ms
    modelyard tune build/net --for memory --p95 50ms --minutes 10
    """
    from converter import api
    from converter.cli.show_tune import show_tuning
    from converter.commands.progress import Progress

    seed, offline = values.pop("seed"), values.pop("offline")
    with Progress() as progress:
        made = api.tune(folder, agree=partial(agree, yes), listener=progress,
                        seed=seed or 0, offline=bool(offline), **values)  # fmt: skip
    show_tuning(made, as_json)
