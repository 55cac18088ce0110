"""What a source's files are known by, where nobody reads them: in messages and hints.

Each parser declares its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Marks:
    """Of one format.

    Attributes:
        suffixes: Of its files, in lower case, with the dot.
        folder: What a folder of it is, in words with an article; empty where there is none.
        live: What a model of it is in Python's memory, likewise.
        magic: Offset, bytes and what a file that has them there is, with an article.
        archives: A regular expression, and what a zip archive is that has a member of such a name.
    """

    suffixes: tuple[str, ...] = ()
    folder: str = ""
    live: str = ""
    magic: tuple[tuple[int, bytes, str], ...] = ()
    archives: tuple[tuple[str, str], ...] = ()

    def suit(self, path: Path) -> bool:
        """Whether a file ends or begins as its files do."""
        if path.suffix.lower() in self.suffixes:
            return True
        if not self.magic or not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(max(at + len(mark) for at, mark, _ in self.magic))
        return any(head[at:].startswith(mark) for at, mark, _ in self.magic)


def all_marks() -> list[Marks]:
    """Those that the parsers declare, and targets whose files no parser reads."""
    from converter import plugins

    return [item.marks for _, item in plugins.specs("parsers", "emitters")]


def one_of(texts: list[str]) -> str:
    """``a, b or c``."""
    return " or ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)
