"""``modelyard diff``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import completing, options


@click.command("diff", cls=options.GroupedCommand)
@click.argument("a", metavar="A", shell_complete=completing.source)
@click.argument("b", metavar="B", shell_complete=completing.source)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    metavar="X",
    help="The largest error of tensors that agree, as a share of the tensor's largest value. "
    "Default: what rounding in that precision explains.",
)
@click.option(
    "--out",
    metavar="FILE",
    shell_complete=completing.file,
    help="Also write a page with the error along the graph.",
)
@click.option("--gate", is_flag=True, help="Exit with 4 if the models differ.")
@options.takes(*options.SOURCE, *options.SAMPLES, "offline")
@options.common
def command(
    a: str,
    b: str,
    tolerance: float | None,
    out: str | None,
    gate: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Find the first tensor at which two models differ.

    A and B are ONNX files, output folders with one artifact (or a part of one, for example
    build/net/onnx/int8), or anything that convert takes. The options of sources apply to models
    that aren't ONNX files. convert --keep-steps writes the model after each step to OUT/steps, so
    that you can compare it with the step before.

    \b
    modelyard diff build/net/onnx/fp32/model.onnx build/net/onnx/fp16/model.onnx \\
        --samples photos/ --out diff.html
    modelyard diff build/net/steps/read.onnx build/net/steps/simplified.onnx
    """
    from converter import api
    from converter.cli.show_diff import show_diff
    from converter.commands.progress import Progress

    with Progress() as progress:
        result = api.diff(
            a,
            b,
            tolerance=tolerance,
            out=out,
            listener=progress,
            **options.given(values),
        )
    show_diff(result, as_json)
    if gate:
        result.require()
