"""The MindSpore target: a model of MindSpore Lite, by its own converter, run by its own runtime."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import Unsupported, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Session
from emitters.mindspore.spec import SPECS, SUFFIX
from emitters.opened import INTERFACE, packaged, plain, specs_of

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from emitters.mindspore.rules import Legalize

FILE_NAME = f"model{SUFFIX}"

_FIXED = "its sizes are fixed, the batch too: another batch is another conversion (--batch)"
_DORMANT = (
    "mindspore-lite had no release for x86 since 2.0.0 (June 2023): for a new project take --to "
    "onnx, openvino or tflite"
)
_HALVES = "weights are stored in float16; on x86 the runtime loads them as float32"


def assumed(model: Model) -> list[str]:
    """What its user has to know."""
    kinds = {spec.dtype for spec in (*model.inputs, *model.outputs)}
    wide = ", ".join(sorted(kinds & {"int64", "float64"}))
    narrows = f"the runtime has 32 bits for integers and floats: inputs and outputs of {wide}"
    return [_FIXED, *([narrows] if wide else []), _DORMANT]


class MindsporeEmitter(Emitter, spec=SPECS["mindspore"]):
    """Writes ``model.mindir``, and ``usage.py``, which runs it."""

    name = "mindspore"
    texts = False
    lowers = True
    packs = True

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every input whose sizes are free. What the converter refuses, :meth:`emit` says.

        Raises:
            UsageError: A precision that this target hasn't was asked for.
            DependencyError: There is no Python that has mindspore-lite.
        """
        from emitters.mindspore.python import python_of

        for precision in request.precision:
            self.require_precision(precision, request)
        python_of(request)
        why = "its size {} is free, and a model of MindSpore Lite has fixed sizes"
        return [
            Unsupported(spec.name, "input", why.format(dim), _remedy(dim))
            for spec in model.inputs
            for dim in spec.shape or ()
            if isinstance(dim, str)
        ]

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> Legalize:
        """Writes operators that the converter doesn't read as others."""
        from emitters.mindspore.rules import Legalize

        return Legalize()

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes ``<folder>/model.mindir`` and ``<folder>/usage.py``.

        Returns:
            An artifact whose details are ``bytes`` and ``sha256``.

        Raises:
            UsageError: The folder can't be written.
            UnsupportedError: The converter has no such operator.
            ModelError: The converter refuses the model.
            MachineError: The disk is full, or the converter's process died.
        """
        from emitters.mindspore.python import USAGE, python_of
        from emitters.mindspore.writing import write

        path, usage = folder / FILE_NAME, folder / USAGE.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write(model, path, python_of(request))
            shutil.copyfile(USAGE, usage)
        except OSError as error:
            raise from_os_error(error, f"writing {FILE_NAME}") from error
        details: dict[str, Any] = {
            "bytes": path.stat().st_size,
            "sha256": {file.name: file_digest(file) for file in (path, usage)},
            "assumes": assumed(model),
            "decisions": [_HALVES] if precision == "fp16" else [],
            INTERFACE: {"inputs": plain(model.inputs), "outputs": plain(model.outputs)},
        }
        return Artifact(self.name, precision, path, [path, usage], details)

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``selftest.py`` and a README around it.

        Raises:
            OSError: The folder can't be written.
        """
        from emitters.mindspore.packing import pack

        return pack(artifact, model, shipped, request)

    def sniff(self, path: Path) -> bool:
        """Whether it is a MindIR, by its name: the file has no mark."""
        return path.suffix == SUFFIX and path.is_file()

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the weights are stored in, and so what the operators that take them compute in."""
        from emitters.mindspore.contents import contents_of

        return contents_of(artifact.path)

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The model in MindSpore Lite's runtime, on the CPU, in a process of its own.

        Raises:
            ModelError: The library refuses the file.
            DependencyError: There is no Python that has mindspore-lite.
        """
        from emitters.mindspore.session import MindsporeSession

        told = artifact.details.get(INTERFACE) or packaged(artifact.path)
        inputs, outputs = (specs_of(told[side]) for side in ("inputs", "outputs"))
        return MindsporeSession(artifact.path, request, inputs, outputs)


def _remedy(dim: str) -> str:
    return "give --batch 1" if dim == "batch" else f"give --fix or --input a size for {dim}"
