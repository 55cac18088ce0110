"""``modelyard explain``."""

from __future__ import annotations

import click

from converter.cli import options


@click.command("explain", cls=options.GroupedCommand)
@click.argument("code", required=False)
@options.common
def command(code: str | None, as_json: bool) -> None:
    """Explain an error by its code: what it means, what causes it and what to do.

    The code stands in brackets at the beginning of an error. Without CODE, all codes are listed.

    \b
    modelyard explain file-not-found
    """
    from dataclasses import asdict

    from converter.cli.printing import echo, echo_json
    from converter.commands.explain import kind_of, kinds

    if code is not None:
        found = kind_of(code.strip().removeprefix("error").strip("[]: "))
        echo_json(asdict(found)) if as_json else echo(*found.text().splitlines())
    elif as_json:
        echo_json([asdict(kind) for kind in kinds().values()])
    else:
        width = max(map(len, kinds()))
        echo(*(f"{kind.code:{width}}  {kind.means}" for kind in kinds().values()))
