"""``modelyard zoo``."""

from __future__ import annotations

from pathlib import Path

import click

from converter.cli import completing, options


@click.group("zoo", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Real models, by name: modelyard convert zoo:NAME."""


@command.command("list", cls=options.GroupedCommand)
@click.option("--task", metavar="TASK", help="Only the models for this task.")
@click.option("--framework", metavar="NAME", help="Only the models of this framework.")
@options.common
def list_models(task: str | None, framework: str | None, as_json: bool) -> None:
    """List the models."""
    from converter.cli.zoo_show import show_list
    from zoo import catalogue

    show_list(catalogue.select(task, framework), as_json)


@command.command("show", cls=options.GroupedCommand)
@click.argument("name", shell_complete=completing.zoo)
@options.common
def show(name: str, as_json: bool) -> None:
    """Show all that is known of a model."""
    from converter.cli.zoo_show import show_entry
    from zoo import catalogue

    show_entry(*catalogue.find_any(name), as_json)


@command.command("fetch", cls=options.GroupedCommand)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=completing.zoo)
@click.option(
    "--out",
    metavar="DIR",
    shell_complete=completing.file,
    help="Also copy the files into DIR/NAME.",
)
@options.takes("offline")
@options.common
def fetch(names: tuple[str, ...], out: str | None, offline: bool | None, as_json: bool) -> None:
    """Fetch the files of models into the cache, and check them.

    \b
    modelyard zoo fetch silero-vad fer
    """
    from converter.cli.zoo_show import show_fetched
    from zoo import catalogue, copies
    from zoo.entry import Joined

    plain_names: list[str] = []
    for name in names:  # all of them are there, or nothing is fetched
        plain, found = catalogue.find_any(name)
        plain_names += found.parts.values() if isinstance(found, Joined) else [plain]
    fetched = {}
    for name in dict.fromkeys(plain_names):
        plain, entry = catalogue.find(name)
        paths = catalogue.fetch(name, offline=bool(offline))
        if out:
            paths = copies.copy_files(paths, Path(out) / plain)
        fetched[plain] = (entry, paths)
    show_fetched(fetched, as_json)
