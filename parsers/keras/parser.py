"""Keras: ``.keras`` archives, and HDF5 files of Keras 2 and 3, become a Model.

Loaded, run and translated by Keras, TensorFlow and tf2onnx in a child process
(``parsers/worker``); what a file names is judged there before Keras reads it.
"""

from __future__ import annotations

import re
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from converter.errors import ModelError, UsageError
from converter.options.request import Request
from converter.protocols.parser import Identity, Parser
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from parsers.keras.mmdnn import MMDNN
from parsers.keras.spec import SPECS
from parsers.tensorflow.spec import TENSORFLOW
from parsers.worker import archive

if TYPE_CHECKING:
    from parsers.tensorflow.source import TensorFlowSource

_SPEC = SPECS["keras"]

KERAS = replace(TENSORFLOW, backend="keras.child.backend:KerasBackend")
"""The same framework, with what opens Keras' own files."""

_SUFFIXES = {".keras", ".h5", ".hdf5"}
_HDF5 = b"\x89HDF\r\n\x1a\n"


class KerasParser:
    name = "keras"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks
    mmdnn = MMDNN

    def sniff(self, source: str) -> bool:
        """Keras' archives and HDF5 files, whatever their names.

        Files that only have the suffix are among them, to say what they lack.
        """
        path = Path(source)
        if not path.is_file():
            return False
        if path.suffix.lower() in _SUFFIXES:
            return True
        with suppress(OSError, zipfile.BadZipFile):
            return _is_hdf5(path) or _is_archive(path)
        return False

    def identify(self, request: Request) -> Identity:
        """The file; see :class:`converter.protocols.parser.Parser`. A trusted one may hold code."""
        path = Path(request.source)
        if not path.is_file():
            raise UsageError(f"the model isn't there: {request.source}", code="file-not-found")
        refuse_options(request)
        found = versions(request)
        _refuse_garbage(path)
        name = re.sub(r"\W+", "_", path.stem, flags=re.ASCII).strip("_").lower() or "model"
        trusted = request.trust_source
        named = {path.name: path}
        return Identity(name, self.name, named, found, runs_code=trusted)

    def living(self, value: object, folder: Path) -> Parser | None:
        """A keras.Model of this process; see :class:`converter.protocols.parser.Living`."""
        keras = sys.modules.get("keras")
        if keras is None or not isinstance(value, keras.Model):
            return None
        from parsers.keras.live import LiveKeras

        return LiveKeras(value)

    def open(self, request: Request, workdir: Path, progress: Progress) -> TensorFlowSource:
        """Starts the child; the framework loads while the caller goes on."""
        from parsers.tensorflow.source import TensorFlowSource

        return TensorFlowSource(request, workdir, progress, self.name, framework=KERAS)


def versions(request: Request) -> dict[str, str]:
    """The versions of what reads it; raises DependencyError for what isn't there."""
    needs = TENSORFLOW.needs
    return interpreter(request.python).require(needs, "reading a Keras model", TENSORFLOW.extra)


def refuse_options(request: Request) -> None:
    """Refuses what means nothing for a Keras file."""
    given = {
        "--weights": request.weights,
        "--arg": request.args or request.kwargs,
        "--signature": request.signature,
    }
    for option, value in given.items():
        if value:
            raise UsageError(
                f"{option} has no meaning for a Keras model: {Path(request.source).name} "
                "holds the whole model",
                code="option-not-applicable",
                hint=f"Leave {option} out.",
            )


def _refuse_garbage(path: Path) -> None:
    """Raises for what is neither an archive nor HDF5, or an archive without its end."""
    if zipfile.is_zipfile(path) or _is_hdf5(path):
        return
    with path.open("rb") as stream:
        if stream.read(2) == b"PK":
            raise ModelError(
                f"{path.name} is a damaged archive: its end is missing", code="model-damaged"
            )
    raise UsageError(
        f"{path.name} is neither a .keras archive nor an HDF5 file", code="unknown-format"
    )


def _is_hdf5(path: Path) -> bool:
    """HDF5's signature stands at the start, or after a block whose size is a power of two."""
    with path.open("rb") as stream:
        for offset in (0, 512, 1024, 2048, 4096):
            stream.seek(offset)
            if stream.read(len(_HDF5)) == _HDF5:
                return True
    return False


def _is_archive(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with suppress(zipfile.BadZipFile), archive.opened(path) as opened:
        return {"config.json", "metadata.json", "model.weights.h5"} <= set(opened.namelist())
    return False
