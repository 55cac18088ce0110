"""What rich shows of ours: text from files is text, and no command to the terminal.

Nothing else imports rich's own ``Text`` and ``Console``.
"""

from __future__ import annotations

import sys
from typing import Any

from rich import console, text

from converter.text.words import printable


class Text(text.Text):
    """Text of one line."""

    def __init__(self, text: str = "", style: Any = "", **options: Any) -> None:
        super().__init__(printable(text), style, **options)

    def append(self, text: text.Text | str, style: Any = None) -> text.Text:
        """Adds to it, as :meth:`assemble` does with each part."""
        return super().append(printable(text) if isinstance(text, str) else text, style)


def lines(text_: str, style: str = "") -> text.Text:
    """Text whose line ends are ours."""
    return text.Text("\n".join(map(printable, text_.split("\n"))), style)


class Console(console.Console):
    """A standard stream; line ends in plain strings are ours."""

    def render_str(self, text: str, **options: Any) -> text.Text:
        """As rich does it, with the string's other control characters shown."""
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)

    def on_broken_pipe(self) -> None:
        """Its reader is gone (``| head``); rich's own way is exit code 1, a bug of ours."""
        raise BrokenPipeError


def quiet() -> bool:
    """Whether ``--quiet`` was given."""
    return "--quiet" in sys.argv
