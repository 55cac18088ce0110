"""A source's process, opened when somebody needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from converter import plugins
from converter.errors import UsageError
from converter.files.digest import digest_of
from converter.files.reading import reading
from converter.files.scrub import base_name
from converter.ir.model import LAYOUT_CHANGES
from converter.options.request import Request
from converter.pipeline.live_models import is_live
from converter.protocols.parser import Parser, Source, Tokenizing
from converter.protocols.wrapped import ReadSource
from converter.runtime.session import Progress, Session

if TYPE_CHECKING:
    from converter.check.answers import Once
    from converter.ir.model import Model
    from converter.pipeline.in_graph import InGraphSource
    from converter.pipeline.layout import LaidOut


class OpenSource:
    """A handle on a source: it opens it when it is first needed. Whoever made it closes it.

    Args:
        request: What was asked for.
        parser: What reads the source.
        scratch: A folder for files that go again.

    Attributes:
        progress: Told what is being done.
        closed: Whether nothing is to be opened any more.
    """

    def __init__(self, request: Request, parser: Parser, scratch: Path) -> None:
        self._request, self._parser, self._scratch = request, parser, scratch
        self.progress: Progress = lambda text: None
        self.closed = False
        self._lock = threading.Lock()
        self._again: Callable[[Session], None] | None = None
        self._own: Source | None = None
        self._source: Source | None = None
        self._laid_out: LaidOut | None = None
        self._in_graph: InGraphSource | None = None
        self._session: Session | None = None
        self._tokens: dict[str, list[dict[str, list[int]]]] = {}

    def source(self) -> Source:
        """The source, as the request wants it."""
        with self._lock:
            if self._source is None:
                self._source = self._opened()
            return self._source

    def _opened(self) -> Source:
        folder = self._scratch / "again" if self._again else self._scratch
        folder.mkdir(exist_ok=True)  # what was read is mapped from files in the first
        with self.while_reading():
            source = self._parser.open(self._request, folder, lambda text: self.progress(text))
        self._own = source
        if not is_live(self._request.source):
            source = ReadSource(source, self.while_reading)
        if self._request.fix:
            from converter.pipeline.fixed import FixedSource

            source = FixedSource(source, self._request.fix)
        if self._request.layout:
            from converter.pipeline.layout import LaidOut

            source = self._laid_out = LaidOut(source, self._request.layout)
        if self._request.prepare == "graph":
            from converter.pipeline.in_graph import InGraphSource

            emitters = [plugins.load("emitters", target) for target in self._request.to]
            whole = all(emitter.resizes for emitter in emitters)
            decoded = [item.name for item in emitters if item.decodes(self._request)]
            source = self._in_graph = InGraphSource(source, self._request, whole, decoded)
        return source

    def while_reading(self) -> AbstractContextManager[None]:
        """Around what reads the source's bytes; see :func:`converter.files.reading.reading`."""
        return reading(base_name(self._request.source))

    def session(self, read: Model | None = None) -> Session:
        """The source framework's session.

        Args:
            read: The source's model, where it was read, be it by an earlier run.

        Raises:
            ModelError: It was opened anew, and isn't what it was (:meth:`rest`).
        """
        source = self.source()
        with self._lock:
            if self._session is None:
                if read is not None and self._laid_out is not None:
                    self._laid_out.changes = read.source.get(LAYOUT_CHANGES)
                if read is not None and self._in_graph is not None:
                    self._in_graph.read(read)
                opened = source.reference()
                if self._again is not None:
                    self._again(opened)
                self._session = opened
            return self._session

    @cached_property
    def once(self) -> Once:
        """The session, for several artifacts that are compared with it one after the other."""
        from converter.check.answers import Once

        return Once(self.session(), self._scratch / "answers")

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
        if is_live(self._request.source) or isinstance(self._own, Tokenizing):
            return
        with self._lock:
            self._end()
            self._source = self._own = self._session = None
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
                f"the samples are texts, and a {self._parser.name} source has no tokenizer "
                "that turns them into tokens",
                code="tokenizer",
                hint="Give the model's own inputs as .npz.",
            )
        key = digest_of([texts, pairs, length, fixed])
        if key not in self._tokens:
            with self.while_reading():
                self._tokens[key] = self._own.tokenize(texts, pairs, length, fixed)
        return self._tokens[key]

    def close(self) -> None:
        """Ends the source's process and gives its memory back."""
        self.closed = True
        self._end()

    def _end(self) -> None:
        for opened in (self._session, self._source):
            if opened is not None:
                opened.close()
