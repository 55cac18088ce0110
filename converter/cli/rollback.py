"""``modelyard rollback``."""

from __future__ import annotations

import click

from converter.cli import completing, options
from converter.cli.printing import echo, echo_json


@click.command("rollback", cls=options.GroupedCommand)
@click.argument("model", metavar="REPOSITORY/MODEL", shell_complete=completing.file)
@click.option(
    "--to",
    type=click.IntRange(1),
    metavar="N",
    help="The version to serve. Default: the one before the newest that is served.",
)
@click.option("--undo", is_flag=True, help="Serve again what was served before the rollback.")
@options.common
def command(model: str, to: int | None, undo: bool, as_json: bool) -> None:
    """Serve an earlier version of a model in a repository.

    The repository is a folder or a URL (s3://BUCKET/FOLDER). The versions stay: only the server's
    configuration of the model changes, by one write.

    \b
    modelyard rollback models/net
    modelyard rollback s3://bucket/models/net --to 3
    modelyard rollback models/net --undo
    """
    from converter import api

    done = api.rollback(model, to=to, undo=undo)
    if as_json:
        echo_json(done.as_dict())
        return
    served, before = (", ".join(map(str, numbers)) for numbers in (done.now, done.before))
    echo(
        f"{done.server} serves version {served} of {done.place}; before, it was {before or 'none'}"
    )
    if not undo:
        echo(
            "All versions are still there. A version that is added next isn't served until: --undo"
        )
