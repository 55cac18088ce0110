"""What the steps of one run share: the request, the open source, folders, what was said."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.errors import ModelyardError, UsageError
from converter.files.digest import digest_of
from converter.files.reading import reading
from converter.files.scrub import base_name
from converter.files.signatures import all_marks, one_of
from converter.files.unread_formats import bare_python, missing, refuse_foreign
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.layout import LaidOut
from converter.pipeline.live_models import find_living, is_live
from converter.pipeline.plan import Plan
from converter.pipeline.readings import Reading, Readings
from converter.protocols.parser import Identity, Parser, Source, Tokenizing
from converter.protocols.wrapped import ReadSource
from converter.runtime.frameworks import theirs
from converter.runtime.session import Progress, Session

if TYPE_CHECKING:
    from converter.check.answers import Answers, Once
    from converter.check.probes import Probes
    from converter.ir.model import Model

SIZES = "sizes"
"""The key in :attr:`Model.source` of sizes for free dimensions, where a source suggests some."""


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
        given: The fields of the request that the user gave.
        layout_changes: What ``--layout`` changed in the source's model; None before that is known.
        reading: Which reading of the source the results are of; None before it was read.
        skipped: Why artifacts that were asked for can't be, by ``target:precision``.
        probes: What the source was run on beside the samples; None where it wasn't in this run.
    """

    request: Request
    parser: Parser
    identity: Identity
    folder: Path
    scratch: Path
    cache: Cache
    progress: Progress = lambda text: None
    given: frozenset[str] = frozenset()
    layout_changes: Mapping[str, Sequence[int]] | None = None
    reading: Reading | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)
    probes: Probes | None = None
    _again: Callable[[Session], None] | None = field(default=None, repr=False)
    _source: Source | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _reference: Session | None = field(default=None, repr=False)
    _own: Source | None = field(default=None, repr=False)
    _known: bool = field(default=False, repr=False)
    _closed: bool = field(default=False, repr=False)
    _tokens: dict[str, list[dict[str, list[int]]]] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The model's name: the user's, or the source's."""
        return self.request.name or self.identity.name

    def asked_of(self, target: str) -> Request:
        """The request with the precisions that a target has."""
        names = self.request.precision
        had = [name for name in names if f"{target}:{name}" not in self.skipped]
        return self.request if had == names else replace(self.request, precision=had)

    def source(self) -> Source:
        """The source, opened when it is first needed."""
        with self._lock:
            if self._source is None:
                folder = self.scratch / "again" if self._again else self.scratch
                folder.mkdir(exist_ok=True)  # what was read is mapped from files in the first
                with self.while_reading():
                    source = self.parser.open(self.request, folder, self._tell)
                self._own = source
                if not is_live(self.request.source):
                    source = ReadSource(source, self.while_reading)
                if self.request.fix:
                    from converter.pipeline.fixed import FixedSource

                    source = FixedSource(source, self.request.fix)
                layout = self.request.layout
                self._source = LaidOut(source, layout, self.layout_changes) if layout else source
            return self._source

    def while_reading(self) -> AbstractContextManager[None]:
        """Around what reads the source's bytes; see :func:`converter.files.reading.reading`."""
        return reading(base_name(self.request.source))

    def reference(self) -> Session:
        """The source framework's session, opened when it is first needed.

        Raises:
            ModelError: It was opened anew, and isn't what it was (:meth:`rest`).
        """
        source = self.source()
        with self._lock:
            if self._reference is None:
                opened = source.reference()
                if self._again is not None:
                    self._again(opened)
                self._reference = opened
            return self._reference

    @cached_property
    def answers(self) -> Answers:
        """What the source gives on an input, which it isn't run on twice."""
        from converter.check.answers import Answers

        return Answers(lambda feeds: self.reference().run(feeds))

    @cached_property
    def once(self) -> Once:
        """The source, for several artifacts that are compared with it one after the other."""
        from converter.check.answers import Once

        return Once(self.reference(), self.scratch / "answers")

    @cached_property
    def read(self) -> Model:
        """The source's model, read once; not to be changed."""
        return self.source().parse()

    def rest(self, again: Callable[[Session], None]) -> None:
        """Ends the source's process before its time: its memory is needed.

        A live model stays as it is, and what has a tokenizer, which calibration may need.

        Args:
            again: Raises a ModelError where a session isn't what the source's was, should it be
                opened anew after all.
        """
        if is_live(self.request.source) or isinstance(self._own, Tokenizing):
            return
        with self._lock:
            self.close()
            self._source = self._own = self._reference = None
            self._again = again

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None, length: int | None, fixed: bool
    ) -> list[dict[str, list[int]]]:
        """What the source's tokenizer makes of texts; see :class:`Tokenizing`.

        Raises:
            UsageError: The source has none.
        """
        self.source()
        if not isinstance(self._own, Tokenizing):
            raise UsageError(
                f"the samples are texts, and a source of the format {self.identity.format} has no "
                "tokenizer to make tokens of them",
                hint="Give the model's own inputs as .npz.",
            )
        key = digest_of([texts, pairs, length, fixed])
        if key not in self._tokens:
            with self.while_reading():
                self._tokens[key] = self._own.tokenize(texts, pairs, length, fixed)
        return self._tokens[key]

    def copy_assets(self, folder: Path) -> None:
        """Copies what goes with the model (:attr:`Identity.assets`) into a folder."""
        for name, path in self.identity.assets.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)

    def assume_sizes(self, model: Model) -> None:
        """Takes over the sizes of free dimensions that the source suggests and nobody gave."""
        known = model.source.get(SIZES, {})
        suggested = {name: size for name, size in known.items() if name in model.symbols}
        self.request = replace(self.request, dims={**suggested, **self.request.dims})

    def start(self, plan: Plan) -> None:
        """Starts what takes long to start, unless an earlier run's results will do.

        The framework's child loads its libraries while this process loads its own; the simplifiers
        follow when it traces (:meth:`start_tools`), which takes one core of two.
        """
        self.skipped = plan.skipped
        if not self.readings.reusable:  # whatever is known: before its files are hashed
            self.source()
        self._known = self.readings.find(plan.step("parse")) is not None
        if not self._known:
            self.source()
        if self.parser.framework is None:
            self.start_tools()

    def start_tools(self) -> None:
        """Starts the simplifiers' child, unless it is the same source, whose model is kept."""
        from converter.passes.libraries.tools import start_tools

        with self._lock:
            if self.request.simplify and not self._known and not self._closed:
                start_tools()

    @cached_property
    def readings(self) -> Readings:
        """What earlier runs read of the source."""
        return Readings(self.request, self.identity, self.cache)

    def source_facts(self) -> dict[str, str]:
        """What is known of the source whatever its format is; a live model has no file to hash."""
        facts = {"sha256": self.readings.source_digest()} if self.identity.files else {}
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
        frameworks = theirs()
        return {**{name: tools[name] for name in tools if name not in frameworks}, **read}

    def _tell(self, text: str) -> None:
        self.progress(text)

    def close(self) -> None:
        """Ends the source's child and gives its memory back."""
        self._closed = True
        for opened in (self._reference, self._source):
            if opened is not None:
                opened.close()


def find_parser(request: Request) -> tuple[Parser, Identity]:
    """The parser whose format the source is of, and what the source is.

    Raises:
        UsageError: No parser knows it, or it isn't there.
    """
    if is_live(request.source):
        return find_living(request)
    refuse_foreign(request.source)
    if ":" not in request.source and not Path(request.source).exists():
        raise missing(request.source)
    for name in _likely_first(request.source):
        parser: Parser = plugins.load("parsers", name)
        with reading(base_name(request.source)):
            if _sniffs(name, parser, request.source):
                return parser, parser.identify(request)
    if not Path(request.source).exists():
        raise missing(request.source)
    if (unnamed := bare_python(request.source)) is not None:
        raise unnamed
    raise UsageError(
        f"{request.source} is of no format that can be read",
        hint=_folder_hint(Path(request.source))
        or f"Formats that can be read: {', '.join(plugins.working('parsers'))}.",
    )


def _likely_first(source: str) -> Iterator[str]:
    """The names of all parsers that can be loaded; each is asked for when those before it have said
    no. Those come first whose files begin, or whose names end, as this one does."""
    names = plugins.working("parsers")
    likely = [n for n, it in plugins.specs("parsers") if n in names and it.marks.suit(Path(source))]
    yield from likely
    yield from (name for name in names if name not in likely)


def _sniffs(name: str, parser: Parser, source: str) -> bool:
    try:
        return parser.sniff(source)
    except Exception as error:
        entry = plugins.available("parsers")[name]
        if plugins.is_ours(entry) or isinstance(error, ModelyardError):
            raise
        plugins.set_aside("parsers", entry, error)
        return False


def _folder_hint(folder: Path) -> str:
    """What a folder would have to be, and what lies in it; empty for a file."""
    if not folder.is_dir():
        return ""
    marks = all_marks()
    known = {suffix for item in marks for suffix in item.suffixes}
    there = [str(path) for path in sorted(folder.iterdir()) if path.suffix.lower() in known]
    if there:
        return f"It holds {', '.join(there[:3])}{'...' * (len(there) > 3)}: name the model's file."
    folders = one_of([item.folder for item in marks if item.folder])
    return f"A folder is {folders}; else name the model's file."


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
    from converter.runtime.versions import environment_summary

    return dict(environment_summary())
