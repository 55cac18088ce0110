"""TensorFlow: SavedModel folders, frozen graphs and TensorFlow 1's checkpoints become a Model.

All of it runs in a child process (``parsers/worker``), which hands back an ONNX file, the
reference outputs and the framework's own latency.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from converter.errors import UsageError, from_os_error
from converter.options.request import Request
from converter.protocols.parser import Identity
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from parsers.tensorflow import files
from parsers.tensorflow.mmdnn import MMDNN
from parsers.tensorflow.spec import SPECS, TENSORFLOW

if TYPE_CHECKING:
    from parsers.tensorflow.source import TensorFlowSource

_SPEC = SPECS["tensorflow"]

_PLAIN = {"1", "saved_model", "savedmodel", "model", "export"}


class TensorFlowParser:
    name = "tensorflow"
    extra: str | None = _SPEC.extra
    framework: Framework | None = _SPEC.framework
    marks = _SPEC.marks
    mmdnn = MMDNN

    def sniff(self, source: str) -> bool:
        """SavedModel folders, GraphDefs and MetaGraphDefs by their contents.

        Weights alone are among them, to say what they lack.
        """
        with suppress(OSError):
            return bool(files.kind_of(Path(source)))
        return False

    def identify(self, request: Request) -> Identity:
        """All of its files; see :class:`.Parser`. A trusted graph may hold
        operators that read others."""
        path, kind = located(request.source)
        _refuse_options(request, kind)
        found = _files(path, kind, request)
        versions = interpreter(request.python).require(
            TENSORFLOW.needs, "reading a TensorFlow model", TENSORFLOW.extra
        )
        trusted = request.trust_source
        return Identity(_name(path), self.name, found, versions, runs_code=trusted)

    def open(self, request: Request, workdir: Path, progress: Progress) -> TensorFlowSource:
        """Starts the child; the framework loads while the caller goes on."""
        from parsers.tensorflow.source import TensorFlowSource

        path, kind = located(request.source)
        return TensorFlowSource(request, workdir, progress, self.name, path=path, kind=kind)


def located(source: str) -> tuple[Path, str]:
    """What is to be read (a SavedModel's folder, a .meta file, a graph), and its kind.

    Raises:
        UsageError: It is weights alone, or can't be read.
    """
    path = Path(source)
    try:
        kind = files.kind_of(path)
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error
    if kind == files.WEIGHTS:
        raise UsageError(
            f"{path.name} holds weights, not a model: it is a checkpoint without its graph",
            code="not-a-model",
            hint="For a TensorFlow 1 checkpoint, name the .meta file. A TensorFlow 2 checkpoint "
            "has no graph: load it in the code that made it, and save that as a SavedModel "
            "or .keras file.",
        )
    if kind == files.SAVED_MODEL and path.is_file():
        return path.parent, kind
    if kind == files.CHECKPOINT and path.is_dir():
        return files.newest_meta(path) or path, kind
    return path, kind


def _files(path: Path, kind: str, request: Request) -> dict[str, Path]:
    """Everything that the result depends on, by a name without a path."""
    if kind == files.SAVED_MODEL:
        parts = ("saved_model.pb*", "variables/*", "assets/*")
        found = (item for part in parts for item in sorted(path.glob(part)))
        return {str(item.relative_to(path)): item for item in found if item.is_file()}
    weights = Path(request.weights) if request.weights else None
    if weights is None and kind == files.CHECKPOINT:
        weights = path.with_suffix("")
    named = {path.name: path}
    if weights is not None:
        named.update((f"weights/{item.name}", item) for item in _checkpoint(weights))
    return named


def _checkpoint(prefix: Path) -> list[Path]:
    """The files of a checkpoint, named by any of them or by what they have in common."""
    found = files.checkpoint_files(prefix)
    if not found:
        raise UsageError(
            f"the weights aren't there: {prefix.name}.index and {prefix.name}.data-*",
            code="file-not-found",
            hint="Put them beside the .meta file, or pass --weights with the path of the "
            "checkpoint without .index.",
        )
    return found


def _refuse_options(request: Request, kind: str) -> None:
    """Refuses what means nothing for this kind of file."""
    saved = kind == files.SAVED_MODEL
    given = {
        "--weights": saved and request.weights,
        "--arg": saved and (request.args or request.kwargs),
        "--signature": not saved and request.signature,
    }
    for option, value in given.items():
        if value:
            what = "a SavedModel" if saved else "a graph without signatures"
            raise UsageError(
                f"{option} has no meaning for {what}: {Path(request.source).name}",
                code="option-not-applicable",
                hint=f"Leave {option} out.",
            )


def _name(path: Path) -> str:
    """The model's name: the file's or folder's, or the one above a folder called 1 or export."""
    path = path.absolute()
    stem = path.stem if path.is_file() else path.name
    if path.is_dir() and (stem.isdigit() or stem.lower() in _PLAIN) and path.parent.name:
        stem = path.parent.name
    return re.sub(r"\W+", "_", stem).strip("_").lower() or "model"
