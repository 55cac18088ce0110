"""``modelyard bench``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import completing, options


@click.command("bench", cls=options.GroupedCommand)
@click.argument("artifact", type=click.Path(), shell_complete=completing.file)
@click.option(
    "--against",
    metavar="SOURCE",
    shell_complete=completing.source,
    help="Measure this model too, in the same run, and the ratio.",
)
@options.takes(
    *options.SOURCE,
    "to",
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

    ARTIFACT is a file that convert wrote, or its output folder: each artifact in it is measured,
    or those of --to and --precision.

    \b
    modelyard bench model.onnx --bench-batch 1,8 --bench-concurrency 1,2
    """
    from converter import api
    from converter.cli.in_turn import in_turn
    from converter.cli.show import Progress, show_bench

    def run(path: str, given: dict[str, Any]) -> api.Benchmark:
        with Progress() as progress:
            return api.bench(path, against, listener=progress, **given)

    in_turn(artifact, values, as_json, run, show_bench, api.Benchmark.as_dict)
