"""The OpenVINO target: an IR made by OpenVINO's own conversion, run by its engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import Unsupported, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Session
from emitters.openvino.scheme import OPENVINO
from emitters.openvino.spec import SPECS

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from converter.passes.legalize.chain import LegalizingPass

FILE_NAME = "model.xml"

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


class OpenvinoEmitter(Emitter, spec=SPECS["openvino"]):
    """Writes ``model.xml`` and ``model.bin``."""

    name = "openvino"
    scheme = OPENVINO
    texts = False
    lowers = True
    tells = True
    packs = True

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every node that OpenVINO would compute otherwise, and that can't be written in others.

        What it has no conversion of, :meth:`emit` lists.

        Raises:
            UsageError: A precision that this target hasn't was asked for.
            DependencyError: OpenVINO isn't installed.
        """
        from emitters.openvino.engine import engine
        from emitters.openvino.rules import Legalize, refusals

        for precision in request.precision:
            self.require_precision(precision, request)
        engine()
        if not simplified:
            return []
        step = Legalize()
        graph = step.apply(model).graph if step.wanted(model.graph) else model.graph
        return list(refusals(graph))

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> LegalizingPass | None:
        """Writes what OpenVINO would compute otherwise in other operators."""
        from emitters.openvino.rules import Legalize

        step = Legalize()
        return step if step.wanted(model.graph) else None

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes ``<folder>/model.xml`` and ``<folder>/model.bin``.

        Returns:
            An artifact whose details are ``bytes``, ``sha256`` and ``operators``.

        Raises:
            UsageError: The folder can't be written.
            UnsupportedError: OpenVINO can't convert a node.
            MachineError: The disk is full.
        """
        from emitters.openvino.writing import write

        path = folder / FILE_NAME
        if (step := self.legalizing(model, request)) is not None:
            model = replace(model, graph=step.apply(model).graph)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            operators = write(model, path)
        except OSError as error:
            raise from_os_error(error, f"writing {FILE_NAME}") from error
        files = [path, path.with_suffix(".bin")]
        details: dict[str, Any] = {
            "bytes": sum(file.stat().st_size for file in files),
            "sha256": {file.name: file_digest(file) for file in files},
            "operators": operators,
            "assumes": assumed(model, precision),
        }
        return Artifact(self.name, precision, path, files, details)

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``usage.py``, ``selftest.py`` and a README
        around it.

        Raises:
            OSError: The folder can't be written.
        """
        from emitters.openvino.packing import pack

        return pack(artifact, model, shipped, request)

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
