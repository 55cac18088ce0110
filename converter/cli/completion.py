"""``modelyard completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from converter.cli import options


@click.command("completion", cls=options.GroupedCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    modelyard completion bash >> ~/.bashrc
    """
    from converter.cli import cli

    maker = get_completion_class(shell)
    if maker is not None:
        click.echo(maker(cli, {}, "modelyard", "_MODELYARD_COMPLETE").source())
