"""``modelyard serve``."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from converter.cli import completing, options
from converter.cli.printing import echo, echo_json
from converter.text.screen import quiet

if TYPE_CHECKING:
    from converter.commands.serve import Served
    from converter.serving.homes import Download


@click.command("serve", cls=options.GroupedCommand)
@click.argument("folder", type=click.Path(), shell_complete=completing.file)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="The port of HTTP. gRPC and metrics get the next ports. 0 takes free ports. Default: "
    "the server's usual ports.",
)
@click.option("--tls", nargs=2, metavar="CERT KEY", help="Use TLS with these PEM files.")
@click.option(
    "--container",
    is_flag=True,
    help="Run the server's own container with docker or podman. Without this option, a container"
    " runs only if nothing else can: on GPUs.",
)
@click.option("--image", metavar="NAME:TAG", help="The container's image. It implies --container.")
@click.option("--yes", is_flag=True, help="Download what the server needs without asking.")
@options.takes("offline")
@options.common
def command(
    folder: str,
    host: str,
    port: int | None,
    tls: tuple[str, str] | None,
    container: bool,
    image: str | None,
    yes: bool,
    offline: bool | None,
    as_json: bool,
) -> None:
    """Serve a package with its real server, until Ctrl-C.

    FOLDER is a package, or an output folder that holds one. The server runs in an environment of
    its own. Modelyard sets it up once, in the cache folder. The server's log goes to stderr. If a
    signal ends the server, Modelyard starts it again, at most three times.

    \b
    modelyard serve build/net
    modelyard serve build/net --port 9000 --tls server.crt server.key
    """
    from converter import api

    def state(text: str) -> None:
        if not quiet():
            echo(text, err=True)

    with api.serve(
        folder,
        host=host,
        port=port,
        tls=tls,
        container=container,
        image=image,
        offline=bool(offline),
        agree=partial(agree, yes),
        log=None if quiet() else state,
        state=state,
    ) as served:
        try:
            _announce(served, as_json)
            how = served.running.wait(partial(echo, err=True))
        except (KeyboardInterrupt, SystemExit):  # what ends it: no failure
            state(f"stopping {served.server}")
            return
        raise served.running.failure(how)


def _announce(served: Served, as_json: bool) -> None:
    """Says where the model is."""
    if as_json:
        echo_json({"server": served.server, "folder": str(served.folder),
                   "pid": served.running.pid, "addresses": dict(served.addresses)})  # fmt: skip
    else:
        echo(f"{served.server} serves {served.folder}; Ctrl-C ends it")
        echo(*(f"  {name:8} {place}" for name, place in served.addresses.items()))
    sys.stdout.flush()


def agree(yes: bool, download: Download) -> bool:
    """Asks on a terminal; elsewhere, ``--yes`` is needed."""
    if yes or not sys.stdin.isatty():
        return yes
    echo(f"{download.what} needs {download.size}, downloaded once:", err=True)
    echo(*(f"  {item}" for item in download.items), err=True)
    return click.confirm("Download it?", default=True, err=True)
