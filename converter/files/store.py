"""Where fetched files are kept: checked against their sha256, placed by a rename.

An item lies alone in ``<cache>/<part>/<first 16 digits of its sha256>/``, under its own name.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from converter.errors import DependencyError, ModelError, from_os_error
from converter.files.cache_root import cache_root

VERIFY_BELOW = 50_000_000
"""Bytes below which a cached file's sha256 is computed again at every use; above, its size and
the digest recorded when it was placed are compared."""

PIECE = 1 << 20
"""Bytes read at once."""

_RECORD = ".record.json"

Obtain = Callable[[Path, Path], None]
"""Called with a folder to work in and the path to write the item to."""


@dataclass(frozen=True)
class Item:
    """A file (or, with ``folder``, a folder) that is wanted.

    Attributes:
        title: What it is, for messages: ``net.pth of toy 1.0``.
        name: Its name in the cache.
        sha256: What its contents have to be; of a folder, :func:`folder_digest`.
        folder: Whether it is a folder.
        part: The part of the cache that it belongs to.
        by_hand: How a user would fetch it himself.
        changed: Why its contents may turn out to be others.
    """

    title: str
    name: str
    sha256: str
    folder: bool = False
    part: str = "packages"
    by_hand: str = ""
    changed: str = ""

    def __post_init__(self) -> None:
        if self.name in ("", ".", "..", _RECORD):
            raise ValueError(f"{self.title}: {self.name!r} can't be a file's name")

    @property
    def home(self) -> Path:
        """The folder in the cache that holds it and nothing else."""
        return cache_root().absolute() / self.part / self.sha256[:16]

    @property
    def path(self) -> Path:
        """Where it lies once it has been fetched."""
        return self.home / self.name


def keep(item: Item, obtain: Obtain, *, offline: bool = False) -> Path:
    """The item's path, from the cache or obtained now.

    Args:
        item: A file or folder, known by its sha256.
        obtain: Fetches it into a folder, where the cache lacks it.
        offline: Whether nothing may be fetched.

    Raises:
        DependencyError: It isn't there, and nothing may be fetched.
        ModelError: What was obtained is something else; nothing is kept.
        MachineError: The disk is full.
        Others: What ``obtain`` raises.
    """
    if is_there(item):
        return item.path
    if offline:
        raise _offline_error(item)
    try:
        item.home.parent.mkdir(parents=True, exist_ok=True)
        with _locked(item.home.with_suffix(".lock")):
            if not is_there(item):  # another process may have placed it meanwhile
                _fill(item, obtain)
    except OSError as error:
        raise from_os_error(error, f"fetching {item.title}") from error
    return item.path


def is_there(item: Item) -> bool:
    """Whether the item is in the cache, whole."""
    target = item.path
    if not (target.is_dir() if item.folder else target.is_file()):
        return False
    size = size_of(target)
    if size >= VERIFY_BELOW and (record := _record(item.home)):
        return record == {"sha256": item.sha256, "size": size}
    return digest_of_path(target) == item.sha256


def size_of(target: Path) -> int:
    """Bytes of a file, or of the files of a folder."""
    return sum(file.stat().st_size for file in _files(target))


def folder_digest(folder: Path) -> str:
    """The sha256 over the sorted relative names and contents of a folder's files.

    It is the digest of ``converter.ir.model.file_digest``, except that ``__pycache__`` is left out:
    importing a cached package may add that.
    """
    digest = hashlib.sha256()
    for file in _files(folder):
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode())
        _hash_into(digest, file)
    return digest.hexdigest()


def digest_of_path(target: Path) -> str:
    """The sha256 of a file, or a folder's :func:`folder_digest`."""
    if target.is_dir():
        return folder_digest(target)
    digest = hashlib.sha256()
    _hash_into(digest, target)
    return digest.hexdigest()


def _offline_error(item: Item) -> DependencyError:
    state = "in the cache is damaged" if item.path.exists() else "is not in the cache"
    by_hand = f", or copy the file there: {item.by_hand}" if item.by_hand else "."
    return DependencyError(
        f"{item.title} {state}, and nothing may be fetched (--offline)",
        code="offline",
        details=[f"sha256 {item.sha256}", f"expected at {item.path}"],
        hint=f"Run it once without --offline{by_hand}",
    )


def _record(home: Path) -> object:
    try:
        return json.loads((home / _RECORD).read_text())
    except (OSError, ValueError):
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds ``path`` against other processes; the system lets go of it when we are killed."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(item: Item, obtain: Obtain) -> None:
    """Obtains it into ``<home>.part``, which only the lock's holder touches, and renames it."""
    part = item.home.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    try:
        inbox, ready = part / "inbox", part / "ready"
        inbox.mkdir(parents=True)
        ready.mkdir()
        target = ready / item.name
        obtain(inbox, target)
        found = digest_of_path(target)
        if found != item.sha256:
            raise ModelError(
                f"{item.title} is not what was expected; nothing was kept",
                code="download-changed",
                details=[f"expected sha256 {item.sha256}", f"found    sha256 {found}"],
                hint=item.changed,
            )
        (ready / _RECORD).write_text(json.dumps({"sha256": found, "size": size_of(target)}))
        if item.home.exists():  # damaged, or we wouldn't be here
            item.home.rename(part / "damaged")
        ready.rename(item.home)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _hash_into(digest: hashlib._Hash, file: Path) -> None:
    with file.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)


def _files(target: Path) -> list[Path]:
    if target.is_file():
        return [target]
    found = (file for file in target.rglob("*") if file.is_file())
    return sorted(f for f in found if "__pycache__" not in f.relative_to(target).parts)
