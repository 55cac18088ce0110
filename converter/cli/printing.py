"""What commands print without rich; text from files is text, and no command to the terminal."""

from __future__ import annotations

from typing import Any

import click

from converter.text.words import printable


def echo(*lines: str, err: bool = False, bold: bool = False) -> None:
    """Prints lines, on stdout unless ``err``."""
    for line in lines or ("",):
        text = printable(line)
        click.echo(click.style(text, bold=True) if bold else text, err=err)


def echo_json(value: Any) -> None:
    """Prints a value as JSON, exactly: JSON has escapes of its own."""
    import json

    click.echo(json.dumps(value, indent=2))
