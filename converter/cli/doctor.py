"""``modelyard doctor``."""

from __future__ import annotations

import sys

import click

from converter.cli import options


@click.command("doctor", cls=options.GroupedCommand)
@options.common
def command(as_json: bool) -> None:
    """Show what is installed and usable here, and what to do about what isn't."""
    from converter import api
    from converter.cli.show import show_doctor

    findings = api.doctor()
    show_doctor(findings, as_json)
    if findings.problems:
        sys.exit(5)
