"""The Keras target: ``model.py`` and ``model.keras``, run by Keras in its own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import Unsupported, UnsupportedError, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.session import Session
from emitters.code.request import code as code_request
from emitters.keras.spec import SPECS
from emitters.opened import INTERFACE, packaged, plain, specs_of

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from emitters.code.keras.lowering import Legalize

CODE = "model.py"
ARCHIVE = "model.keras"


class KerasEmitter(Emitter, spec=SPECS["keras"]):
    """Writes ``model.py`` and ``model.keras``."""

    name = "keras"
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
        from emitters.code.keras.lowering import lower, unsupported_operators

        for precision in request.precision:
            self.require_precision(precision, request)
        if not simplified:
            return unsupported_operators(model.graph)
        return lower(model).refusals

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> Legalize:
        """Brings a model to what there is code for."""
        from emitters.code.keras.lowering import Legalize

        return Legalize()

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes ``<folder>/model.keras`` and ``<folder>/model.py``.

        Returns:
            An artifact whose details are ``bytes``, ``sha256``, ``classes`` and ``parameters``.

        Raises:
            UsageError: The folder can't be written.
            UnsupportedError: A node can't be written.
            MachineError: The disk is full.
        """
        from emitters.code.keras.archive import write
        from emitters.code.keras.interface import Interface
        from emitters.code.keras.lowering import lower
        from emitters.code.keras.source import source_of
        from emitters.code.paths import identifier

        program = lower(model)
        if program.refusals:
            count = len(program.refusals)
            raise UnsupportedError(
                f"keras can't take {count} nodes of this model", program.refusals
            )
        code, archive = folder / CODE, folder / ARCHIVE
        name = identifier((request.name or "model").lower())
        interface = Interface(name, tuple(model.inputs), tuple(model.outputs))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = source_of(program, interface, _title(request), ARCHIVE)
            code.write_text(text, encoding="utf-8")
            write(archive, program, interface)
        except OSError as error:
            raise from_os_error(error, f"writing {CODE}") from error
        trains = code_request(request).trainable
        told = "BatchNormalization and Dropout are layers, for training (--trainable)"
        kept = [told] if trains else []
        if program.tied:
            kept.append(f"{len(program.tied)} tensors that modules share are stored for each")
        details: dict[str, Any] = {
            "bytes": code.stat().st_size + archive.stat().st_size,
            "sha256": {path.name: file_digest(path) for path in (code, archive)},
            "classes": len(program.classes),
            "decisions": [f"{CODE}: {len(program.classes)} classes, {_lines(code)} lines", *kept],
            INTERFACE: {"inputs": plain(model.inputs), "outputs": plain(model.outputs)},
        }
        return Artifact(self.name, precision, archive, [archive, code], details)

    def sniff(self, path: Path) -> bool:
        """Never: the parser of Keras' files reads them."""
        return False

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The model in Keras, in a process of its own.

        Raises:
            ModelError, DependencyError: It can't be loaded; Keras isn't there.
        """
        from emitters.keras.session import KerasSession

        told = artifact.details.get(INTERFACE) or packaged(artifact.path)
        inputs, outputs = (specs_of(told[side]) for side in ("inputs", "outputs"))
        code = artifact.path.with_name(CODE)
        return KerasSession(artifact.path, code, request, inputs, outputs)

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the weights are stored in, and so what the layers that have them compute in."""
        from emitters.keras.contents import contents_of

        return contents_of(artifact.path)

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``selftest.py`` and a README around it.

        Raises:
            OSError: The folder can't be written.
        """
        from emitters.keras.packing import pack

        return pack(artifact, model, shipped, request)


def _title(request: Request) -> str:
    return f"{request.name or 'A model'}, written by Modelyard."


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")
