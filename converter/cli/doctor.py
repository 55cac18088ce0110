"""``modelyard doctor``."""

from __future__ import annotations

import sys

import click

from converter.cli import options


@click.command("doctor", cls=options.GroupedCommand)
@options.takes("python")
@options.common
def command(python: str | None, as_json: bool) -> None:
    """Show what is installed and usable here, and how to install what is missing.

    \b
    modelyard doctor
    modelyard doctor --python ~/venv/bin/python
    """
    from converter import api
    from converter.cli.show_doctor import examining, show_doctor

    with examining() as progress:
        findings = api.doctor(python, progress=progress)
    show_doctor(findings, as_json)
    if findings.problems:
        sys.exit(5)
