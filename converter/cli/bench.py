"""``modelyard bench``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import options


@click.command("bench", cls=options.GroupedCommand)
@click.argument("artifact", type=click.Path())
@click.option(
    "--against", metavar="SOURCE", help="Measure this model too, in the same run, and the ratio."
)
@options.takes(
    *options.SOURCE,
    "precision",
    "io_dtype",
    *options.SAMPLES,
    *options.LATENCY,
    "max_latency",
    "compute_units",
    "offline",
)
@options.common
def command(artifact: str, against: str | None, as_json: bool, **values: Any) -> None:
    """Measure an artifact's latency over batch sizes and concurrency.

    \b
    modelyard bench model.onnx --bench-batch 1,8 --bench-concurrency 1,2
    """
    from converter import api
    from converter.cli.show import Progress, show_bench

    with Progress() as progress:
        result = api.bench(artifact, against, listener=progress, **options.given(values))
    show_bench(result, as_json)
