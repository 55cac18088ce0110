"""``modelyard check``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import options


@click.command("check", cls=options.GroupedCommand)
@click.argument("artifact", type=click.Path())
@click.option(
    "--against", "source", required=True, metavar="SOURCE", help="The model it came from."
)
@options.takes(
    *options.SOURCE,
    "precision",
    "io_dtype",
    *options.SAMPLES,
    *options.CHECKS,
    "threads",
    "providers",
    "compute_units",
    "offline",
)
@options.common
def command(artifact: str, source: str, as_json: bool, **values: Any) -> None:
    """Compare an artifact with the model it came from, on samples.

    \b
    modelyard check build/net/onnx/fp32/model.onnx --against net.py:Net \\
        --weights net.pth --input x:batchx3x224x224 --samples photos/
    """
    from converter import api
    from converter.cli.show import Progress, show_check

    with Progress() as progress:
        result = api.check(artifact, source, listener=progress, **options.given(values))
    show_check(result, as_json)
