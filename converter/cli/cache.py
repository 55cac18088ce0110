"""``modelyard cache``."""

from __future__ import annotations

import json

import click

from converter.cli import options


@click.command("cache", cls=options.GroupedCommand)
@click.argument("action", type=click.Choice(["info", "clear"]), default="info")
@options.common
def command(action: str, as_json: bool) -> None:
    """Show or clear what earlier runs kept: results of steps, fetched files."""
    from converter import cache

    if action == "clear":
        cache.clear()
    parts = cache.usage()
    if as_json:
        sizes = {name: {"files": files, "bytes": size} for name, (files, size) in parts.items()}
        click.echo(json.dumps({"folder": str(cache.cache_root()), "parts": sizes}, indent=2))
        return
    click.echo(f"{cache.cache_root()}")
    for name, (files, size) in parts.items():
        click.echo(f"  {name:10} {files:7} files {size / 1e6:10.1f} MB")
