"""``modelyard check``."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from converter.cli import completing, options


@click.command("check", cls=options.GroupedCommand)
@click.argument("artifact", type=click.Path(), shell_complete=completing.file)
@click.option(
    "--against",
    "sources",
    multiple=True,
    metavar="SOURCE",
    shell_complete=completing.source,
    help="The model that the artifact came from. For an output with parts, give PART=SOURCE for "
    "each part.",
)
@options.asks_a_server
@options.takes(
    *options.SOURCE,
    "to",
    "precision",
    "io_dtype",
    *options.SAMPLES,
    *(name for name in options.CHECKS if name != "max_memory"),  # bench measures it
    "threads",
    "providers",
    *options.OPENING,
    "offline",
)
@options.common
def command(
    artifact: str,
    sources: tuple[str, ...],
    server: str | None,
    protocol: str | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Compare an artifact, or a server's answers, with the model it came from, on samples.

    ARTIFACT is a file that convert wrote, or its output folder. In a folder, each artifact is
    checked with the options that it was made with; --to and --precision select some. With
    --server, ARTIFACT is a package or the model's source. A package brings its own samples and
    expected outputs.

    \b
    modelyard check build/net --against net.py:Net --weights net.pth --samples photos/
    modelyard check build/net/onnx/fp32/model.onnx --against net.py:Net \\
        --weights net.pth --input x:batchx3x224x224 --samples photos/
    modelyard check build/net --server http://127.0.0.1:8000
    """
    from converter import api
    from converter.cli.in_turn import each, in_turn, source_of
    from converter.cli.show import show_check
    from converter.commands.opened import one_source
    from converter.commands.progress import Progress
    from converter.errors import GateError, ModelError

    def ask(what: str) -> api.Checked:
        with Progress() as progress:
            return api.check_server(what, str(server), protocol=protocol, listener=progress,
                                    **options.given(values))  # fmt: skip

    def run(path: str, given: dict[str, Any]) -> api.Checked:
        source = source_of(path, sources, artifact)
        with Progress() as progress:
            return api.check(path, str(source), listener=progress, **given)

    if server is not None:
        what = sources[0] if sources else artifact
        if packages := api.packages_of(what):
            named = [(p.name, {"package": str(p)}, partial(ask, str(p))) for p in packages]
            own = (ModelError, GateError)
            each("packages", named, as_json, show_check, api.Checked.as_dict, own)
        else:
            show_check(ask(what), as_json)
        return
    if not sources:
        raise click.UsageError("Missing option '--against' (or '--server').")
    with one_source():
        in_turn(artifact, values, as_json, run, show_check, api.Checked.as_dict)
