"""Readings of a source: what earlier runs made of it, and whether it is still that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from converter.files.digest import code_digest, digest_of, file_digest
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.live_models import is_live
from converter.pipeline.plan import Step
from converter.pipeline.reads import contents_of, without_folder
from converter.pipeline.surroundings import Surroundings
from converter.protocols.parser import Identity

if TYPE_CHECKING:
    from converter.ir.model import Model


@dataclass(frozen=True)
class Reading:
    """One reading of a source.

    Attributes:
        slot: The key of what is known of the source before it is read.
        key: What follows from its model is kept under this.
        of_code: Which reading of code it is, which no other is like; empty for data.
    """

    slot: str
    key: str
    of_code: str = ""


@dataclass(frozen=True)
class Readings:
    """The readings of a source that the cache knows.

    Attributes:
        request: What was asked for.
        identity: What the source is.
        cache: Where they are kept.
    """

    request: Request
    identity: Identity
    cache: Cache

    @property
    def reusable(self) -> bool:
        """Whether what an earlier run read of the source will do: that of code, which may read
        what nobody knows of, only does where the user says so."""
        return self.request.reuse_source or not self.identity.runs_code

    def source_digest(self) -> str:
        """The sha256 over the source's files, by name."""
        return digest_of({name: file_digest(path) for name, path in self.identity.files.items()})

    def find(self, step: Step) -> Reading | None:
        """An earlier run's reading, where its model was kept and all files that it is known to
        depend on are the same."""
        note = self.cache.recall(self.slot(step))
        try:
            same = self._surroundings.same(note["around"])
            reading = Reading(**note["reading"])
        except (AttributeError, KeyError, TypeError, OSError):  # none, damaged, or a file is gone
            return None
        return reading if same and self.cache.find(reading.key) else None

    def remember(
        self, step: Step, model: Model, warnings: Sequence[str], modules: Mapping[str, Path]
    ) -> Reading:
        """Notes what was read of the source, for :meth:`find`.

        Of a source that is data, the key is its contents. What code makes of it is only known once
        it has run: there it is what came out, the model's contents.

        Args:
            step: What read it.
            model: What came out.
            warnings: What was said of it.
            modules: The modules that turned out to be imported, by dotted name.
        """
        from converter.ir.fingerprint import model_digest

        slot, code = self.slot(step), self.identity.runs_code
        if code:
            key = digest_of([code_digest(), model_digest(model), list(warnings)])
            reading = Reading(slot, key, uuid4().hex)
        else:
            seen = {name: file_digest(path) for name, path in modules.items()}
            reading = Reading(slot, digest_of([slot, seen]))
        self.keep_only("parse", reading, reading.key)
        if self.cache.takes:
            around = self._surroundings.note(modules.values(), code=code)
            self.cache.remember(slot, {"reading": asdict(reading), "around": around})
        return reading

    def keep_only(self, what: str, reading: Reading, key: str) -> None:
        """Deletes from the cache what an earlier reading of the same code gave: nothing will look
        for it any more, and code that draws random weights would fill the cache."""
        if reading.of_code:
            self.cache.supersede(digest_of([reading.slot, what]), key)

    def slot(self, step: Step) -> str:
        """The key of what is known of the source before it has been read.

        Which modules it would import is part of it, and of a live model the name, which no other
        has: nothing else is known of that.
        """
        source = self.request.source
        own = step.key([self.source_digest()], {}, contents_of(step.params))
        known = [code_digest(), dict(self.identity.versions), self.identity.format]
        named = source if is_live(source) else without_folder(source)
        offered = self._surroundings.offered(code=self.identity.runs_code)
        return digest_of([own, known, named, offered])

    @cached_property
    def _surroundings(self) -> Surroundings:
        return Surroundings(self.identity, self.request)
