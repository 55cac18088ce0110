"""``modelyard cache``."""

from __future__ import annotations

import click

from converter.cli import options
from converter.cli.printing import echo, echo_json
from converter.files.cache_root import cache_root


@click.command("cache", cls=options.GroupedCommand)
@click.argument("action", type=click.Choice(["info", "clear"]), default="info")
@options.common
def command(action: str, as_json: bool) -> None:
    """Show or clear the results and fetched files that earlier runs kept."""
    from converter.pipeline import cache

    if action == "clear":
        cache.clear()
    parts = cache.usage()
    if as_json:
        sizes = {name: {"files": files, "bytes": size} for name, (files, size) in parts.items()}
        echo_json({"folder": str(cache_root()), "parts": sizes})
        return
    echo(f"{cache_root()}")
    for name, (files, size) in parts.items():
        echo(f"  {name:10} {files:7} files {size / 1e6:10.1f} MB")
