"""What ``modelyard diff`` prints."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from converter.cli.show import Output

if TYPE_CHECKING:
    from converter.diff.result import Diffed


def show_diff(result: Diffed, as_json: bool) -> None:
    """Where two models part: the tensor, what makes it, and the errors around it."""
    if as_json:
        click.echo(json.dumps(result.as_dict(), indent=2))
        return
    from converter.diff.page import error_rows
    from converter.diff.words import told

    console = Output(width=None if sys.stdout.isatty() else 100, highlight=False)
    console.print(result.based_on, markup=False)
    console.print(Text(result.verdict, "bold"))
    for line in told(result.difference):
        console.print(Text(f"  {line}"))
    table = Table("", "tensor", "error", "SQNR", box=None, pad_edge=False)
    for row in error_rows(result.difference):
        table.add_row(*map(Text, row))
    console.print(table)
    if result.page:
        console.print(Text(f"page: {result.page}"))
