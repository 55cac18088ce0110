"""``modelyard completion``."""

from __future__ import annotations

import click

from converter.cli import options
from converter.cli.shells import SHELLS


@click.command("completion", cls=options.GroupedCommand)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    modelyard completion bash >> ~/.bashrc
    modelyard completion zsh >> ~/.zshrc      (below compinit)
    modelyard completion fish > ~/.config/fish/completions/modelyard.fish
    """
    from converter.cli import cli

    click.echo(SHELLS[shell](cli, {}, "modelyard", "_MODELYARD_COMPLETE").source(), nl=False)
