"""What ``modelyard diff`` gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.diff.difference import Difference
from converter.diff.words import told, verdict
from converter.errors import GateError, from_os_error
from converter.report.diff_page import as_html


@dataclass(frozen=True)
class Diffed:
    """Two models, compared tensor by tensor.

    Attributes:
        a, b: What they are called; never a path.
        based_on: What they were compared on, in words.
        difference: What was found.
        page: The page with the plot, where one was asked for.
    """

    a: str
    b: str
    based_on: str
    difference: Difference
    page: Path | None = None

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        return verdict(self.difference)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "a": self.a,
            "b": self.b,
            "based_on": self.based_on,
            "verdict": self.verdict,
            **self.difference.as_dict(),
        }

    def require(self) -> None:
        """Raises GateError where the models part."""
        if self.difference.first is not None:
            raise GateError(self.verdict, details=told(self.difference))

    def write(self, path: Path) -> None:
        """Writes the page.

        Raises:
            UsageError, MachineError: It can't be written.
        """
        text = as_html(self.difference, self.a, self.b, self.based_on)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise from_os_error(error, f"writing {path.name}") from error
