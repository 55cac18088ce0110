"""Takes a file or a folder out of a zip or tar archive, without unpacking the rest."""

from __future__ import annotations

import fnmatch
import shutil
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from converter.errors import ModelError
from converter.files.store import PIECE


def take_file(archive: Path, member: str, target: Path, title: str, top: bool = True) -> None:
    """Writes the regular file ``member`` of an archive to ``target``.

    Args:
        archive: A .zip or .whl, or a .tar with any compression.
        member: Its name in the archive.
        target: Where it goes.
        title: What the archive is, for messages.
        top: Whether names in a tar start with its top folder, as they are stored; without it
            they are given below that (an sdist's has the version in it).

    Raises:
        ModelError: The archive is damaged, or has no such file.
    """
    with _opened(archive, top) as opened:
        if member not in opened.names():
            raise _not_there(title, member, opened.names())
        _copy(opened, member, target)


def take_folder(
    archive: Path, prefix: str, pattern: str | None, target: Path, title: str, top: bool = True
) -> None:
    """Writes the regular files below a folder of an archive.

    Args:
        archive: A .zip or .whl, or a .tar with any compression.
        prefix: The folder's name in the archive.
        pattern: What a file's own name has to match; None: all are written.
        target: Where they go.
        title: What the archive is, for messages.
        top: As for :func:`take_file`.

    Raises:
        ModelError: The archive is damaged, has no such file, or a file would lie outside
            ``target``.
    """
    prefix = prefix.rstrip("/")
    with _opened(archive, top) as opened:
        names = [name for name in opened.names() if _belongs(name, prefix, pattern)]
        if not names:
            what = f"{prefix}/{pattern}" if pattern else prefix
            raise _not_there(title, what, opened.names())
        for name in names:
            relative = name.removeprefix(prefix + "/")
            _refuse_escape(relative, archive.name)
            _copy(opened, name, target / relative)


@contextmanager
def _opened(archive: Path, top: bool) -> Iterator[_Archive]:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                yield _Zip(zipped)
        else:
            with tarfile.open(archive) as tarred:
                yield _Tar(tarred, top)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise ModelError(
            f"{archive.name} is a damaged archive ({error})", code="model-damaged"
        ) from error


class _Archive(ABC):
    """Regular files of an archive by name; links and devices are not among them."""

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def open(self, name: str) -> IO[bytes]: ...


class _Zip(_Archive):
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def names(self) -> list[str]:
        return [item.filename for item in self._archive.infolist() if _is_regular(item)]

    def open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)


class _Tar(_Archive):
    def __init__(self, archive: tarfile.TarFile, top: bool) -> None:
        files = [item for item in archive.getmembers() if item.isfile()]
        if top:
            self._items = {item.name: item for item in files}
        else:
            below = [item for item in files if "/" in item.name]
            self._items = {item.name.split("/", 1)[1]: item for item in below}
        self._archive = archive

    def names(self) -> list[str]:
        return list(self._items)

    def open(self, name: str) -> IO[bytes]:
        stream = self._archive.extractfile(self._items[name])
        assert stream is not None  # isfile() above
        return stream


def _is_regular(item: zipfile.ZipInfo) -> bool:
    kind = (item.external_attr >> 16) & 0o170000
    return not item.is_dir() and kind in (0, 0o100000)


def _belongs(name: str, prefix: str, pattern: str | None) -> bool:
    parts = PurePosixPath(name).parts
    if not name.startswith(prefix + "/") or "__pycache__" in parts:
        return False
    return pattern is None or fnmatch.fnmatchcase(parts[-1], pattern)


def _refuse_escape(relative: str, archive: str) -> None:
    parts = PurePosixPath(relative).parts
    if PurePosixPath(relative).is_absolute() or ".." in parts or "\\" in relative:
        raise ModelError(
            f"{archive} holds a file that would be outside of its folder: {relative!r}",
            code="path-outside",
        )


def _copy(archive: _Archive, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out, PIECE)


def _not_there(title: str, what: str, names: list[str]) -> ModelError:
    return ModelError(
        f"{title} holds no {what}",
        code="model-damaged",
        details=[f"it holds {name}" for name in sorted(names)[:20]],
    )
