"""What the script refuses, each with its exit code: those of modelyard itself."""

from __future__ import annotations

from collections.abc import Sequence

USAGE = 2
MODEL = 3
GATE = 4
DEPENDENCY = 5
MACHINE = 6


class Stopped(Exception):
    """Something that keeps the script from going on.

    Args:
        code: The exit code: usage or a file that isn't the one locked 2, the library refuses the
            model 3, the engine isn't close enough 4, library or GPU missing 5, machine 6.
        message: What was being done, and what was found.
        details: More of it, a line each.
        hint: What to do next.
    """

    def __init__(
        self, code: int, message: str, details: Sequence[str] = (), hint: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = list(details)
        self.hint = hint

    def lines(self) -> list[str]:
        found = [f"build_engine.py: {self.message}"]
        found += [f"  {item}" for item in self.details]
        return found + ([self.hint] if self.hint else [])


def shown(text: str) -> str:
    """Text in one line, with what a terminal would take for a command as visible escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
