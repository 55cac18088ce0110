"""``modelyard split``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import completing, options

_TAKEN = [
    *options.SOURCE, "serve", "name", "out", "overwrite", *options.TARGETS, *options.SAMPLES,
    *options.PRECISION, "check", *options.CHECKS, "bench", *options.LATENCY, *options.OF_PLUGINS,
    "offline", "cache",
]  # fmt: skip
_TAKEN = [name for name in _TAKEN if name not in ("to", "prepare", "keep_going")]


@click.command("split", cls=options.GroupedCommand)
@click.argument("source", shell_complete=completing.source)
@click.option("--at", metavar="TENSOR", help="Cut at this tensor, or after this node.")
@click.option("--smallest", "find_smallest", is_flag=True, help="Cut where the fewest bytes cross.")
@click.option(
    "--before", type=click.FloatRange(0, 1), default=1.0, metavar="SHARE",
    help="With --smallest: the device runs at most this share of the multiply-adds. [1]",
)  # fmt: skip
@click.option(
    "--most", type=click.IntRange(1), default=1, metavar="N",
    help="The most tensors that may cross. [1]",
)  # fmt: skip
@click.option("--device", default="onnx", metavar="TARGET", help="The first part's target. [onnx]")
@click.option("--cloud", default="onnx", metavar="TARGET", help="The second part's target. [onnx]")
@options.takes(*dict.fromkeys(_TAKEN))
@options.common
def command(source: str, as_json: bool, **values: Any) -> None:
    """Cut a model into two parts, for a device and a server.

    Without --at and --smallest, this shows where few bytes cross from one part to the other. Each
    place needs fewer bytes than all places with less work on the device. --serve is for the second
    part.

    \b
    modelyard split net.onnx
    modelyard split net.onnx --smallest --before 0.3 --samples photos/ --out build/split
    """
    from converter import api
    from converter.cli.show_split import show_split
    from converter.commands.progress import Progress

    with Progress() as progress:
        found = api.split(source, listener=progress, **options.given(values))
    show_split(found, as_json)
