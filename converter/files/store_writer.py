"""Adds to a folder of an object store what servers may be looking at: whole, or not at all.

Nothing is renamed. What is added is uploaded under names that no server looks at, and then copied
into place by the store itself, the object last without which a server can't load the rest. Writers
take turns, by model, with two promises of the store alone: an object appears whole, and whoever
reads or lists sees what was written before (S3, Google Cloud Storage and Azure give both).

Each writer has a note, ``.modelyard-ID.MODEL.json``, a plain object in the store's top folder:
servers take folders there for models, and objects for nothing. Who wants a turn writes a wish,
``.modelyard-ID.MODEL.wish``, and then lists the folder. A writer whose wish is the only one has the
turn. Two that wrote at once see each other: the first by name keeps its wish, the others delete
theirs. A thread writes the note again and again while the writer lives. A note that was not written
for :data:`LEASE` seconds, by the store's clock, belongs to a writer that is gone: whoever has the
turn next deletes what that one left half done.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any
from uuid import uuid4

from converter.errors import MachineError, ModelyardError
from converter.files.object_store import ObjectStore

PREFIX = ".modelyard-"
"""What the names of our own objects begin with."""

_OURS = re.compile(r"\.modelyard-([0-9a-f]{32})\.(.+)\.(json|wish)")

LEASE = 60.0
"""Seconds after which a note that nobody writes is a dead writer's."""

Source = Path | str
"""A file of this machine, or the name of an object."""


@dataclass(frozen=True)
class _Writer:
    """Another writer of the model: whether it wants a turn, and whether it is gone."""

    wishes: bool
    dead: bool


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
        self._id, self._model, self._wishes = uuid4().hex, model, False
        self._note: dict[str, Any] = {"writes": [], "last": ""}
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
                self._clear(self._id, self._note)

    def stage(self, file: Path) -> str:
        """Uploads a file under a name that no server looks at; gives the name."""
        name = f"{PREFIX}{self._id}-{len(self._parts)}"
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
            others = self._others()
            wishing = [id for id, writer in others.items() if writer.wishes and not writer.dead]
            if self._wishes and not wishing:
                break
            if not wishing:
                self._wish(True)
                continue
            if self._wishes and min(wishing) < self._id:
                self._wish(False)
            time.sleep(random.uniform(0.1, 0.5))
        for id, writer in others.items():
            if writer.dead:
                self._clear(id, self._read(id))
        try:
            yield
        finally:
            if self._is_mine():
                self._undo(self._note)
                self._say(writes=[], last="")
                self._wish(False)

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
            self._store.write(self._named("json"), json.dumps(self._note).encode())
            self._beaten = begun

    def _beat(self) -> None:
        """Writes the note while the process lives; never again once others may think it dead."""
        while not self._over.wait(LEASE / 6):
            with suppress(ModelyardError):  # the next beat may reach the store
                if self._is_mine():
                    self._say()

    def _wish(self, wishes: bool) -> None:
        name = self._named("wish")
        self._store.write(name, b"wish") if wishes else self._store.delete(name)
        self._wishes = wishes

    def _named(self, kind: str, id: str = "") -> str:
        return f"{PREFIX}{id or self._id}.{self._model}.{kind}"

    def _is_mine(self) -> bool:
        """Whether no other writer can have taken this one for dead."""
        return time.monotonic() - self._beaten < LEASE / 2

    def _require_mine(self, there: Container[str] | None = None) -> None:
        name = self._named("json")
        if not (self._is_mine() and (self._store.has(name) if there is None else name in there)):
            raise MachineError(
                f"adding {self._model} to {self._store.url}: this process stood still, or "
                f"didn't reach the store, for {LEASE / 2:g} s. Another writer may have taken "
                "over",
                code="store-failed",
                hint="Run it again. A server can't load anything of this attempt.",
            )

    def _others(self) -> dict[str, _Writer]:
        """The other writers of the model, as one listing shows them."""
        times = self._store.times()
        self._require_mine(times)
        now = times[self._named("json")]
        seen: dict[str, dict[str, float]] = {}
        for name, written in times.items():
            found = _OURS.fullmatch(name)
            if found and found[2] == self._model and found[1] != self._id:
                seen.setdefault(found[1], {})[found[3]] = written
        return {
            id: _Writer("wish" in kinds, now - max(kinds.values()) > LEASE)
            for id, kinds in seen.items()
        }

    def _read(self, id: str) -> dict[str, Any]:
        """A note; one that is gone, or isn't ours, says that nothing was written."""
        with suppress(ValueError, TypeError, KeyError):
            note = json.loads(self._store.read(self._named("json", id)) or b"")
            return {"writes": [*map(str, note["writes"])], "last": str(note["last"])}
        return {"writes": [], "last": ""}

    # -- what was added ---------------------------------------------------------------------

    def _require_whole(self, objects: Mapping[str, Source]) -> None:
        there = self._store.names(self._model)
        sizes = {
            name: source.stat().st_size if isinstance(source, Path) else self._parts[source]
            for name, source in objects.items()
        }
        if odd := [name for name, size in sizes.items() if there.get(name) != size]:
            raise MachineError(
                f"{self._store.url}: {', '.join(odd)} differs from the file that was written",
                code="store-failed",
            )

    def _undo(self, note: Mapping[str, Any]) -> None:
        """Deletes what a writer added, unless it is whole."""
        if note["last"] and not self._store.has(note["last"]):
            for written in note["writes"]:
                inside = ".." not in PurePosixPath(written).parts
                if inside and written.startswith(f"{self._model}/"):
                    self._store.delete(written)

    def _clear(self, id: str, note: Mapping[str, Any]) -> None:
        """Deletes what a writer left, its note last."""
        self._undo(note)
        for part in self._store.times():
            if part.startswith(f"{PREFIX}{id}-"):
                self._store.delete(part)
        for kind in ("wish", "json"):
            self._store.delete(self._named(kind, id))
