"""What the steps of one run share: the request, the open source, folders, what was said."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.errors import ModelyardError, UsageError
from converter.files.reading import reading
from converter.files.scrub import base_name
from converter.files.signatures import all_marks, one_of
from converter.files.unread_formats import bare_python, missing, refuse_foreign
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.live_models import find_living, is_live
from converter.pipeline.open_source import OpenSource
from converter.pipeline.plan import Plan, Step
from converter.pipeline.readings import Readings
from converter.preparation.declared import IN_GRAPH
from converter.preparation.suggested import DECLARED, IMAGES
from converter.protocols.parser import Identity, Parser
from converter.runtime.frameworks import theirs

if TYPE_CHECKING:
    from converter.ir.model import Model
    from converter.preparation.joins import Joins

SIZES = "sizes"
"""The key in :attr:`Model.source` of sizes for free dimensions, where a source suggests some."""


@dataclass(frozen=True, eq=False)
class Work:
    """What the steps of one run share; none of them changes it.

    Attributes:
        request: What was asked for, zoo references resolved.
        parser: What reads the source.
        identity: What the source is.
        folder: Where the output is being made.
        scratch: A folder for files that go again.
        cache: Where results are kept.
        given: The fields of the request that the user gave.
        handle: On the source, where it may be open already.
        part: The part of the output that it is; empty where there are no parts.
        joins: What a flow asks of the parts; None where nothing joins them.
    """

    request: Request
    parser: Parser
    identity: Identity
    folder: Path
    scratch: Path
    cache: Cache
    given: frozenset[str] = frozenset()
    handle: OpenSource | None = None
    part: str = ""
    joins: Joins | None = None

    @property
    def name(self) -> str:
        """The model's name: the user's, or the source's."""
        return self.request.name or self.identity.name

    @property
    def output(self) -> Path:
        """The folder of the whole output: of all parts, where there are some."""
        return self.folder.parent if self.part else self.folder

    @cached_property
    def opened(self) -> OpenSource:
        """The source, which is opened when it is first needed."""
        return self.handle or OpenSource(self.request, self.parser, self.scratch)

    @cached_property
    def readings(self) -> Readings:
        """What earlier runs read of the source."""
        return Readings(self.request, self.identity, self.cache)

    def copy_assets(self, folder: Path) -> None:
        """Copies what goes with the model (:attr:`Identity.assets`) into a folder."""
        for name, path in self.identity.assets.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)

    def start(self, plan: Plan) -> None:
        """Starts what takes long to start, unless an earlier run's results will do.

        The framework's child loads its libraries while this process loads its own; the simplifiers
        follow when it traces (:meth:`start_tools`), which takes one core of two.
        """
        parse = plan.step("parse")
        if not self.readings.reusable:  # whatever is known: before its files are hashed
            self.opened.source()
        if self.readings.find(parse) is None:
            self.opened.source()
        if self.parser.framework is None:
            self.start_tools(parse)

    def start_tools(self, parse: Step) -> None:
        """Starts the simplifiers' child, unless the source's model is kept: what is made of it is,
        too."""
        from converter.passes.libraries.tools import start_tools

        wanted = self.request.simplify and not self.opened.closed
        if wanted and self.readings.find(parse) is None:
            start_tools()

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
        f"Modelyard can't read the format of {request.source}",
        code="unknown-format",
        hint=_folder_hint(Path(request.source))
        or f"Formats: {', '.join(plugins.working('parsers'))}.",
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
            code="interface-mismatch",
            hint=f"It has: {', '.join(symbols) or 'none'}.",
        )
    return request.dims


def sized(request: Request, model: Model) -> Request:
    """A request with what a source suggests and nobody gave: sizes of free dimensions, and how
    images and other files become the model's inputs.

    Args:
        request: What was asked for.
        model: The source's, as it was read.
    """
    if IMAGES in model.source or DECLARED in model.source:
        from converter.pipeline.layers import layered

        request = layered(request, model)
    suggested = {n: size for n, size in model.source.get(SIZES, {}).items() if n in model.symbols}
    return replace(request, dims={**suggested, **request.dims}) if suggested else request


def left_of(request: Request, model: Model) -> Request:
    """A request that says of files what is left to do outside of a model's graph; see
    :mod:`converter.pipeline.in_graph`."""
    said = model.source.get(IN_GRAPH)
    if said is None:
        return request
    plain = Request(request.source)
    images = {name: value for name, value in vars(plain).items() if name.startswith("image_")}
    left = {"preparation": said["after"]["prepare"], "answer": said["after"]["answer"]}
    return replace(request, **images, **left)


def describe_versions() -> dict[str, Any]:
    """Versions of everything that can take part, for keys and the manifest."""
    from converter.runtime.versions import environment_summary

    return dict(environment_summary())
