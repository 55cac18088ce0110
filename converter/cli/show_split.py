"""What ``modelyard split`` prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.table import Table

from converter.cli.printing import echo_json
from converter.text.screen import Console, Text

if TYPE_CHECKING:
    from converter.commands.split import Split


def show_split(found: Split, as_json: bool) -> None:
    """The places where a model can be cut, and what came of cutting it."""
    if as_json:
        echo_json(found.as_dict())
        return
    from converter.cli.show import show_result
    from converter.commands.split import COLUMNS, row

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    lines = Table(box=None, pad_edge=False)
    for title in COLUMNS:
        number = title in ("bytes", "before", "after")
        lines.add_column(title, justify="right" if number else "left", no_wrap=number,
                         overflow="fold")  # fmt: skip
    for cut in found.cuts:
        lines.add_row(*map(Text, row(cut)), style="bold" if cut == found.chosen else None)
    console.print(lines)
    if not found.cuts:
        console.print(Text("no place is crossed by so few tensors; allow more: --most N"))
    if found.chosen is not None and found.converted is not None:
        tensors, size = ", ".join(found.chosen.tensors), f"{found.chosen.bytes:,} bytes"
        console.print(Text(f"cut at {tensors}: {size} of a sample cross over"))
        show_result(found.converted, False)
