"""Adds to a folder of an object store what servers may be looking at: whole, or not at all.

Nothing is renamed. What is added is uploaded under names that no server looks at, and then copied
into place by the store itself, the object last without which a server can't load the rest. Writers
take turns, by model, with two promises of the store alone: an object appears whole, and whoever
reads or lists sees what was written before (S3, Google Cloud Storage and Azure give both).

Each writer has a note, ``.modelyard-ID.json``, a plain object in the store's top folder: servers
take folders there for models, and objects for nothing. Who wants a turn says so in its note and
then reads all other notes. A writer whose note is the only one that wants has the turn. Two that
wrote at once see each other: the first by name keeps its wish, the others take theirs back. A
thread writes the note again and again while the writer lives. A note that was not written for
:data:`LEASE` seconds, by the store's clock, belongs to a writer that is gone: whoever has the turn
next deletes what that one left half done.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any
from uuid import uuid4

from converter.errors import MachineError, ModelyardError
from converter.files.object_store import ObjectStore

PREFIX = ".modelyard-"
"""What the names of our own objects begin with."""

LEASE = 60.0
"""Seconds after which a note that nobody writes is a dead writer's."""

Source = Path | str
"""A file of this machine, or the name of an object."""


class StoreWriter:
    """One that adds to a store; a context manager that leaves no object of its own behind.

    Args:
        store: The folder.
        model: The name of the folder in it that is added to. Writers of others don't wait.

    Raises:
        MachineError, UsageError: The store can't be reached, or written to.
    """

    def __init__(self, store: ObjectStore, model: str) -> None:
        self._store = store
        self._stem = f"{PREFIX}{uuid4().hex}"
        self._name = f"{self._stem}.json"
        self._note: dict[str, Any] = {"model": model, "wants": False, "writes": [], "last": ""}
        self._parts: dict[str, int] = {}
        self._beaten = 0.0
        self._over, self._writing = Event(), Lock()
        self._beats = Thread(target=self._beat, daemon=True)

    def __enter__(self) -> StoreWriter:
        self._say()
        self._beats.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._beats.join()
        with suppress(ModelyardError):  # the next writer clears it
            if self._is_mine():
                self._clear(self._name, self._note)

    def stage(self, file: Path) -> str:
        """Uploads a file under a name that no server looks at; gives the name."""
        name = f"{self._stem}-{len(self._parts)}"
        self._parts[name] = file.stat().st_size
        self._store.put(file, name)
        return name

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits until no other writer adds to the model, and lets none while the block lasts.

        What dead writers left is deleted first.

        Raises:
            MachineError: As of :meth:`place`.
        """
        while True:
            self._require_mine()
            others = self._others()
            wanting = [name for name, note in others.items() if note["wants"] and not note["dead"]]
            if self._note["wants"] and not wanting:
                break
            if not wanting:
                self._say(wants=True)
                continue
            if self._note["wants"] and min(wanting) < self._name:
                self._say(wants=False)
            time.sleep(random.uniform(0.05, 0.3))
        for name, note in others.items():
            if note["dead"]:
                self._clear(name, note)
        try:
            yield
        finally:
            if self._is_mine():
                self._undo(self._note)
                self._say(wants=False, writes=[], last="")

    def place(self, objects: Mapping[str, Source], last: str) -> None:
        """Makes objects, in the block of a turn; ``last`` after all others.

        Args:
            objects: What each becomes, by its name in the store. None of them is there.
            last: The one without which no server can load the others.

        Raises:
            MachineError: This process stood still for so long that others may take it for dead, or
                an object hasn't the size of its source.
        """
        self._require_mine()
        self._say(writes=[*objects], last=last)
        for name in sorted(objects, key=lambda name: name == last):
            if name == last:
                self._require_whole({n: s for n, s in objects.items() if n != last})
            self._require_mine()
            source = objects[name]
            if isinstance(source, Path):
                self._store.put(source, name)
            else:
                self._store.copy(source, name)
        self._require_whole(objects)

    # -- the note ---------------------------------------------------------------------------

    def _say(self, **changed: Any) -> None:
        with self._writing:
            self._note |= changed
            begun = time.monotonic()
            self._store.write(self._name, json.dumps(self._note).encode())
            self._beaten = begun

    def _beat(self) -> None:
        """Writes the note while the process lives; never again once others may think it dead."""
        while not self._over.wait(LEASE / 6):
            with suppress(ModelyardError):  # the next beat may reach the store
                if self._is_mine():
                    self._say()

    def _is_mine(self) -> bool:
        """Whether no other writer can have taken this one for dead."""
        return time.monotonic() - self._beaten < LEASE / 2

    def _require_mine(self) -> None:
        if not (self._is_mine() and self._store.has(self._name)):
            raise MachineError(
                f"adding {self._note['model']} to {self._store.url}: this process stood still, or "
                f"didn't reach the store, for more than {LEASE / 2:g} s, so that another writer may "
                "have taken its turn",
                hint="Run it again: nothing that a server loads was left.",
            )

    def _others(self) -> dict[str, dict[str, Any]]:
        """The notes of other writers of the model, each with whether its writer is dead."""
        found = {}
        now = self._store.modified(self._name)
        for name in self._store.top()[0]:
            if not (name.startswith(PREFIX) and name.endswith(".json")) or name == self._name:
                continue
            written = self._store.modified(name)
            data = self._store.read(name)
            if now is None or written is None or data is None:
                continue  # that one has just finished
            with suppress(ValueError, TypeError, KeyError):  # none of ours
                note = json.loads(data)
                if note["model"] == self._note["model"]:
                    found[name] = {**note, "dead": now - written > LEASE}
        return found

    # -- what was added ---------------------------------------------------------------------

    def _require_whole(self, objects: Mapping[str, Source]) -> None:
        there = self._store.names(str(self._note["model"]))
        sizes = {
            name: source.stat().st_size if isinstance(source, Path) else self._parts[source]
            for name, source in objects.items()
        }
        if odd := [name for name, size in sizes.items() if there.get(name) != size]:
            raise MachineError(f"{self._store.url}: {', '.join(odd)} isn't as it was written")

    def _undo(self, note: Mapping[str, Any]) -> None:
        """Deletes what a writer added, unless it is whole."""
        if note["last"] and not self._store.has(note["last"]):
            for written in note["writes"]:
                inside = ".." not in PurePosixPath(written).parts
                if inside and written.startswith(f"{self._note['model']}/"):
                    self._store.delete(written)

    def _clear(self, name: str, note: Mapping[str, Any]) -> None:
        """Deletes what a writer left, its note last."""
        self._undo(note)
        stem = name.removesuffix(".json")
        for part in self._store.top()[0]:
            if part.startswith(f"{stem}-"):
                self._store.delete(part)
        self._store.delete(name)
