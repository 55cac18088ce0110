"""Keeps what steps made, by the hash of everything that can change it.

An entry is a folder, written beside its place and renamed into it, so that one is whole
or not there. It holds the sha256 of its files, as a note does its value's: what isn't as it was
written is deleted, named, and counts as none. The cache lives in ``MODELYARD_CACHE``, else
``XDG_CACHE_HOME/modelyard``, else ``~/.cache/modelyard``; anything in it may be deleted at any
time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from converter.errors import ModelyardError, from_os_error
from converter.files.cache_root import cache_root
from converter.files.digest import digest_of, file_digest
from converter.files.object_store import local_path

if TYPE_CHECKING:
    from converter.options.request import Request

R = TypeVar("R")

SUMS = "sums.json"
"""The file of an entry with the sha256 of all others, by their paths in it. One without it is
damaged: entries of other versions have other keys, for those hold the digest of our code."""

LIMIT_BYTES = 20_000_000_000
"""Above this the entries unused for longest go, where the user set no other limit."""

_LIMIT = "limit"
"""The file of the cache's folder with the user's limit, in bytes."""

LEFT_AFTER = 86_400
"""Seconds after which what was begun and not finished counts as left behind."""


class Store(Protocol):
    """Folders of files by content key; the cache is one, and what lies behind it."""

    def has(self, key: str) -> bool:
        """Whether there is an entry of ``key``."""

    def get(self, key: str, folder: Path) -> bool:
        """Puts the files of the entry of ``key`` into an empty folder, each as it was written;
        False where there is none, or it is damaged."""

    def put(self, key: str, folder: Path) -> None:
        """Keeps the files of a folder under ``key``."""


class SharedStore(Store, Protocol):
    """One behind the cache, for several machines.

    Attributes:
        away: Why it isn't asked any more; empty while all is well.
        damaged: What wasn't as it had been written, and was deleted.
    """

    away: str
    damaged: list[str]

    def recall(self, key: str) -> Any:
        """The JSON value of ``key``; None where there is none."""

    def remember(self, key: str, value: Any, *, shared: bool = True) -> None:
        """Keeps a JSON value, replacing what was there.

        Args:
            key: A sha256, as hex digits.
            value: What JSON can hold.
            shared: Whether a store behind this one gets it as well.
        """


class Cache:
    """Folders by key under ``<root>/steps``; with ``enabled=False`` nothing is kept or found.

    Args:
        enabled: Whether anything is kept.
        behind: Where what isn't here is looked for, and what is kept here is put, too.

    Attributes:
        behind: As given.
        trouble: Why nothing can be kept any more, without a path; empty while all is well. What is
            there is still found.
        damaged: What was there and wasn't as it had been written, by its path in the cache.
    """

    def __init__(self, enabled: bool = True, behind: SharedStore | None = None) -> None:
        self._enabled = enabled
        self.behind = behind
        self._missing: set[str] = set()
        self._folder = cache_root() / "steps"
        self.trouble = ""
        self.damaged: list[str] = []
        self._whole: set[str] = set()

    @classmethod
    def of(cls, request: Request) -> Cache:
        """The cache that a request asks for.

        Raises:
            DependencyError, UsageError: The store of ``--cache`` can't be opened.
        """
        place = request.cache
        if not isinstance(place, str) or (request.offline and local_path(place) is None):
            return cls(bool(place))
        from converter.pipeline.remote_cache import RemoteCache

        return cls(True, RemoteCache(place))

    @property
    def takes(self) -> bool:
        """Whether anything is kept."""
        return self._enabled and not self.trouble

    def give_up(self, error: Exception) -> None:
        """Keeps nothing from now on: a folder that can't be written to, or a disk that is full."""
        plain = error.strerror if isinstance(error, OSError) else None
        said = error.message if isinstance(error, ModelyardError) else str(error)
        self.trouble = self.trouble or plain or said

    def find(self, key: str) -> Path | None:
        """The entry of ``key``, marked as used now; None where there is none, or it is damaged.

        All of its files are read when it is found for the first time, unless it was added here.
        """
        entry = self._place(key)
        if not self._enabled or not (os.path.lexists(entry) or self._brought(key)):
            return None
        if key not in self._whole:
            if (bad := _damage(entry)) is not None:
                if os.path.lexists(entry):  # or another process has deleted it meanwhile
                    self.drop(key, bad)
                return None
            self._whole.add(key)
        with suppress(OSError):  # it may only be read
            os.utime(entry)
        return entry

    def _brought(self, key: str) -> bool:
        """Whether the entry of ``key`` is here now, out of the store behind."""
        if self.behind is None or not self.takes or key in self._missing:
            return False
        self._missing.add(key)
        try:
            with self.adding(key) as folder:
                if folder is None or not self.behind.get(key, folder):
                    raise _NotThere
        except _NotThere:
            return False
        except OSError as error:
            self.give_up(error)
            return False
        return True

    def has(self, key: str) -> bool:
        """Whether there is an entry of ``key``, here or behind."""
        return self.find(key) is not None

    def get(self, key: str, folder: Path) -> bool:
        """Copies the files of the entry of ``key`` into an empty folder."""
        if (entry := self.find(key)) is None:
            return False
        shutil.copytree(entry, folder, ignore=shutil.ignore_patterns(SUMS), dirs_exist_ok=True)
        return True

    def put(self, key: str, folder: Path) -> None:
        """Keeps a copy of a folder under ``key``, unless something is there."""
        self.save(key, lambda made: shutil.copytree(folder, made, dirs_exist_ok=True))

    def load(self, key: str, load: Callable[[Path], R | None]) -> R | None:
        """What is kept under ``key``; None where there is none, or it is damaged.

        Args:
            key: The key.
            load: Reads an entry's folder; raises, or gives None, where it isn't one of its kind.
        """
        folder = self.find(key)
        if folder is None:
            return None
        with suppress(ModelyardError, OSError, ValueError, KeyError, TypeError):
            if (found := load(folder)) is not None:
                return found
        self.drop(key)
        return None

    def drop(self, key: str, what: str = "") -> None:
        """Deletes the entry of ``key``, of which the file ``what`` turned out to be damaged."""
        self._whole.discard(key)
        self._report(self._place(key), what)
        _delete(self._place(key))

    def _report(self, place: Path, what: str = "") -> None:
        """Names it once, also where it can't be deleted."""
        path = (place.relative_to(self._folder.parent) / what).as_posix()
        if path not in self.damaged:
            self.damaged.append(path)

    @contextmanager
    def adding(self, key: str) -> Iterator[Path | None]:
        """An empty folder that becomes the entry of ``key`` when the block ends well.

        Gives None where the cache is off, or was given up. An entry that has come to be meanwhile
        is kept.

        Raises:
            OSError: It can't be written to.
        """
        if not self.takes:
            yield None
            return
        place = self._place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".adding-", dir=place.parent) as made:
            folder = Path(made) / "entry"
            folder.mkdir()
            yield folder
            (folder / SUMS).write_text(json.dumps(_sums(folder, file_digest)))
            try:
                folder.rename(place)
            except OSError:
                if not place.is_dir():
                    raise
            else:
                self._whole.add(key)

    def save(self, key: str, save: Callable[[Path], object]) -> None:
        """Keeps what ``save`` writes into a folder under ``key``, unless something is there.

        Raises:
            OSError: It can't be written to.
        """
        if self.find(key) is None:
            with self.adding(key) as folder:
                if folder is not None:
                    save(folder)
            if self.behind is not None and (kept := self.find(key)):
                self.behind.put(key, kept)

    def remember(self, key: str, value: Any, *, shared: bool = True) -> None:
        """Keeps a JSON value under ``key``, replacing what was there; ``shared``, behind too."""
        if not self.takes:
            return
        place = self._note(key)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=place.parent, prefix=".adding-", delete=False
            ) as file:
                json.dump({"sha256": digest_of(value), "value": value}, file)
            Path(file.name).replace(place)
        except OSError as error:
            self.give_up(error)
            return
        if shared and self.behind is not None:
            self.behind.remember(key, value)

    def recall(self, key: str) -> Any:
        """The JSON value kept under ``key``; None where there is none, or it is damaged."""
        place = self._note(key)
        if not self._enabled:
            return None
        if not os.path.lexists(place):
            value = None if self.behind is None else self.behind.recall(key)
            if value is not None:
                self.remember(key, value, shared=False)
            return value
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            note = json.loads(place.read_bytes())
            if note["sha256"] == digest_of(note["value"]):
                return note["value"]
        self._report(place)
        _delete(place)
        return None

    def supersede(self, slot: str, key: str) -> None:
        """Has ``key`` be the only entry that is kept for ``slot``: deletes the one before it."""
        before = self.recall(slot)
        self.remember(slot, key, shared=False)
        if isinstance(before, str) and before != key:
            _delete(self._place(before))

    def _place(self, key: str) -> Path:
        return self._folder / key[:2] / key

    def _note(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    # -- housekeeping --------------------------------------------------------------

    def verify(self) -> int:
        """Reads every entry and note, and drops what is damaged; how many are whole."""
        whole = 0
        for entry in _made(self._folder, r"[0-9a-f]{64}(\.json)?"):
            if entry.suffix:
                whole += self.recall(entry.stem) is not None
            elif bad := _damage(entry):
                self.drop(entry.name, bad)
            else:
                whole += 1
        return whole

    def trim(self, limit: int | None = None) -> int:
        """Deletes the entries unused for longest until all fit in ``limit`` bytes; how many.

        Args:
            limit: Left out, the one that the user set, else :data:`LIMIT_BYTES`.
        """
        limit = limit_bytes() if limit is None else limit
        entries = sorted(self._entries(), key=_last_used)
        sizes = {entry: _size(entry) for entry in entries}
        total = sum(sizes.values())
        gone = 0
        for entry in entries:
            if total <= limit:
                break
            total -= sizes[entry]
            _delete(entry)
            gone += 1
        return gone

    def _entries(self) -> list[Path]:
        """What is kept, and what a process that was killed left half made; not what one makes."""
        young = time.time() - LEFT_AFTER
        return [
            entry
            for entry in _made(self._folder, _PARTS["steps"])
            if entry.is_dir() and not (entry.name.startswith(".") and _last_used(entry) > young)
        ]


def limit_bytes() -> int:
    """How many bytes of steps' results are kept."""
    try:
        return int((cache_root() / _LIMIT).read_text())
    except (OSError, ValueError):  # none, or damaged
        return LIMIT_BYTES


def set_limit(limit: int) -> int:
    """Keeps at most ``limit`` bytes of steps' results from now on; how many entries went.

    Raises:
        UsageError, MachineError: The cache can't be written to.
    """
    try:
        cache_root().mkdir(parents=True, exist_ok=True)
        (cache_root() / _LIMIT).write_text(f"{limit}\n")
    except OSError as error:
        raise from_os_error(error, "setting the cache's limit") from error
    return Cache().trim(limit)


class _NotThere(Exception):
    """The store behind has no such entry."""


def usage() -> dict[str, tuple[int, int]]:
    """For each part of the cache: how many files it has, and bytes."""
    root = cache_root()
    parts = sorted(part for part in root.iterdir() if part.is_dir()) if root.is_dir() else []
    counted = {part.name: [f for f in part.rglob("*") if f.is_file()] for part in parts}
    return {
        name: (len(files), sum(f.stat().st_size for f in files)) for name, files in counted.items()
    }


_FETCHED = r"[0-9a-f]{16}(\.lock|\.part)?"
_PARTS = {
    "steps": r"[0-9a-f]{64}(\.json)?|\.adding-\w+",
    "packages": _FETCHED,
    "downloads": _FETCHED,
    "zoo": r"[0-9a-f]{16}\.txt|\.part-\w+",
    "servers": r"[\w.-]+-[0-9a-f]{16}(\.lock)?",
    "logs": r"\d{8}-\d{6}\.log",
    "onnxruntime-tensorrt": r"TensorrtExecutionProvider_.+",
}
"""The folders of the cache, and what lies in them has names like; targets have others."""


def _parts() -> dict[str, str]:
    """All of them: nothing else is ever deleted, whatever folder MODELYARD_CACHE is."""
    from converter import plugins

    found = dict(_PARTS)
    for _, target in plugins.specs("emitters"):
        found |= target.cached
    return found


def clear() -> None:
    """Deletes everything that is kept in the cache."""
    for part, names in _parts().items():
        folder = cache_root() / part
        for entry in _made(folder, names):
            if not entry.is_dir():
                entry.unlink()
            else:
                _delete(entry, surely=True) if part == "steps" else shutil.rmtree(entry)
        for place in (*folder.glob("??"), folder):
            with suppress(OSError):  # not there, or something of the user's is in it
                place.rmdir()


def _made(folder: Path, names: str) -> list[Path]:
    """What in a part of the cache was made here."""
    found = folder.glob("[0-9a-f][0-9a-f]/*" if folder.name == "steps" else "*")
    return [entry for entry in found if re.fullmatch(names, entry.name) and not entry.is_symlink()]


def _read(path: Path) -> str:
    """The sha256 of a file as it is now, whatever was known of it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sums(folder: Path, digest: Callable[[Path], str] = _read) -> dict[str, str]:
    """The sha256 of all files in a folder but that of the sums, by their paths in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    others = (path for path in files if path != folder / SUMS)
    return {path.relative_to(folder).as_posix(): digest(path) for path in others}


def _damage(entry: Path) -> str | None:
    """The first file that isn't in an entry as it was written; None where all are."""
    try:
        known, found = json.loads((entry / SUMS).read_bytes()), _sums(entry)
        names = sorted({*known, *found})
        return next((name for name in names if known.get(name) != found.get(name)), None)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        named = getattr(error, "filename", None)
        return os.path.relpath(named, entry) if named else SUMS


def _delete(entry: Path, *, surely: bool = False) -> None:
    """Deletes an entry, its name first: nobody finds half of it, whoever is killed meanwhile."""
    if not entry.is_dir() or entry.is_symlink():
        with suppress(OSError):
            entry.unlink()
        return
    if not entry.name.startswith("."):
        gone = entry.with_name(f".adding-{entry.name}")
        shutil.rmtree(gone, ignore_errors=True)  # what a killed process left
        with suppress(OSError):  # another process may be at it too
            entry = entry.rename(gone)
    shutil.rmtree(entry, ignore_errors=not surely)


def _last_used(entry: Path) -> float:
    """Seconds since the epoch; 0 for what is gone meanwhile."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # gone meanwhile
            total += file.stat().st_size if file.is_file() else 0
    return total
