"""Puts what a cell reads into the store: its source, the code beside that, its samples."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from converter.commands.convert import Part
from converter.errors import UsageError
from converter.executors.ray.job import FILES, SENT
from converter.files.digest import digest_of, file_digest
from converter.options.request import Request
from converter.pipeline.cache import Store
from converter.pipeline.reads import paths_read, placed, renamed

_MOST = 10_000


def sent(part: Part, store: Store) -> tuple[str, Path, Request]:
    """Puts the files that a part reads into a store.

    Args:
        part: What is asked for.
        store: Where they go.

    Returns:
        The key of their entry; the folder that their paths in it are relative to; and the request,
        which has :data:`SENT` and such a path for each.

    Raises:
        UsageError: The code's folder holds too much.
    """
    files = sorted({file for path in _read(part) for file in _files(path)})
    folder = Path(os.path.commonpath([file.parent for file in files])) if files else Path("/")
    names = {file.relative_to(folder).as_posix(): file for file in files}
    key = digest_of(["sent", {name: file_digest(file) for name, file in names.items()}])
    if not store.has(key):
        with tempfile.TemporaryDirectory(prefix="modelyard-") as made:
            for name, file in names.items():
                link = Path(made, FILES, name)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file)
            store.put(key, Path(made))

    def told(path: Path) -> str:
        return SENT + path.absolute().relative_to(folder).as_posix()

    return key, folder, renamed(part.request, lambda text: placed(text, told))


def _read(part: Part) -> list[Path]:
    """The files and folders that a part names, but for its interpreter, which every node has."""
    named = paths_read(part.request, part.identity)
    own = [path for what, path in named.items() if not what.startswith("--python ")]
    return [path.absolute() for path in (*own, *part.identity.assets.values())]


def _files(path: Path) -> Iterator[Path]:
    """The files of a folder; code with all Python files in its folder and below."""
    if path.is_dir():
        yield from (file for file in path.rglob("*") if file.is_file())
        return
    yield path
    if path.suffix == ".py":
        yield from _code(path.parent)


def _code(folder: Path) -> Iterator[Path]:
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and not Path(place, name, "pyvenv.cfg").exists()
        ]
        seen += len(names)
        if seen > _MOST:
            raise UsageError(
                f"{folder} holds more than {_MOST:,} files: all Python files below the folder of "
                "the source's code go to the nodes of the Ray cluster",
                hint="Put the code in a folder of its own.",
                code="python-unusable",
            )
        yield from (Path(place, name) for name in names if name.endswith(".py"))
