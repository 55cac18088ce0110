"""What the steps of one run share: the request, the open source, folders, what was said."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from converter import plugins
from converter.cache import Cache
from converter.digest import code_digest, digest_of, file_digest
from converter.errors import UsageError
from converter.fixed import FixedSource
from converter.frameworks import is_framework
from converter.layout import LaidOut
from converter.plan import Plan, Step
from converter.plugins import Identity, Parser, Session, Source
from converter.request import Request


@dataclass
class Work:
    """The state of one run.

    Attributes:
        request: What was asked for, zoo references resolved.
        parser: What reads the source.
        identity: What the source is.
        folder: Where the output is being made.
        scratch: A folder for files that go again.
        cache: Where results are kept.
        layout_changes: What ``--layout`` changed in the source's model; None before that is known.
    """

    request: Request
    parser: Parser
    identity: Identity
    folder: Path
    scratch: Path
    cache: Cache
    progress: plugins.Progress = lambda text: None
    layout_changes: Mapping[str, Sequence[int]] | None = None
    _source: Source | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _reference: Session | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The model's name: the user's, or the source's."""
        return self.request.name or self.identity.name

    def source(self) -> Source:
        """The source, opened when it is first needed."""
        with self._lock:
            if self._source is None:
                source = self.parser.open(self.request, self.scratch, self._tell)
                if self.request.fix:
                    source = FixedSource(source, self.request.fix)
                layout = self.request.layout
                self._source = LaidOut(source, layout, self.layout_changes) if layout else source
            return self._source

    def reference(self) -> Session:
        """The source framework's session, opened when it is first needed."""
        source = self.source()
        with self._lock:
            if self._reference is None:
                self._reference = source.reference()
            return self._reference

    def start(self, plan: Plan) -> None:
        """Starts what takes long to start, unless an earlier run's results will do.

        The framework's child, and the simplifiers', load their libraries while this process
        loads its own.
        """
        if self.find_parsed(plan.step("parse")) is not None:
            return
        self.source()
        if self.request.simplify:
            from converter.passes.tools import start_tools

            start_tools()

    # -- the key of the source -----------------------------------------------------

    def source_digest(self) -> str:
        """The sha256 over the source's files, by name."""
        return digest_of({name: file_digest(path) for name, path in self.identity.files.items()})

    def source_facts(self) -> dict[str, str]:
        """What is known of the source whatever its format is."""
        facts = {"sha256": self.source_digest()}
        if self.identity.python:
            facts["python"] = self.identity.python
        return facts

    def versions(self, tools: Mapping[str, str]) -> dict[str, str]:
        """Versions of all that took part: of ``tools``, and of what read the source.

        Where that ran in a Python of the user's, its packages are told apart from ours, and
        our own frameworks took no part.
        """
        if not self.identity.python:
            return dict(tools)
        read = {f"{name} (source)": text for name, text in self.identity.versions.items()}
        return {**{name: tools[name] for name in tools if not is_framework(name)}, **read}

    def first_key(self, step: Step) -> str:
        """The key of what is known of the source before it has been read.

        Where the source lies is part of it, for that decides which modules it imports.
        """
        key = step.key([self.source_digest()], {})
        known = [code_digest(), dict(self.identity.versions), self.identity.format]
        return digest_of([key, known, self.request.source, self._surroundings()])

    def _surroundings(self) -> list[object]:
        """Folders that the source may import from, and the names that it could find there."""
        own = {path.absolute().parent for path in self.identity.files.values()}
        given = {Path(path).absolute() for path in self.request.search_paths}
        folders = sorted({Path.cwd(), *own, *given})
        names = [sorted(item.name for item in folder.glob("*.py")) for folder in folders]
        return [[str(folder) for folder in folders], names, os.environ.get("PYTHONPATH", "")]

    def parsed_key(self, step: Step, seen: Mapping[str, str]) -> str:
        """The key of the source's model, given the contents of the modules that it imported."""
        return digest_of([self.first_key(step), dict(seen)])

    def remember_parsed(self, step: Step, modules: Mapping[str, Path]) -> None:
        """Notes which modules reading the source imported, for :meth:`find_parsed`."""
        paths = {name: str(path) for name, path in modules.items()}
        self.cache.remember(self.first_key(step), paths)

    def find_parsed(self, step: Step) -> str | None:
        """The key under which an earlier run kept the source's model, if all files are the same."""
        modules = self.cache.recall(self.first_key(step))
        if modules is None or not all(Path(path).is_file() for path in modules.values()):
            return None
        seen = {name: file_digest(Path(path)) for name, path in modules.items()}
        key = self.parsed_key(step, seen)
        return key if self.cache.find(key) else None

    def _tell(self, text: str) -> None:
        self.progress(text)

    def close(self) -> None:
        """Ends the source's child and gives its memory back."""
        if self._reference is not None:
            self._reference.close()
        if self._source is not None:
            self._source.close()


def find_parser(request: Request) -> tuple[Parser, Identity]:
    """The parser whose format the source is of, and what the source is.

    Raises:
        UsageError: No parser knows it, or it isn't there.
    """
    names = list(plugins.available("parsers"))
    if ":" not in request.source and not Path(request.source).exists():
        raise _missing(request.source)
    for name in names:
        parser: Parser = plugins.load("parsers", name)
        if parser.sniff(request.source):
            return parser, parser.identify(request)
    if not Path(request.source).exists():
        raise _missing(request.source)
    raise UsageError(
        f"{request.source} is of no format that can be read",
        hint=_folder_hint(Path(request.source)) or f"Formats that can be read: {', '.join(names)}.",
    )


_FILES = (".onnx", ".tflite", ".keras", ".h5", ".hdf5", ".pb", ".pt2", ".pt", ".meta", ".mlmodel")
"""Suffixes of files that may have been meant where their folder was named."""


def _folder_hint(folder: Path) -> str:
    """What a folder would have to be, and what lies in it; empty for a file."""
    if not folder.is_dir():
        return ""
    there = [str(path) for path in sorted(folder.iterdir()) if path.suffix.lower() in _FILES]
    if there:
        return f"It holds {', '.join(there[:3])}{'...' * (len(there) > 3)}: name the model's file."
    return (
        "A folder is a SavedModel (saved_model.pb), a Hugging Face model (config.json and "
        "safetensors) or an .mlpackage; else name the model's file."
    )


def _missing(source: str) -> UsageError:
    return UsageError(
        f"there is no {source}",
        hint="Name a model's file or folder, FILE.py:CLASS, package.module:factory, or zoo:NAME.",
    )


def sizes_of(request: Request, symbols: tuple[str, ...]) -> Mapping[str, int]:
    """The sizes that the user gave to free dimensions.

    Raises:
        UsageError: A size is given to a dimension that the model doesn't have.
    """
    unknown = [name for name in request.dims if name not in symbols]
    if unknown:
        raise UsageError(
            f"--dim {', '.join(unknown)}: the model has no such free dimension",
            hint=f"It has: {', '.join(symbols) or 'none'}.",
        )
    return request.dims


def describe_versions() -> dict[str, Any]:
    """Versions of everything that can take part, for keys and the manifest."""
    from converter.doctor import environment_summary

    return dict(environment_summary())
