"""The PyTorch target: ``model.py`` and ``model.safetensors``, run by torch in its own process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from converter import plugins
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.protocols.parser import Parser
from converter.runtime.session import Session
from emitters.code.emitter import CODE, CodeEmitter, Lowering, title_of
from emitters.opened import INTERFACE, Opened
from emitters.pytorch.spec import SPECS

if TYPE_CHECKING:
    from emitters.code.program import Program

WEIGHTS = "model.safetensors"


class PytorchEmitter(CodeEmitter, spec=SPECS["pytorch"]):
    """Writes ``model.py`` and ``model.safetensors``."""

    name, norm = "pytorch", "BatchNorm"
    file, weights = CODE, WEIGHTS

    def lowering(self) -> Lowering:
        from emitters.pytorch import lowering

        return lowering

    def save(self, program: Program, model: Model, folder: Path, request: Request) -> None:
        from emitters.code.safetensors import write
        from emitters.pytorch.source import source_of

        text = source_of(program, title_of(request), WEIGHTS)
        (folder / CODE).write_text(text, encoding="utf-8")
        write(folder / WEIGHTS, program.weights)

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
