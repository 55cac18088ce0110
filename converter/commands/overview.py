"""What came of several recipes: an entry for each, and the page of all their outputs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from converter.commands.convert import Converted
from converter.errors import ModelyardError, UsageError, from_os_error
from converter.files.output_guard import is_ours, seal_of
from converter.report import compared_page
from converter.report.index_page import SEAL, as_html
from converter.report.json_ import read_report
from converter.report.overview import Entry

NAME = "index.html"
_SEALS = [re.compile(seal.format("([0-9a-f]{64})").encode()) for seal in (SEAL, compared_page.SEAL)]


def entry_of(recipe: str, made: Converted | None, error: ModelyardError | None) -> Entry:
    """What came of a recipe, as a page of several shows it.

    Args:
        recipe: Its file or name.
        made: What the run made; None where it failed.
        error: Why it failed; a report that it left behind is read.
    """
    said = error.message.splitlines()[0] if error and error.message else ""
    if made is not None:
        return Entry(recipe, made.report, made.out, said)
    if error is not None and error.left is not None:
        report = read_report(error.left / "report.json")
        return Entry(recipe, report, from_here(error.left), said)
    return Entry(recipe, error=said)


class Index:
    """The page of all outputs of a command.

    Args:
        wanted: The file that was asked for; None for where all outputs lie.

    Attributes:
        why_not: Why no page was written, where none was asked for by name.

    Raises:
        UsageError: The file that was asked for can't be written there.
    """

    def __init__(self, wanted: str | None) -> None:
        self._wanted = None if wanted is None else Path(wanted)
        self.why_not = ""
        if self._wanted is not None and (why := in_the_way(self._wanted)):
            raise UsageError(
                f"--index {wanted}: {why}", code="output-in-the-way", hint="Choose another file."
            )

    def write(self, entries: Sequence[Entry]) -> Path | None:
        """Writes it; gives the file, or None where none was asked for by name and there is no
        place for one.

        Raises:
            UsageError, MachineError: The file that was asked for can't be written.
        """
        outputs = [entry.folder for entry in entries if entry.folder is not None]
        path = self._wanted or among(outputs)
        if path is None:
            self.why_not = "no index: there is no output"
            return None
        if why := in_the_way(path):
            if self._wanted is not None:
                raise UsageError(
                    f"--index {path}: {why}", code="output-in-the-way", hint="Choose another file."
                )
            self.why_not = f"no index: {why}; --index FILE names another place"
            return None
        put_page(path, as_html(entries, path.parent), SEAL)
        return path


def among(outputs: Sequence[Path], name: str = NAME) -> Path | None:
    """A page's place in the folder that holds all outputs; in ``build`` where that is the working
    directory, or holds it."""
    if not outputs:
        return None
    here = Path.cwd().resolve()
    folder = Path(os.path.commonpath([output.resolve().parent for output in outputs]))
    if here.is_relative_to(folder):
        return Path("build", name)
    return from_here(folder) / name


def from_here(path: Path) -> Path:
    """A path relative to the working directory, if it lies there."""
    here = Path.cwd().resolve()
    return path.relative_to(here) if path.is_relative_to(here) else path


def in_the_way(path: Path) -> str:
    """Why a page can't be written to ``path``; empty where it can."""
    place = path.parent.resolve()
    if (output := next(filter(is_ours, (place, *place.parents)), None)) is not None:
        return f"{output} is an output, which stays as it was made"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return f"{path} isn't a file"
    if path.exists() and not _is_index(path):
        return f"{path} isn't a page that modelyard made, or was changed since"
    return ""


def _is_index(path: Path) -> bool:
    """Whether a file is a page that :func:`put_page` wrote, unchanged."""
    text = path.read_bytes()
    found = next((match for seal in _SEALS if (match := seal.search(text))), None)
    if found is None:
        return False
    plain = text.replace(found[0], found[0].replace(found[1], b""), 1)
    return seal_of(plain.decode(errors="replace")) == found[1].decode()


def put_page(path: Path, page: str, seal: str) -> None:
    """Writes a page with its seal, which says that it is ours and unchanged.

    Args:
        path: The file, which is replaced.
        page: The page as HTML, with the empty seal in it.
        seal: The seal's text, with ``{}`` where the digest goes.

    Raises:
        UsageError: It can't be written there.
        MachineError: The disk is full.
    """
    put(path, page.replace(seal.format(""), seal.format(seal_of(page)), 1))


def put(path: Path, text: str) -> None:
    """Writes a file whole or not at all.

    Raises:
        UsageError, MachineError: It can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".modelyard-") as folder:
            made = Path(folder, NAME)
            made.write_text(text, encoding="utf-8", newline="\n")
            made.replace(path)
    except OSError as error:
        raise from_os_error(error, f"writing {path}") from error
