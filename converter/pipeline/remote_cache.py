"""A store behind the cache that machines share, over fsspec: ``--cache s3://bucket/folder``.

Files lie in ``objects/`` under their sha256, entries in ``entries/KEY.json``: the sha256 of each
file by its path. An entry is written after its files, so that one is whole or not there, and no two
writers mix theirs. Whatever is read is held against its sha256 first; what doesn't fit is deleted.
An entry is written anew when it is used: those unused for longest go first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import Any, Concatenate, ParamSpec, TypeVar

from converter.errors import ModelyardError
from converter.files.digest import digest_of, file_digest
from converter.files.object_store import ObjectStore, local_path
from converter.pipeline.cache import SUMS

_OBJECT = re.compile(r"objects/[0-9a-f]{2}/([0-9a-f]{64})")
_ENTRY = re.compile(r"entries/[0-9a-f]{2}/[0-9a-f]{64}\.json")


P = ParamSpec("P")
R = TypeVar("R")


def _or(none: R) -> Callable[[Callable[Concatenate[RemoteCache, P], R]], Any]:
    """A decorator: gives ``none`` where the store is away, and notes that it is."""

    def decorate(ask: Callable[Concatenate[RemoteCache, P], R]) -> Callable[..., R]:
        @wraps(ask)
        def asking(cache: RemoteCache, *args: P.args, **how: P.kwargs) -> R:
            if not cache.away:
                try:
                    return ask(cache, *args, **how)
                except ModelyardError as error:
                    cache.away = error.message
            return none

        return asking

    return decorate


class RemoteCache:
    """Entries and notes by key in a store. A store that fails once isn't asked again.

    Args:
        place: A URL, or a folder.

    Attributes:
        away: Why the store isn't asked any more; empty while all is well.
        damaged: What wasn't as it had been written, and was deleted.

    Raises:
        DependencyError, UsageError: The store can't be opened.
    """

    def __init__(self, place: str) -> None:
        folder = local_path(place)
        self._store = ObjectStore(place if folder is None else f"file://{folder.absolute()}")
        self.away = ""
        self.damaged: list[str] = []

    @_or(False)
    def has(self, key: str) -> bool:
        """Whether there is an entry of ``key``."""
        return self._store.has(_entry(key))

    @_or(False)
    def get(self, key: str, folder: Path) -> bool:
        """Copies the entry of ``key`` into an empty folder; False where there is none, or it is
        damaged."""
        files = self._read(_entry(key))
        if files is None:
            return False
        for name, digest in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            there = self._store.fetch(_object(digest), target)
            if not there or file_digest(target) != digest:
                self._drop(_object(digest), _entry(key))
                return False
        self._store.write(_entry(key), json.dumps(files).encode())  # used now
        return True

    @_or(None)
    def put(self, key: str, folder: Path) -> None:
        """Keeps the files of a folder under ``key``."""
        files = {f.relative_to(folder).as_posix(): f for f in folder.rglob("*") if f.is_file()}
        files.pop(SUMS, None)  # each store has its own
        digests = {name: file_digest(file) for name, file in sorted(files.items())}
        for name, digest in digests.items():
            if not self._store.has(_object(digest)):
                self._store.put(files[name], _object(digest))
        self._store.write(_entry(key), json.dumps(digests).encode())

    @_or(None)
    def recall(self, key: str) -> Any:
        """The note of ``key``, as :meth:`remember` was given it; None where there is none."""
        data = self._store.read(_note(key))
        if data is None:
            return None
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            note = json.loads(data)
            if note["sha256"] == digest_of(note["value"]):
                return note["value"]
        self._drop(_note(key))
        return None

    @_or(None)
    def remember(self, key: str, value: Any) -> None:
        """Keeps a JSON value under ``key``."""
        note = {"sha256": digest_of(value), "value": value}
        self._store.write(_note(key), json.dumps(note).encode())

    # -- housekeeping --------------------------------------------------------------

    def usage(self) -> tuple[int, int]:
        """How many files the store holds of the cache, and their bytes.

        Raises:
            MachineError, UsageError: The store can't be reached; of the others below, too.
        """
        sizes = self._objects()
        return len(sizes), sum(sizes.values())

    def verify(self) -> int:
        """Reads everything, deletes what isn't as it was written; how many entries are whole."""
        for name in self._objects():
            if self._store.digest(name) not in (PurePosixPath(name).name, None):
                self._drop(name)
        there, whole = self._objects(), 0
        for entry in self._entries():
            files = self._read(entry)
            if files is not None and all(_object(digest) in there for digest in files.values()):
                whole += 1
            elif files is not None:
                self._drop(entry)
        return whole

    def trim(self, limit: int) -> int:
        """Deletes the entries unused for longest until all fit in ``limit`` bytes; how many."""
        sizes = self._objects()
        used = {entry: self._store.modified(entry) or 0.0 for entry in self._entries()}
        files = {entry: self._read(entry) or {} for entry in used}
        left, total, gone = sorted(used, key=lambda entry: used[entry]), sum(sizes.values()), 0
        while left and total > limit:
            self._store.delete(left.pop(0))
            gone += 1
            kept = {_object(digest) for entry in left for digest in files[entry].values()}
            for name in [name for name in sizes if name not in kept]:
                self._store.delete(name)
                total -= sizes.pop(name)
        return gone

    def _objects(self) -> dict[str, int]:
        found = self._store.names("objects")
        return {name: size for name, size in found.items() if _OBJECT.fullmatch(name)}

    def _entries(self) -> list[str]:
        return [name for name in self._store.names("entries") if _ENTRY.fullmatch(name)]

    def _read(self, entry: str) -> dict[str, str] | None:
        """An entry's files; None where there is no entry, or it is damaged and now deleted."""
        data = self._store.read(entry)
        if data is None:
            return None
        with suppress(ValueError, AttributeError, TypeError, RecursionError):
            files = json.loads(data)
            if all(_is_inside(n) and re.fullmatch("[0-9a-f]{64}", d) for n, d in files.items()):
                return dict(files)
        self._drop(entry)
        return None

    def _drop(self, *names: str) -> None:
        for name in names:
            self._store.delete(name)
            self.damaged.append(self._store.at(name))


def _entry(key: str) -> str:
    return f"entries/{key[:2]}/{key}.json"


def _note(key: str) -> str:
    return f"notes/{key[:2]}/{key}.json"


def _object(digest: str) -> str:
    return f"objects/{digest[:2]}/{digest}"


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and path.parts != ()
