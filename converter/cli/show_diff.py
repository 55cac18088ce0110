"""What ``modelyard diff`` prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.table import Table

from converter.cli.printing import echo_json
from converter.text.screen import Console, Text

if TYPE_CHECKING:
    from converter.report.diff_result import Diffed


def show_diff(result: Diffed, as_json: bool) -> None:
    """Where two models part: the tensor, what makes it, and the errors around it."""
    if as_json:
        echo_json(result.as_dict())
        return
    from converter.diff.words import told
    from converter.report.diff_page import error_rows

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    console.print(Text(result.based_on))
    console.print(Text(result.verdict, "bold"))
    for line in told(result.difference):
        console.print(Text(f"  {line}"))
    table = Table("", "tensor", "error", "SQNR", box=None, pad_edge=False)
    for row in error_rows(result.difference):
        table.add_row(*map(Text, row))
    console.print(table)
    if result.page:
        console.print(Text(f"page: {result.page}"))
