"""TorchServe's archives: the model in one becomes a Model, as its own format is read.

The archive is unpacked into the run's own folder, and the parser of the file in it reads that. What
TorchServe's own handlers do before and after the model becomes a declaration; the archive's own
handler isn't run. Code that makes the model runs with ``--trust-source`` alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from converter import plugins
from converter.errors import ModelError
from converter.options.request import Request
from converter.protocols.parser import Identity, Parser
from converter.protocols.wrapped import WrappedSource
from converter.runtime.frameworks import Framework
from converter.runtime.session import Progress
from parsers.pytorch.mar_archive import Archive, is_archive
from parsers.pytorch.mar_handlers import describe, handler_of, not_taken
from parsers.pytorch.spec import SPECS
from parsers.whole_file import model_name, refuse_class_options

if TYPE_CHECKING:
    from converter.ir.model import Model
    from converter.protocols.parser import Source

_SPEC = SPECS["mar"]


class MarParser:
    name = "mar"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks
    options = _SPEC.options

    def sniff(self, source: str) -> bool:
        """A zip with the manifest, or a file that is called ``.mar``."""
        path = Path(source)
        return path.is_file() and (path.suffix.lower() == ".mar" or is_archive(path))

    def identify(self, request: Request) -> Identity:
        """The archive; what reads the model in it says the versions.

        Raises:
            ModelError: It is damaged, holds no model, or code that isn't trusted.
            Others: As the parser of the file in it.
        """
        path = Path(request.source)
        refuse_class_options(request, path.name)
        archive = Archive.read(path)
        with tempfile.TemporaryDirectory() as folder:
            parser, inner = _inside(archive, request, Path(folder))
            found = parser.identify(inner)
        files = {path.name: path}
        name = model_name(archive.name)
        return replace(found, name=name, format=self.name, files=files, assets={})

    def open(self, request: Request, workdir: Path, progress: Progress) -> MarSource:
        """The model in it, open."""
        archive, folder = Archive.read(Path(request.source)), workdir / "archive"
        folder.mkdir(exist_ok=True)
        parser, inner = _inside(archive, request, folder)
        return MarSource(parser.open(inner, workdir, progress), archive, folder)


def _inside(archive: Archive, request: Request, folder: Path) -> tuple[Parser, Request]:
    """Unpacks it; gives what reads the model in it, and what is asked of that."""
    if not archive.model and not archive.code:
        raise ModelError(
            f"{archive.path.name} names no model: its handler {archive.handler} makes the "
            "model, and Modelyard doesn't run handlers",
            code="not-a-model",
            hint="Convert the file that the handler loads. The files in the archive (a zip) are "
            f"{', '.join(sorted(archive.names))}.",
        )
    if archive.code and not request.trust_source:
        raise ModelError(
            f"{archive.path.name} holds code that makes the model: {archive.code}",
            code="untrusted-code",
            hint="If you trust whoever made it, pass --trust-source.",
        )
    archive.unpack(folder)
    source = archive.source(folder)
    weights = str(folder / archive.model) if archive.code and archive.model else None
    handler = handler_of(archive)
    inputs = request.inputs or (list(handler.inputs) if handler else [])
    specs = dict(plugins.specs("parsers"))
    known = (name for name in plugins.working("parsers") if name != MarParser.name)
    for name in sorted(known, key=lambda name: not specs[name].marks.suit(Path(source))):
        parser: Parser = plugins.load("parsers", name)
        if parser.sniff(source):
            return parser, replace(request, source=source, weights=weights, inputs=inputs)
    raise ModelError(
        f"Modelyard can't read the format of {archive.model} in {archive.path.name}",
        code="unknown-format",
    )


class MarSource(WrappedSource):
    """The model in an archive.

    Args:
        source: The model, open.
        archive: What the archive says of it.
        folder: Where it was unpacked.
    """

    def __init__(self, source: Source, archive: Archive, folder: Path) -> None:
        super().__init__(source)
        self._archive, self._folder = archive, folder

    def parse(self) -> Model:
        """And what the archive says of files and answers."""
        model = self._source.parse()
        model.source.pop("file", None)  # the user's is the archive, and not the file in it
        describe(model, self._archive)
        return model

    def dependencies(self) -> Mapping[str, Path]:
        """Those outside of the archive."""
        found = self._source.dependencies().items()
        return {name: path for name, path in found if not path.is_relative_to(self._folder)}

    @property
    def warnings(self) -> Sequence[str]:
        """And what of the archive isn't taken over."""
        lost = not_taken(self._archive)
        own = [f"NOT TAKEN OVER: {lost}"] if lost else []
        return [*self._source.warnings, *own]
