"""The Keras target: ``model.py`` and ``model.keras``, run by Keras in its own process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.runtime.session import Session
from emitters.code.emitter import CODE, CodeEmitter, Lowering, title_of
from emitters.keras.spec import SPECS
from emitters.opened import interface_of

if TYPE_CHECKING:
    from emitters.code.program import Program

ARCHIVE = "model.keras"


class KerasEmitter(CodeEmitter, spec=SPECS["keras"]):
    """Writes ``model.keras`` and ``model.py``."""

    name, norm = "keras", "BatchNormalization"
    file = weights = ARCHIVE

    def lowering(self) -> Lowering:
        from emitters.code.keras import lowering

        return lowering

    def save(self, program: Program, model: Model, folder: Path, request: Request) -> None:
        from emitters.code.keras.archive import write
        from emitters.code.keras.interface import Interface
        from emitters.code.keras.source import source_of
        from emitters.code.paths import identifier

        name = identifier((request.name or "model").lower())
        interface = Interface(name, tuple(model.inputs), tuple(model.outputs))
        text = source_of(program, interface, title_of(request), ARCHIVE)
        (folder / CODE).write_text(text, encoding="utf-8")
        write(folder / ARCHIVE, program, interface)

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The model in Keras, in a process of its own.

        Raises:
            ModelError, DependencyError: It can't be loaded; Keras isn't there.
        """
        from emitters.keras.session import KerasSession

        code = artifact.path.with_name(CODE)
        return KerasSession(artifact.path, code, request, *interface_of(artifact))
