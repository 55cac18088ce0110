"""The OpenVINO target: an IR made by OpenVINO's own conversion, run by its engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import Unsupported
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.runtime.session import Session
from emitters.files import Details, FileEmitter
from emitters.openvino.scheme import OPENVINO
from emitters.openvino.spec import SPECS

if TYPE_CHECKING:
    from converter.passes.legalize.chain import LegalizingPass

_ROUNDS = (
    "by itself OpenVINO computes in bfloat16 on CPUs that have products of it: compile with "
    "INFERENCE_PRECISION_HINT f32, as the check did"
)
_NARROWS = "its CPU computes integers in 32 bits, float64 in float32"


def assumed(model: Model, precision: str) -> list[str]:
    """What its user has to know; of bfloat16 once."""
    wide = sorted({spec.dtype for spec in model.inputs} & {"int64", "uint32", "uint64", "float64"})
    rounds = [_ROUNDS] if precision == "fp32" else []
    return [*rounds, *([f"{_NARROWS} (inputs of {', '.join(wide)})"] if wide else [])]


class OpenvinoEmitter(FileEmitter, spec=SPECS["openvino"]):
    """Writes ``model.xml`` and ``model.bin``."""

    name = "openvino"
    file = "model.xml"
    scheme = OPENVINO
    tells = True

    def refusals(self, model: Model, request: Request, simplified: bool) -> Sequence[Unsupported]:
        """Every node that OpenVINO would compute otherwise, and that can't be written in others.

        What it has no conversion of, :meth:`emit` lists.
        """
        from emitters.openvino.engine import engine
        from emitters.openvino.rules import refusals

        engine()
        return list(refusals(self._legalized(model, request).graph)) if simplified else []

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> LegalizingPass | None:
        """Writes what OpenVINO would compute otherwise in other operators."""
        from emitters.openvino.rules import Legalize

        step = Legalize()
        return step if step.wanted(model.graph) else None

    def _legalized(self, model: Model, request: Request) -> Model:
        step = self.legalizing(model, request)
        return replace(model, graph=step.apply(model).graph) if step is not None else model

    def write(
        self, model: Model, folder: Path, precision: str, request: Request
    ) -> tuple[list[Path], Details]:
        """Gives the number of ``operators`` too."""
        from emitters.openvino.writing import write

        path = folder / self.file
        operators = write(self._legalized(model, request), path)
        details = {"operators": operators, "assumes": assumed(model, precision)}
        return [path, path.with_suffix(".bin")], details

    def sniff(self, path: Path) -> bool:
        """Whether it is an IR of ours, by its first element and what lies beside it."""
        if path.suffix != ".xml" or not path.with_suffix(".bin").is_file():
            return False
        with path.open("rb") as file:
            return b"<net " in file.read(256)

    def tell(self, path: Path) -> Mapping[str, Any]:
        """What is in a file.

        Raises:
            ModelError: It is damaged.
        """
        from emitters.openvino.contents import told

        return told(path)

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the IR's operators compute in, and what its weights are stored in."""
        from emitters.openvino.contents import contents_of

        return contents_of(artifact.path, sizes)

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The IR in OpenVINO's engine, on the CPU, with float32 computed as it is.

        Raises:
            ModelError: OpenVINO refuses the file.
            DependencyError: OpenVINO isn't installed.
        """
        from emitters.openvino.session import OpenvinoSession

        return OpenvinoSession(artifact.path, request)
