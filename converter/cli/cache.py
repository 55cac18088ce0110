"""``modelyard cache``."""

from __future__ import annotations

import re

import click

from converter.cli import options
from converter.cli.printing import echo, echo_json
from converter.files.cache_root import cache_root

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class _Size(click.ParamType[int]):
    """``20G``, ``500M``: bytes, in powers of 1000."""

    name = "size"

    def convert(self, value: object, param: object, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", str(value).strip().upper())
        if found is None:
            self.fail(f"{value}: a size, as 20G or 500M", None, ctx)
        return int(float(found[1]) * _UNITS[found[2]])


@click.command("cache", cls=options.GroupedCommand)
@click.argument("action", type=click.Choice(["info", "clear", "limit", "verify"]), default="info")
@click.argument("size", type=_Size(), required=False)
@click.option(
    "--cache",
    "place",
    metavar="URL",
    help="Act on this store, as convert --cache takes it (for info, limit and verify).",
)
@options.common
def command(action: str, size: int | None, place: str | None, as_json: bool) -> None:
    """Show, limit, check or clear the results and fetched files that earlier runs kept.

    limit SIZE sets how much the results of steps may take from now on. The least recently used
    results go first. verify reads every result and deletes the damaged ones.

    \b
    modelyard cache
    modelyard cache limit 20G
    modelyard cache verify --cache s3://bucket/cache
    """
    if (action == "limit") != (size is not None):
        raise click.UsageError("Only `cache limit` takes a size: modelyard cache limit SIZE")
    if place is not None and action == "clear":
        raise click.UsageError("cache clear only clears the cache of this machine")
    if place is not None:
        _behind(place, action, size or 0, as_json)
        return
    from converter.pipeline import cache

    if action == "clear":
        cache.clear()
    if action == "limit":
        gone = cache.set_limit(size or 0)
        _say(as_json, {"limit": size, "deleted": gone}, f"{gone} results deleted")
        return
    if action == "verify":
        kept = cache.Cache()
        _verified(kept.verify(), kept.damaged, as_json)
        return
    parts = cache.usage()
    if as_json:
        sizes = {name: {"files": files, "bytes": size} for name, (files, size) in parts.items()}
        echo_json({"folder": str(cache_root()), "limit": cache.limit_bytes(), "parts": sizes})
        return
    echo(f"{cache_root()}")
    for name, (files, used) in parts.items():
        limit = f", {cache.limit_bytes() / 1e6:.1f} MB at most" if name == "steps" else ""
        echo(f"  {name:10} {files:7} files {used / 1e6:10.1f} MB{limit}")


def _behind(place: str, action: str, size: int, as_json: bool) -> None:
    """The same of a store behind the cache."""
    from converter.pipeline.remote_cache import RemoteCache

    store = RemoteCache(place)
    if action == "limit":
        gone = store.trim(size)
        _say(as_json, {"limit": size, "deleted": gone}, f"{gone} results deleted")
    elif action == "verify":
        _verified(store.verify(), store.damaged, as_json)
    else:
        files, used = store.usage()
        _say(as_json, {"url": place, "files": files, "bytes": used},
             f"{place}: {files} files {used / 1e6:.1f} MB")  # fmt: skip


def _verified(whole: int, damaged: list[str], as_json: bool) -> None:
    text = "\n".join([f"{whole} results are whole", *(f"damaged, deleted: {n}" for n in damaged)])
    _say(as_json, {"whole": whole, "damaged": damaged}, text)


def _say(as_json: bool, values: dict[str, object], text: str) -> None:
    if as_json:
        echo_json(values)
    else:
        echo(text)
