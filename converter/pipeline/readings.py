"""Readings of a source: what earlier runs made of it, and whether it is still that.

What code may import and read is known by names and contents, and not by where it lies: so another
machine finds what was kept, and so does the same source in another folder. A file is named by the
part that its folder has for the source, and its path in it: ``source0/blocks.py``.
"""

from __future__ import annotations

import os
import site
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from converter.files.digest import code_digest, digest_of, file_digest
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.live_models import is_live
from converter.pipeline.plan import Step
from converter.pipeline.reads import contents_of, without_folder
from converter.protocols.parser import Identity
from converter.runtime.interpreter import interpreter

if TYPE_CHECKING:
    from converter.ir.model import Model

MOST = 2000
"""Files beside a source's code; where there are more, it isn't known in another place."""

SMALL = 1 << 16
"""Bytes of a file beside the code of which all are read: of a larger one, as many at either end."""

CHANGED = "changed"
"""In place of a digest of modules."""

_INSTALLED = "installed"
_MODULES = (".py", ".pyc", ".so", ".pyd")


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
        """Whether an earlier run's will do: that of code, which may read what nobody knows of, only
        does where the user says so."""
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

    def modules(self, step: Step) -> str | None:
        """A digest of the modules that the last reading imported; :data:`CHANGED` where a file that
        it depended on isn't the same any more, None where no reading is known."""
        note = self.cache.recall(self.slot(step))
        if note is None:
            return None
        try:
            same = self._surroundings.same(note["around"])
            return digest_of(note["around"]["seen"]) if same else CHANGED
        except (AttributeError, KeyError, TypeError, OSError):  # damaged, or a file is gone
            return CHANGED

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
        """Deletes from the cache what an earlier reading of the same code gave.

        Nothing will look for it any more, and code that draws random weights would fill the cache.

        Args:
            what: What kind of result it is, as ``reference`` with the samples' digest.
            reading: The reading that counts now.
            key: The result's key, which is kept.
        """
        if reading.of_code:
            self.cache.supersede(digest_of([reading.slot, what]), key)

    def slot(self, step: Step) -> str:
        """The key of what is known of the source before it has been read, which modules it may
        import among that; of a live model its name alone tells, which no other has."""
        source = self.request.source
        own = step.key([self.source_digest()], {}, contents_of(step.params))
        known = [code_digest(), dict(self.identity.versions), self.identity.format]
        named = source if is_live(source) else without_folder(source)
        offered = self._surroundings.offered(code=self.identity.runs_code)
        return digest_of([own, known, named, offered])

    @cached_property
    def _surroundings(self) -> Surroundings:
        return Surroundings(self.identity, self.request)


class Surroundings:
    """The folders around a source.

    Args:
        identity: The source.
        request: Its search paths and its interpreter.
    """

    def __init__(self, identity: Identity, request: Request) -> None:
        self._own = [*dict.fromkeys(_real(path).parent for path in identity.files.values())]
        self._folders = {role: _real(path) for role, path in _folders(self._own, request)}

    def offered(self, *, code: bool) -> dict[str, list[str]]:
        """What each folder that is searched offers for import, by its part: each folder once.

        Args:
            code: Whether the source is code; else what lies beside it, and in the current folder,
                isn't imported.
        """
        parts = ("search", "path", *(("source", "package", "current") if code else ()))
        first: dict[Path, str] = {}
        for role, folder in self._folders.items():
            if role.rstrip("0123456789") in parts:
                first.setdefault(folder, role)
        return {role: names for folder, role in first.items() if (names := importable(folder))}

    def note(self, modules: Collection[Path], *, code: bool) -> dict[str, Any]:
        """What to remember of the modules that were imported; :meth:`same` looks at it.

        Args:
            modules: Their files.
            code: Whether the source is code, which may read what lies beside it.
        """
        paths = [_real(path) for path in modules]
        seen = {self._name(path): file_digest(path) for path in paths}
        theirs = [path for path in paths if not self._name(path).startswith(_INSTALLED)]
        own = self._own if code else ()
        folders = [*dict.fromkeys([*own, *(path.parent for path in theirs)])]
        offered = {self._name(folder): importable(folder) for folder in folders}
        beside = self._beside(folders) if code else {}
        return {"seen": seen, "offered": offered, "beside": beside, "place": _place(folders)}

    def same(self, note: Mapping[str, Any]) -> bool:
        """Whether all that a note names is here, and the same.

        What lies beside the code counts in another place than the note's alone: in the same one,
        whoever has it reused vouches for it.

        Raises:
            KeyError, OSError: Something isn't here, or the note is damaged.
        """
        folders = {self._path(name): names for name, names in note["offered"].items()}
        if any(importable(folder) != names for folder, names in folders.items()):
            return False
        if any(file_digest(self._path(name)) != known for name, known in note["seen"].items()):
            return False
        if note["place"] == _place(folders):
            return True
        beside = note["beside"]
        return beside is not None and all(_sketch(self._path(n)) == k for n, k in beside.items())

    def _beside(self, folders: Collection[Path]) -> dict[str, str] | None:
        tops = [f for f in folders if not any(o in f.parents for o in folders)]
        files = [*islice(chain.from_iterable(map(_files, tops)), MOST + 1)]
        if len(files) > MOST:
            return None
        found: dict[str, str] = {}
        for path in files:
            with suppress(OSError):  # gone meanwhile, or nobody's to read
                found[self._name(path)] = _sketch(path)
        return found

    def _name(self, path: Path) -> str:
        for role, folder in self._folders.items():
            if path.is_relative_to(folder):
                return f"{role}/{path.relative_to(folder).as_posix()}"
        role, folder = next(iter(self._folders.items()))  # code puts folders on its path
        return f"{role}/{Path(os.path.relpath(path, folder)).as_posix()}"

    def _path(self, name: str) -> Path:
        role, _, inner = name.partition("/")
        return self._folders[role] / inner


def importable(folder: Path) -> list[str]:
    """The names of modules and packages in a folder, as its files have them."""
    try:
        with os.scandir(folder) as found:
            return sorted(item.name for item in found if _is_importable(item))
    except OSError:  # a search path that isn't there
        return []


def _is_importable(item: os.DirEntry[str]) -> bool:
    if item.name.endswith(_MODULES):
        return True
    return "." not in item.name and Path(item.path, "__init__.py").is_file()


def _folders(own: Iterable[Path], request: Request) -> Iterator[tuple[str, Path]]:
    """Folders by their parts. The current one is the last: which it is doesn't matter where it
    is one of the others, or has nothing."""
    for number, folder in enumerate(own):
        yield f"source{number}", folder
    for number, folder in enumerate(own):
        if (folder / "__init__.py").is_file():
            yield f"package{number}", _above_package(folder)
    for number, text in enumerate(request.search_paths):
        yield f"search{number}", Path(text)
    for number, text in enumerate(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))):
        yield f"path{number}", Path(text)
    for number, folder in enumerate(_installed(request.python)):
        yield f"{_INSTALLED}{number}", folder
    yield "current", Path.cwd()


def _above_package(folder: Path) -> Path:
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _installed(python: str | None) -> list[Path]:
    """Where packages are installed that the source's interpreter imports."""
    if python is None:
        return [*map(Path, site.getsitepackages()), Path(site.getusersitepackages())]
    prefix = interpreter(python).prefix
    places = ("[Ll]ib*", "lib*/python*", "local/lib/python*")
    found = (Path(prefix).glob(f"{place}/*-packages") for place in places if prefix)
    return sorted(chain.from_iterable(found))


def _files(folder: Path) -> Iterator[Path]:
    """The files in a folder and those below it, but for hidden ones and what Python makes."""
    for where, folders, files in os.walk(folder):
        made = "pyvenv.cfg" in files
        folders[:] = () if made else sorted(n for n in folders if not n.startswith((".", "__")))
        own = (Path(where, name) for name in sorted(files) if not made and name[0] != ".")
        yield from filter(Path.is_file, own)  # no pipes


def _sketch(path: Path) -> str:
    """The sha256 of a file's size and contents; of a large one's ends, where formats of weights
    have sums or numbers."""
    size = path.stat().st_size
    if size <= 2 * SMALL:
        return file_digest(path)
    with path.open("rb") as file:
        begin = file.read(SMALL)
        file.seek(-SMALL, os.SEEK_END)
        return digest_of([size, begin.hex(), file.read().hex()])


def _place(folders: Iterable[Path]) -> str:
    return digest_of(sorted(map(str, folders)))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
