"""Core ML: an ``.mlpackage`` or ``.mlmodel`` becomes a Model.

The file is read here, by its schema (coremltools has the protobufs' classes). Core ML itself runs
on Apple's systems alone: there it is the reference, elsewhere ONNX Runtime on what was read.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from converter.errors import DependencyError, from_os_error
from converter.ir.listing import Listing
from converter.options.request import Request
from converter.plugins.extras import install_line
from converter.protocols.parser import Identity
from converter.runtime.frameworks import Framework
from converter.runtime.session import Progress
from modelyard.containers.coreml import is_package
from parsers.coreml.spec import SPECS
from parsers.whole_file import model_name, refuse_class_options

if TYPE_CHECKING:
    from converter.ir.model import Model
    from converter.runtime.frameworks import Framework
    from parsers.coreml.source import CoremlSource

_SPEC = SPECS["coreml"]

_SUFFIXES = (".mlmodel", ".mlpackage", ".mlmodelc")


class CoremlParser:
    name = "coreml"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks
    options = _SPEC.options

    def sniff(self, source: str) -> bool:
        """A package, or what is called ``.mlmodel``; a compiled model too, to say what it is."""
        path = Path(source)
        return is_package(path) or path.suffix.lower() in _SUFFIXES

    def identify(self, request: Request) -> Identity:
        """The file, or all files of the package, and the versions of what reads and runs it.

        Raises:
            UsageError: It isn't there, can't be read, or an option means nothing for it.
            ModelError: It is no model by its first byte, or compiled; the package's manifest is
                damaged, or points outside of it.
            DependencyError: coremltools is missing.
        """
        from parsers.coreml.opened import refuse_garbage

        path = Path(request.source)
        refuse_class_options(request, path.name)
        files = _files(path)
        refuse_garbage(path)
        return Identity(model_name(path.stem), self.name, files, _versions())

    def open(self, request: Request, workdir: Path, progress: Progress) -> CoremlSource:
        """The file, not read yet."""
        from parsers.coreml.source import CoremlSource

        return CoremlSource(Path(request.source), request, progress)

    def listing(self, request: Request) -> Listing:
        """The program's own operations, or the network's layers, with types and sizes."""
        from parsers.coreml.listing import listing
        from parsers.coreml.opened import PROGRAM, open_file

        opened = open_file(Path(request.source))
        function = opened.function(request.signature) if opened.kind == PROGRAM else None
        return listing(opened, function)

    def read(self, path: Path) -> Model:
        """A package's Model, with its own names.

        Raises:
            UsageError: It isn't there or can't be read.
            ModelError: It is damaged, or of a kind that isn't read.
            UnsupportedError: Operations can't be expressed in ONNX; all of them.
        """
        from parsers.coreml.importer import read

        return read(path)

    def stored_bytes(self, path: Path) -> dict[str, int]:
        """Bytes of a program's constants by the type of their elements, as they are stored.

        Raises:
            UsageError: It isn't there or can't be read.
            ModelError: It is damaged, or no ML program.
        """
        from parsers.coreml.stored import stored_bytes

        return stored_bytes(path)


def _files(path: Path) -> dict[str, Path]:
    """The file, or a folder's files, by their names within it."""
    try:
        if not path.is_dir():
            with path.open("rb"):
                return {path.name: path}
        found = sorted(item for item in path.rglob("*") if item.is_file())
        return {f"{path.name}/{item.relative_to(path).as_posix()}": item for item in found}
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error


def _versions() -> dict[str, str]:
    found = {}
    for name in ("coremltools", "onnxruntime-gpu", "onnxruntime"):
        try:
            found[name.removesuffix("-gpu")] = version(name)
        except PackageNotFoundError:
            continue
    if "coremltools" not in found:
        raise DependencyError(
            "reading a Core ML model needs coremltools",
            code="package-missing",
            hint=install_line("coreml"),
        )
    return found
