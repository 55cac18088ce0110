"""The command line: one module a command, thin, no logic."""

from __future__ import annotations

import importlib
import os
import sys

import click

from converter.cli.printing import echo

COMMANDS = {
    "convert": "Turn a model into checked, deployable files.",
    "run": "Run a recipe.",
    "sweep": "Run a recipe with every combination of options.",
    "report": "Compare runs on one page, and say what to ship.",
    "check": "Compare an artifact with the model it came from.",
    "bench": "Measure an artifact's latency, or a server's under load.",
    "serve": "Serve a package with its real server.",
    "tune": "Find the settings with which a package serves best.",
    "rollback": "Serve an earlier version of a model in a repository.",
    "diff": "Find the first tensor at which two models differ.",
    "sensitivity": "Show what a lower precision costs in each layer.",
    "split": "Cut a model into two parts, for a device and a server.",
    "inspect": "Show a model's inputs, outputs, operators and size.",
    "zoo": "Show the real models of the catalogue, and fetch them.",
    "doctor": "Show what is installed and usable here.",
    "explain": "Explain an error by its code.",
    "cache": "Show or clear what earlier runs kept.",
    "completion": "Print the shell's completion script.",
}
"""The commands, in the order of the help. A command's module is only imported when it runs."""


class _Commands(click.Group):
    """A group whose commands are imported when they are used, so that the help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"converter.cli.{name}").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would end with 1, which is a bug of ours
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(_with_nearest(error.message, args[0]), ctx) from error


def _with_nearest(message: str, word: str) -> str:
    from difflib import get_close_matches

    nearest = get_close_matches(word, COMMANDS, 1)
    return f"{message} Did you mean {nearest[0]!r}?" if nearest else message


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        echo(f"modelyard {version('modelyard')}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version.",
)  # fmt: skip
def cli() -> None:
    """One line from a trained model to a checked, deployable folder."""
    from converter.cli.around import around

    click.get_current_context().with_resource(around())


def _complete_by_our_own_scripts() -> None:
    from click.shell_completion import add_completion_class

    from converter.cli.shells import SHELLS

    for shell in SHELLS.values():
        add_completion_class(shell)


def main() -> None:
    from converter.cli.errors import reporting

    if "_MODELYARD_COMPLETE" in os.environ:
        _complete_by_our_own_scripts()
    with reporting():
        cli.main(standalone_mode=False)
