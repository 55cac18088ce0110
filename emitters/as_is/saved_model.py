"""SavedModels of what other frameworks trained: code on Keras, traced and saved by TensorFlow.

The code is what the target of that name writes; TensorFlow runs in a process of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from converter import plugins
from converter.errors import from_os_error
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.worker import Worker
from emitters.files import artifact_of
from emitters.opened import interface

DEFAULT = "serving_default"
WRITTEN = "signature"
"""The detail of an artifact that was written here, and isn't the source's own file."""

_WRITER = Framework(
    title="TensorFlow",
    backend="tensorflow.child.saving:SavingBackend",
    extra="tensorflow",
    needs=("tensorflow|tensorflow-cpu", "keras"),
    own=(),
    forks=True,
)


def code() -> Emitter:
    """What writes a model as code on Keras."""
    found: Emitter = plugins.load("emitters", "keras")
    return found


def write(model: Model, path: Path, precision: str, request: Request) -> Artifact:
    """Writes ``path``, a folder.

    Args:
        model: What is traced.
        path: The folder; those above it are made.
        precision: The artifact's, by name.
        request: What was asked for.

    Returns:
        An artifact whose details are ``bytes``, ``sha256`` of each file, ``signature``, and the
        interface.

    Raises:
        UsageError: The folder can't be written.
        UnsupportedError: A node can't be written.
        DependencyError: TensorFlow isn't installed.
        MachineError: The disk is full.
    """
    signature = str(model.source.get("signature") or DEFAULT)
    with tempfile.TemporaryDirectory(prefix="modelyard-") as aside:
        made = code().emit(model, Path(aside), precision, request)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise from_os_error(error, f"writing {path.name}") from error
        _ask(
            request,
            archive=str(made.path),
            code=str(made.files[1]),
            inputs=[_told(spec) for spec in model.inputs],
            outputs=[spec.name for spec in model.outputs],
            signature=signature,
            out=str(path.absolute()),
        )
    files = sorted(file for file in path.rglob("*") if file.is_file())
    told = [f"{path.name}: signature {signature}, traced from code on Keras"]
    details = {"decisions": told, WRITTEN: signature, **interface(model)}
    return artifact_of("savedmodel", precision, path, files, details)


def _ask(request: Request, **params: Any) -> None:
    worker = Worker(
        _WRITER,
        what="the process that writes the SavedModel",
        source=request.source,
        interpreter=interpreter(None),
        progress=lambda text: None,
        exporter="TensorFlow",
    )
    try:
        worker.call("write", **params)
    finally:
        worker.close()


def _told(spec: TensorSpec) -> dict[str, Any]:
    sizes: Sequence[int | str] = spec.shape or ()
    shape = [size if isinstance(size, int) else None for size in sizes]
    return {"name": spec.name, "dtype": spec.dtype, "shape": shape}
