"""Has a server serve an earlier version of a model in a repository: rollback()."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter import plugins
from converter.errors import UsageError, from_os_error
from converter.files.locked import REPOSITORY_PREFIX, locked_folder
from converter.files.object_store import ObjectStore, local_path
from converter.files.store_writer import StoreWriter
from converter.protocols.server import Server


@dataclass(frozen=True)
class RolledBack:
    """What a rollback changed.

    Attributes:
        place: The model's folder or URL.
        server: The server's name.
        before, now: The versions that it served, and serves from now on.
        file: The only file that was changed, by its name in the folder.
    """

    place: str
    server: str
    before: Sequence[int]
    now: Sequence[int]
    file: str

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**vars(self), "before": [*self.before], "now": [*self.now]}


def rollback(place: str | Path, *, to: int | None = None, undo: bool = False) -> RolledBack:
    """Has the server of a repository serve one earlier version of a model; deletes nothing.

    Args:
        place: ``REPOSITORY/MODEL``, a folder or the URL of one in an object store.
        to: The version; left out, the one before the newest that is served.
        undo: Serve again what was served before the first rollback.

    Returns:
        The versions that were served and are served now, and the file that was changed.

    Raises:
        UsageError: There is no such model or version, or its server has no repositories.
        MachineError: The disk or the store failed.

    Example:
        >>> modelyard.rollback("models/net", to=1).now
        [1]
    """
    if undo and to is not None:
        raise UsageError(
            "--undo and --to contradict each other",
            code="option-conflict",
            hint="Give one of them.",
        )
    folder = local_path(place)
    if folder is None:
        return _in_store(str(place).rstrip("/"), to, undo)
    if not folder.is_dir():
        raise UsageError(
            f"there is no model folder {folder}",
            code="file-not-found",
            hint="Name it: REPOSITORY/MODEL.",
        )
    done, text = _change(str(place), folder, to, undo)
    try:
        _replace(folder / done.file, text)
    except OSError as error:
        raise from_os_error(error, f"writing {folder / done.file}") from error
    return done


def _in_store(url: str, to: int | None, undo: bool) -> RolledBack:
    above, _, name = url.rpartition("/")
    store = ObjectStore(above)
    with StoreWriter(store, name) as writer, writer.turn(), tempfile.TemporaryDirectory() as made:
        folder = store.outline(name, Path(made))
        if not folder.is_dir():
            raise UsageError(
                f"there is no model at {url}", code="file-not-found", hint="Name it: URL/MODEL."
            )
        done, text = _change(url, folder, to, undo)
        store.write(f"{name}/{done.file}", text.encode())
    return done


def _change(place: str, folder: Path, to: int | None, undo: bool) -> tuple[RolledBack, str]:
    """What is to change of a model's folder, and its file's new text."""
    server = _server_of(folder, place)
    there, before = server.versions(folder), server.served(folder)
    if undo:
        number = None
    elif to is None:
        number = max((n for n in there if before and n < max(before)), default=None)
        if number is None:
            raise UsageError(
                f"{place} has no version before the one that it serves: it holds "
                f"{', '.join(map(str, there)) or 'no version'}",
                code="repository",
            )
    else:
        number = to
        if to not in there:
            raise UsageError(
                f"{place} has no version {to}",
                code="repository",
                hint=f"There are: {', '.join(map(str, there))}.",
            )
    file, text = server.serving(folder, number)
    with tempfile.TemporaryDirectory() as made:  # what it serves then, by its own reading
        other = Path(made) / folder.name
        other.mkdir()
        (other / file).write_text(text, encoding="utf-8")
        for version in there:
            (other / str(version)).mkdir()
        now = server.served(other)
    return RolledBack(place, server.name, before, now, file), text


def _server_of(folder: Path, place: str) -> Server:
    able = [plugins.load("servers", name) for name in plugins.working("servers")]
    able = [server for server in able if server.publishes]
    for server in able:
        if server.holds(folder):
            return server  # type: ignore[no-any-return]
    raise UsageError(
        f"{place} isn't a model in a repository",
        code="repository",
        hint=f"Servers with repositories: {', '.join(server.name for server in able)}.",
    )


def _replace(path: Path, text: str) -> None:
    """Replaces a file's text by a rename, so that a server reads the old one or the new one."""
    beside = path.parent.parent.resolve().parent
    same = beside.stat().st_dev == path.stat().st_dev and os.access(beside, os.W_OK | os.X_OK)
    with locked_folder(beside if same else path.parent.parent, REPOSITORY_PREFIX) as folder:
        made = folder / path.name
        with made.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(path, made)
        made.replace(path)
