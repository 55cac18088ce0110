"""What targets have in common that write code: ``model.py``, and its weights in a file of their
own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from converter.errors import Unsupported, UnsupportedError
from converter.ir.model import Model
from converter.options.request import Request
from emitters.code.request import code as code_request
from emitters.files import Details, FileEmitter
from emitters.opened import interface

if TYPE_CHECKING:
    from converter.passes.legalize.chain import LegalizingPass
    from emitters.code.program import Program
    from emitters.code.table import Table

CODE = "model.py"


class Lowering(Protocol):
    """A framework's module of that name."""

    @property
    def TABLE(self) -> Table:
        """Its operators."""

    @property
    def Legalize(self) -> type[LegalizingPass]:
        """Brings a model to these."""

    def lower(self, model: Model) -> Program:
        """The model as code."""


class CodeEmitter(FileEmitter):
    """Writes ``model.py`` and :attr:`weights`.

    Attributes:
        weights: What the file of weights is called.
        norm: What the framework calls a BatchNormalization.
    """

    weights: str
    norm: str

    @abstractmethod
    def lowering(self) -> Lowering:
        """The framework's, imported when it is needed."""

    @abstractmethod
    def save(self, program: Program, model: Model, folder: Path, request: Request) -> None:
        """Writes both files; raises OSError.

        Args:
            program: What ``model.py`` does.
            model: The graph that it was made of.
            folder: Where both files go.
            request: The options.
        """

    def refusals(self, model: Model, request: Request, simplified: bool) -> Sequence[Unsupported]:
        """Every node that can't be written, and why."""
        if not simplified:
            return self.lowering().TABLE.unsupported(model.graph)
        return self.lowering().lower(model).refusals

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> LegalizingPass:
        """Brings a model to what there is code for."""
        return self.lowering().Legalize()

    def write(
        self, model: Model, folder: Path, precision: str, request: Request
    ) -> tuple[list[Path], Details]:
        """Gives the number of ``classes`` too."""
        program = self.lowering().lower(model)
        if items := program.refusals:
            raise UnsupportedError(
                f"{self.name} can't take {len(items)} nodes of this model", items
            )
        self.save(program, model, folder, request)
        lines = (folder / CODE).read_text(encoding="utf-8").count("\n")
        decisions = [f"{CODE}: {len(program.classes)} classes, {lines} lines"]
        if code_request(request).trainable:
            decisions.append(f"{self.norm} and Dropout are layers, for training (--trainable)")
        if program.tied and self.file != CODE:
            decisions.append(f"{len(program.tied)} tensors that modules share are stored for each")
        files = dict.fromkeys((self.file, CODE, self.weights))
        details = {"classes": len(program.classes), "decisions": decisions, **interface(model)}
        return [folder / name for name in files], details

    def sniff(self, path: Path) -> bool:
        """Never: a parser of the framework's reads such files."""
        return False


def title_of(request: Request) -> str:
    """The first line of the code."""
    return f"{request.name or 'A model'}, written by Modelyard."
