"""The MindSpore target: a model of MindSpore Lite, by its own converter, run by its own runtime."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import Unsupported
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.runtime.session import Session
from emitters.files import Details, FileEmitter
from emitters.mindspore.spec import SPECS, SUFFIX
from emitters.opened import interface, interface_of

if TYPE_CHECKING:
    from emitters.mindspore.rules import Legalize

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


class MindsporeEmitter(FileEmitter, spec=SPECS["mindspore"]):
    """Writes ``model.mindir``, and ``usage.py``, which runs it."""

    name = "mindspore"
    file = f"model{SUFFIX}"

    def refusals(self, model: Model, request: Request, simplified: bool) -> Sequence[Unsupported]:
        """Every input whose sizes are free. What the converter refuses, :meth:`emit` says."""
        from emitters.mindspore.python import python_of

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

    def write(
        self, model: Model, folder: Path, precision: str, request: Request
    ) -> tuple[list[Path], Details]:
        """``usage.py`` too."""
        from emitters.mindspore.python import USAGE, python_of
        from emitters.mindspore.writing import write

        path, usage = folder / self.file, folder / USAGE.name
        write(model, path, python_of(request))
        shutil.copyfile(USAGE, usage)
        decisions = [_HALVES] if precision == "fp16" else []
        details = {"assumes": assumed(model), "decisions": decisions, **interface(model)}
        return [path, usage], details

    def sniff(self, path: Path) -> bool:
        """Whether it is a MindIR, by its name: the file has no mark."""
        return path.suffix == SUFFIX and path.is_file()

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The model in MindSpore Lite's runtime, on the CPU, in a process of its own.

        Raises:
            ModelError: The library refuses the file.
            DependencyError: There is no Python that has mindspore-lite.
        """
        from emitters.mindspore.session import MindsporeSession

        return MindsporeSession(artifact.path, request, *interface_of(artifact))


def _remedy(dim: str) -> str:
    return "give --batch 1" if dim == "batch" else f"give --fix or --input a size for {dim}"
