"""``modelyard convert``."""

from __future__ import annotations

from typing import Any

import click

from converter.cli import completing, options

COMMAND = (
    *options.SOURCE, *options.TARGETS, *options.SAMPLES, *options.PRECISION, "check",
    *options.CHECKS, "bench", *options.LATENCY, *options.OF_PLUGINS,
    "dry_run", "offline", "cache", "reuse_source",
)  # fmt: skip


@click.command("convert", cls=options.GroupedCommand)
@click.argument("source", shell_complete=completing.source)
@options.takes(*COMMAND)
@options.common
def command(source: str, as_json: bool, **values: Any) -> None:
    """Turn a model into checked, deployable files.

    SOURCE is a model's file (.onnx, .keras, .h5, .tflite, .pb, .meta, .pt2, .pt), a folder
    (SavedModel, Hugging Face), FILE.py:CLASS, package.module:factory, or zoo:NAME.

    \b
    modelyard convert model.onnx --serve triton --samples photos/
    modelyard convert net.py:Net --weights net.pth --input x:batchx3x224x224 \\
        --serve triton --samples photos/ --out build/net
    """
    from converter import api
    from converter.cli.show import show_conversion

    given = options.given(values)
    show_conversion(lambda told: api.convert(source, listener=told, **given), as_json)
