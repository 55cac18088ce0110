"""Sources and artifacts opened to be looked at, without an output: what commands share."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.errors import GateError, ModelyardError, UsageError
from converter.files.reading import reading
from converter.files.signatures import Marks
from converter.options.recipe import make_request
from converter.options.request import Request
from converter.options.resolved import memory_limit
from converter.options.values import require_known
from converter.pipeline.cache import Cache
from converter.pipeline.folders import IN_GRAPH, Found, find_artifact
from converter.pipeline.plan import Step
from converter.pipeline.reads import require_files
from converter.pipeline.run import Listener, Silent
from converter.pipeline.work import Work, find_parser, left_of, sizes_of
from converter.preparation.written import require_written, with_code
from converter.protocols.emitter import Artifact, Emitter
from converter.protocols.parser import Identity, Parser, Source
from converter.runtime.session import Progress, Session

if TYPE_CHECKING:
    from converter.runtime.frameworks import Framework
    from converter.samples import Samples


def resolve(values: Mapping[str, Any]) -> Request:
    """The request with ``zoo:NAME`` replaced by what the catalogue says; options go on top.

    Raises:
        UsageError: A field isn't right, or names a pipe or a device.
    """
    source = str(values.get("source", ""))
    if not source.startswith("zoo:"):
        request = make_request(values)
        require_files(request)
    else:
        make_request(values)
        from zoo import catalogue

        found = catalogue.resolve(source, offline=bool(values.get("offline")))
        request = make_request({**found, **{k: v for k, v in values.items() if k != "source"}})
    if request.preparation or request.answer:
        require_written(request.preparation, request.answer)
        request = replace(
            request,
            preparation=with_code(request.preparation),
            answer=with_code(request.answer),
        )
    if source.startswith("zoo:"):
        from converter.pipeline.layers import with_zoo

        request = with_zoo(request, source, found, values)
    return request


@contextmanager
def told(listener: Listener | None, id: str, title: str) -> Iterator[Progress]:
    """Tells a listener that one thing starts, and at the end how long it took.

    Args:
        listener: The listener; None for none.
        id: The step's id, by which the listener tells steps apart.
        title: The step in words, for people.

    Yields:
        What is called with progress meanwhile.
    """
    listening, step = listener or Silent(), Step(id, title)
    start = time.perf_counter()
    listening.started(step)
    yield lambda text: listening.progress(step, text)
    listening.finished(step, time.perf_counter() - start, False)


@contextmanager
def closing(work: Work) -> Iterator[None]:
    """Ends the source's child however this ends."""
    try:
        yield
    finally:
        work.opened.close()


class _Unread:
    """In a parser's place, for an artifact that is run by itself and that no parser reads."""

    name: str = "artifact"
    extra: str | None = None
    framework: Framework | None = None
    marks = Marks()

    def sniff(self, source: str) -> bool:
        return bool(source) and Path(source).exists()

    def identify(self, request: Request) -> Identity:
        path = Path(request.source)
        return Identity(path.stem, self.name, {path.name: path}, {})

    def open(self, request: Request, workdir: Path, progress: Progress) -> Source:
        raise UsageError(
            f"Modelyard can't read the format of {Path(request.source).name}", code="unknown-format"
        )


def _reader(request: Request, alone: bool) -> tuple[Parser, Identity]:
    """What reads a source; one that is run ``alone`` needs no parser if an emitter opens it."""
    try:
        return find_parser(request)
    except UsageError as error:
        path = Path(request.source)
        if not alone or not path.exists() or error.code == "option-not-applicable":
            raise
        _emitter_of(path)
        return _Unread(), _Unread().identify(request)


@contextmanager
def working(source: str, options: Mapping[str, Any], alone: bool = False) -> Iterator[Work]:
    """A source to look at, without an output: its folder goes again.

    Args:
        source: As for :func:`converter.commands.convert.convert`.
        options: Fields of a request.
        alone: Whether it may be an artifact that no parser reads.
    """
    request = resolve({"source": source, **options})
    require_known(request)
    memory_limit(request)
    held = _held.get()
    with held.work(request, alone) if held else _looked_at(request, alone) as work:
        yield work


@contextmanager
def _looked_at(request: Request, alone: bool) -> Iterator[Work]:
    parser, identity = _reader(request, alone)
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        scratch = Path(folder)
        work = Work(request, parser, identity, scratch, scratch, Cache(False))
        with closing(work):
            yield work


class _Held:
    """A source that stays open for the next artifact, where that asks for the same."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._work: Work | None = None

    @contextmanager
    def work(self, request: Request, alone: bool) -> Iterator[Work]:
        """For a request; after another error than a missed gate's, which may have ended the
        source's process, it is opened anew."""
        held = self._work
        if held is None or replace(held.request, precision=request.precision) != request:
            self.close()
            held = self._work = self._stack.enter_context(_looked_at(request, alone))
        try:
            yield replace(held, request=request, handle=held.opened)
        except GateError:
            raise
        except BaseException:  # Ctrl-C too: the source may be in the middle of an answer
            self.close()
            raise

    def close(self) -> None:
        self._stack.close()
        self._work = None


_held: ContextVar[_Held | None] = ContextVar("held", default=None)


@contextmanager
def one_source() -> Iterator[None]:
    """While it lasts, artifacts that are looked at in turn share their source, for as long as they
    differ in their precision alone: it is opened once, and run once on each input."""
    held = _Held()
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)
        held.close()


_IO_DTYPE = "For one made with --io-dtype, say so: --precision fp16 --io-dtype float16."


@contextmanager
def opened(
    artifact: str, source: str, options: Mapping[str, Any]
) -> Iterator[tuple[Work, Session, Samples]]:
    """The source, a session on the artifact, and samples for the artifact's inputs.

    Where the artifact lies in an output folder, what its manifest says goes for what ``options``
    leave open.

    Args:
        artifact: A file, or an output folder that holds one artifact.
        source: The model that it came from; the same as ``artifact`` for the artifact alone.
        options: Fields of a request.

    Raises:
        UsageError: There is no such artifact.
    """
    found = find_artifact(artifact)
    if not found.path.exists():
        raise UsageError(f"there is no {artifact}", code="file-not-found")
    alone = source == artifact
    source = str(found.path) if alone else source
    asked = found.options(source, options)
    if alone and asked.get("prepare") == "graph":  # that is in the file already
        asked = {name: value for name, value in asked.items() if name not in IN_GRAPH}
    with working(source, asked, alone=alone) as work:
        session, samples = _open_artifact(found, work, options.get("dims", {}))
        try:
            yield work, session, samples
        finally:
            session.close()


def emitter_of(found: Found) -> Emitter:
    """What opens an artifact; raises UsageError where nothing does."""
    known = found.target in plugins.available("emitters")
    emitter: Emitter = plugins.load("emitters", found.target) if known else _emitter_of(found.path)
    return emitter


def artifact_macs(found: Found, request: Request, sizes: Mapping[str, int]) -> int:
    """Multiply-adds of one run of an artifact, as its file tells.

    Args:
        found: The artifact, where it lies.
        request: Its precision, and what the target reads of the options.
        sizes: Of free dimensions by name.

    Returns:
        The number; 0 where it isn't known.
    """
    emitter = emitter_of(found)
    made = Artifact(emitter.name, request.precision[0], found.path, [found.path])
    try:
        products = emitter.contents(made, request, sizes).products
    except ModelyardError:  # a reader may know less than the target
        return 0
    return int(sum(product.macs or 0 for product in products))


def _open_artifact(found: Found, work: Work, dims: Mapping[str, int]) -> tuple[Session, Samples]:
    """A session on an artifact, and samples; ``dims`` are those that the user gave."""
    from converter.check.feeding import NARROW, Fed, takes_integers, widened
    from converter.pipeline.plan import require_io_dtype
    from converter.samples import load_samples
    from converter.samples.labels import classes_in

    require_io_dtype(work.request)
    path, request, emitter = found.path, work.request, emitter_of(found)
    made = Artifact(emitter.name, request.precision[0], path, [path])
    real = takes_integers(request, request.precision[0])
    with reading(path.name):
        opened = emitter.open(made, request)
    session: Session = Fed(opened, real=real)
    if request.prepare == "graph":
        from converter.pipeline.staged import followed, know_files

        request = left_of(request, work.opened.read)
        session = followed(session, work.opened.read)
    symbols = tuple(
        dict.fromkeys(
            dim for spec in session.inputs for dim in spec.shape or () if isinstance(dim, str)
        )
    )
    inputs = session.inputs if request.io_dtype == "float32" else widened(session.inputs)
    sizes = {name: size for name, size in request.dims.items() if name in (*symbols, *dims)}
    try:
        samples = load_samples(
            request,
            inputs,
            sizes_of(replace(request, dims=sizes), symbols),
            classes=classes_in(session.outputs),
            tokenize=work.opened.tokenize,
        )
        samples.validate()
        if request.prepare == "graph":
            know_files(opened, samples)
    except UsageError as error:
        if any(spec.dtype in NARROW for spec in inputs):
            error.hint += f" {_IO_DTYPE}" if error.hint else _IO_DTYPE
        raise
    return session, samples


def fed_to(session: Session, samples: Samples) -> Mapping[str, Any]:
    """What an artifact itself is given of the first sample, of its own types."""
    from converter.check.latency import batch_feeds

    fed: Any = session  # Fed, or around it
    found: Mapping[str, Any] = fed.cast(batch_feeds(samples, session.inputs, [1])[1])
    return found


def _emitter_of(path: Path) -> Any:
    for name in plugins.working("emitters"):
        emitter = plugins.load("emitters", name)
        with reading(path.name):
            if emitter.sniff(path):
                return emitter
    known = ", ".join(plugins.available("emitters"))
    raise UsageError(
        f"{path.name} isn't an artifact that can be run",
        code="unknown-format",
        hint=f"Formats: {known}.",
    )
