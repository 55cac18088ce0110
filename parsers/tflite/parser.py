"""TFLite: a .tflite file becomes a Model, with LiteRT as the reference.

The file is read here, by its schema; only LiteRT itself runs in a child process
(``parsers/worker``), in the interpreter that ``--python`` names.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from converter.errors import from_os_error
from converter.ir.listing import Listing
from converter.options.request import Request
from converter.protocols.parser import Identity
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from parsers.tflite.spec import LITERT, SPECS
from parsers.whole_file import model_name, refuse_class_options

if TYPE_CHECKING:
    from parsers.tflite.source import TfliteSource

_SPEC = SPECS["tflite"]


class TfliteParser:
    name = "tflite"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks
    options = _SPEC.options

    def sniff(self, source: str) -> bool:
        """A file with TFLite's mark, or one that is called ``.tflite``."""
        path = Path(source)
        if path.suffix.lower() in (".tflite", ".lite"):
            return True
        with suppress(OSError):
            if path.is_file():
                with path.open("rb") as file:
                    return file.read(8)[4:] == b"TFL3"
        return False

    def identify(self, request: Request) -> Identity:
        """The file, and the versions of what reads and runs it.

        Raises:
            UsageError: It isn't there, can't be read, or an option means nothing for it.
            DependencyError: ai-edge-litert is missing, here or in ``--python``.
            ModelError: It has no mark of the format.
        """
        path = Path(request.source)
        refuse_class_options(request, path.name)
        try:
            with path.open("rb") as file:
                head = file.read(8)
        except OSError as error:
            raise from_os_error(error, f"reading {path.name}") from error
        versions = _versions(request)
        if head[4:] != b"TFL3":
            from modelyard.containers.tflite import unpack

            unpack(head, path.name)  # says what it isn't
        return Identity(model_name(path.stem), self.name, {path.name: path}, versions)

    def open(self, request: Request, workdir: Path, progress: Progress) -> TfliteSource:
        """Starts the child; LiteRT loads there while the file is read here."""
        from parsers.tflite.source import TfliteSource

        return TfliteSource(Path(request.source), request, workdir, progress)

    def listing(self, request: Request) -> Listing:
        """The file's own operators, types and quantization."""
        from parsers.tflite.listing import listing

        return listing(Path(request.source), request.signature)


def _versions(request: Request) -> dict[str, str]:
    """Of LiteRT, wherever it runs, and of what reads the file, which is always here."""
    found = interpreter(request.python).require(
        LITERT.needs, "running a TFLite model", LITERT.extra
    )
    own = interpreter(None).require(
        (*LITERT.needs, "flatbuffers"), "reading a TFLite model", LITERT.extra
    )
    found["flatbuffers"] = own["flatbuffers"]
    if request.python is not None:
        found["ai-edge-litert schema"] = own["ai-edge-litert"]
    return found
