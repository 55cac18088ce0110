"""The PyTorch target: ``model.py`` and ``model.safetensors``, run by torch in its own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.errors import Unsupported, UnsupportedError, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Emitter
from converter.protocols.parser import Parser
from converter.runtime.session import Session
from emitters.code.request import code as code_request
from emitters.opened import INTERFACE, Opened, plain
from emitters.pytorch.spec import SPECS

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from emitters.pytorch.lowering import Legalize

CODE = "model.py"
WEIGHTS = "model.safetensors"


class PytorchEmitter(Emitter, spec=SPECS["pytorch"]):
    """Writes ``model.py`` and ``model.safetensors``."""

    name = "pytorch"
    texts = False
    lowers = True
    packs = True

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every node that can't be written, and why.

        Raises:
            UsageError: A precision that this target hasn't was asked for.
        """
        from emitters.pytorch.lowering import lower, unsupported_operators

        for precision in request.precision:
            self.require_precision(precision, request)
        if not simplified:
            return unsupported_operators(model.graph)
        return lower(model).refusals

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> Legalize:
        """Brings a model to what there is code for."""
        from emitters.pytorch.lowering import Legalize

        return Legalize()

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes ``<folder>/model.py`` and ``<folder>/model.safetensors``.

        Returns:
            An artifact whose details are ``bytes``, ``sha256``, ``classes`` and ``parameters``.

        Raises:
            UsageError: The folder can't be written.
            UnsupportedError: A node can't be written.
            MachineError: The disk is full.
        """
        from emitters.code.safetensors import write
        from emitters.pytorch.lowering import lower
        from emitters.pytorch.source import source_of

        program = lower(model)
        if program.refusals:
            count = len(program.refusals)
            raise UnsupportedError(
                f"pytorch can't take {count} nodes of this model", program.refusals
            )
        code, weights = folder / CODE, folder / WEIGHTS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            code.write_text(source_of(program, _title(request), WEIGHTS), encoding="utf-8")
            write(weights, program.weights)
        except OSError as error:
            raise from_os_error(error, f"writing {CODE}") from error
        trains = code_request(request).trainable
        kept = ["BatchNorm and Dropout are layers, for training (--trainable)"] if trains else []
        details: dict[str, Any] = {
            "bytes": code.stat().st_size + weights.stat().st_size,
            "sha256": {path.name: file_digest(path) for path in (code, weights)},
            "classes": len(program.classes),
            "decisions": [f"{CODE}: {len(program.classes)} classes, {_lines(code)} lines", *kept],
            INTERFACE: {"inputs": plain(model.inputs), "outputs": plain(model.outputs)},
        }
        return Artifact(self.name, precision, code, [code, weights], details)

    def sniff(self, path: Path) -> bool:
        """Never: a parser reads code, by ``FILE.py:CLASS``."""
        return False

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The model in PyTorch, in a process of its own.

        Raises:
            ModelError, DependencyError: As the parser of PyTorch's code.
        """
        parser: Parser = plugins.load("parsers", "pytorch")
        asked = Request(
            source=f"{artifact.path}:load",
            kwargs={"path": str(artifact.path.with_name(WEIGHTS))},
            threads=request.threads,
        )
        return Opened(parser, asked, artifact.details.get(INTERFACE))

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the weights are stored in, and so what the layers that have them compute in."""
        from emitters.pytorch.contents import contents_of

        return contents_of(artifact.path.with_name(WEIGHTS))

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``selftest.py`` and a README around it.

        Raises:
            OSError: The folder can't be written.
        """
        from emitters.pytorch.packing import pack

        return pack(artifact, model, shipped, request)


def _title(request: Request) -> str:
    return f"{request.name or 'A model'}, written by Modelyard."


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")
