"""The source's file as it is, for servers that have its framework: TorchScript, SavedModel.

Nothing is optimized, and nothing brought to another precision: what is written has the source's
bytes. (A SavedModel of any other source is written anew: :mod:`emitters.as_is.saved_model`.) It is
opened again from its new place, in a process of its own, by the parser of such files,
and checked like any artifact.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.errors import InternalError, Unsupported, UsageError, from_os_error
from converter.files.digest import file_digest
from converter.files.links import refuse_links_out
from converter.files.regular import require_regular_inside
from converter.ir.contents import Contents
from converter.ir.model import LAYOUT_CHANGES, Model
from converter.options.request import Request, affecting, option_of
from converter.protocols.emitter import Artifact, Emitter
from converter.protocols.parser import Parser
from converter.runtime.session import Session
from emitters.as_is.contents import contents_of
from emitters.as_is.saved_model import WRITTEN, code, write
from emitters.as_is.spec import SPECS
from emitters.files import artifact_of
from emitters.opened import INTERFACE, Opened, interface

if TYPE_CHECKING:
    from converter.check.shipping import Shipped
    from converter.passes.legalize.chain import LegalizingPass


class SourceFile(Emitter):
    """Writes the source's own file.

    Attributes:
        kind: As ``file.kind`` in the facts of a source's Model has it.
        called: What such a source is, for messages.
        reads: The parser of such files.
        file: What the file or folder is called here.
    """

    kind: str
    called: str
    reads: str
    file: str
    half_io = False

    def require_precision(self, precision: str, request: Request) -> None:
        """Raises UsageError for all but fp32, which stands for what the source computes in."""
        if precision not in self.precisions:
            raise UsageError(
                f"{self.name} has no {precision}: it writes the source's file unchanged, "
                "with the precision of the file",
                code="precision-unavailable",
                hint="Leave --precision out, or ask for --to onnx.",
            )

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """What of the interface isn't the file's own.

        Raises:
            UsageError: The source is no such file, or an option asks for another model than it is.
            ModelError: Files of elsewhere would be copied.
        """
        self._require_kind(model, request)
        refuse_links_out(self._source(request), copied=True)
        own = affecting("parse")
        refused = {
            "--layout": model.source.get(LAYOUT_CHANGES),
            **{
                option_of(n).flags[0]: value
                for n, value in request.plugin_options.items()
                if n in own
            },
            "--io-dtype": request.io_dtype != "float32",
        }
        for option, given in refused.items():
            if given:
                raise UsageError(
                    f"{option} changes the model, but --to {self.name} writes "
                    f"{_base(request)} unchanged",
                    code="option-not-applicable",
                    hint=f"Leave {option} out, or ask for --to onnx.",
                )
        return [*self._left_out(model), *self._renamed(model)]

    def _require_kind(self, model: Model, request: Request) -> None:
        if model.source.get("file", {}).get("kind") != self.kind:
            raise UsageError(
                f"--to {self.name} writes the source unchanged, and {_base(request)} isn't a "
                f"{self.called}",
                code="option-not-applicable",
                hint="Ask for --to onnx.",
            )

    def _left_out(self, model: Model) -> Iterator[Unsupported]:
        """Inputs of the file that the model hasn't any more."""
        file = model.source["file"]
        known = {spec.name for spec in model.inputs}
        for name in file.get("arguments", file.get("inputs", ())):
            if name not in known:
                why = "the file takes it, and here it is fixed"
                yield Unsupported(name, "input", why, "leave --fix out, or ask for --to onnx")

    def _renamed(self, model: Model) -> Sequence[Unsupported]:
        """Inputs and outputs that the file has under other names, where names are its own."""
        return ()

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes the copy.

        Returns:
            An artifact whose details are ``bytes``, ``sha256`` of each file, and the interface.

        Raises:
            UsageError: The folder can't be written.
            ModelError: Files of elsewhere would be copied.
            MachineError: The disk is full.
            InternalError: The copy has other bytes than the source.
        """
        source, path = self._source(request), folder / self.file
        refuse_links_out(source, copied=True)
        require_regular_inside(source)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, path, copy_function=shutil.copyfile)
            else:
                shutil.copyfile(source, path)
        except (OSError, shutil.Error) as error:
            known = error if not isinstance(error, shutil.Error) else OSError(str(error))
            raise from_os_error(known, f"copying {_base(request)}") from error
        if file_digest(source) != file_digest(path):
            raise InternalError(f"the copy of {_base(request)} isn't the same")
        files = sorted(file for file in path.rglob("*") if file.is_file())
        found = files if path.is_dir() else [path]
        told = [f"{self.file} is {_base(request)} as it is: the same bytes"]
        return artifact_of(
            self.name, precision, path, found, {"decisions": told, **interface(model)}
        )

    def _source(self, request: Request) -> Path:
        return Path(request.source)

    def sniff(self, path: Path) -> bool:
        """Never: a parser reads these files."""
        return False

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """Nothing is counted: whatever is in it is the source's."""
        return Contents(artifact.path.name, (), {}, "it is the source's own file")

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The copy in its framework, in a process of its own.

        Raises:
            UsageError, ModelError, DependencyError: As its parser.
        """
        parser: Parser = plugins.load("parsers", self.reads)
        asked = replace(request, source=str(artifact.path))
        return Opened(parser, asked, artifact.details.get(INTERFACE))


class TorchScriptEmitter(SourceFile, spec=SPECS["torchscript"]):
    """``model.pt``: a TorchScript file."""

    name = "torchscript"
    kind = "torchscript"
    called = "TorchScript file"
    reads = "pytorch"
    file = "model.pt"


class SavedModelEmitter(SourceFile, spec=SPECS["savedmodel"]):
    """``model.savedmodel``: a folder of TensorFlow's, the source's own where that is one."""

    name = "savedmodel"
    kind = "saved_model"
    called = "SavedModel"
    reads = "tensorflow"
    file = "model.savedmodel"
    packs = True

    def require_precision(self, precision: str, request: Request) -> None:
        """See :meth:`converter.protocols.emitter.Emitter.require_precision`."""
        Emitter.require_precision(self, precision, request)

    def _is_copied(self, model: Model, precision: str) -> bool:
        """Whether the source's own bytes are an artifact."""
        return precision == "fp32" and model.source.get("file", {}).get("kind") == self.kind

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """What of the interface isn't the file's own; of a model that is written anew, every node
        that can't be.

        Raises:
            UsageError: A precision that it hasn't, or an option asks for another model than the
                file.
            ModelError: Files of elsewhere would be copied.
        """
        found: list[Unsupported] = []
        copied = {precision: self._is_copied(model, precision) for precision in request.precision}
        if any(copied.values()):
            found += super().unsupported(model, request, simplified=simplified)
        if not all(copied.values()):
            found += code().unsupported(model, request, simplified=simplified)
        return found

    def legalizing(self, model: Model, request: Request, seen: Any = None) -> LegalizingPass | None:
        """Brings a model to what there is code for."""
        if all(self._is_copied(model, precision) for precision in request.precision):
            return None
        return code().legalizing(model, request, seen)

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes the copy, or traces the model.

        Returns:
            As :meth:`SourceFile.emit`; of a traced one, its ``signature`` too.

        Raises:
            UsageError: The folder can't be written.
            UnsupportedError: A node can't be written.
            ModelError: Files of elsewhere would be copied.
            DependencyError: TensorFlow isn't installed.
            MachineError: The disk is full.
        """
        if self._is_copied(model, precision):
            return super().emit(model, folder, precision, request, seen)
        return write(model, folder / self.file, precision, request)

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """Counted in ``saved_model.pb``, where it is none of the source's."""
        if WRITTEN not in artifact.details:
            return super().contents(artifact, request, sizes)
        return contents_of(artifact.path)

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``usage.py``, ``selftest.py`` and a README
        around it.

        Raises:
            OSError: The folder can't be written.
        """
        from emitters.as_is.packing import pack

        return pack(artifact, model, shipped, request)

    def _source(self, request: Request) -> Path:
        """The folder, of which a file in it may be what was named."""
        path = Path(request.source)
        return path if path.is_dir() else path.parent

    def _renamed(self, model: Model) -> Sequence[Unsupported]:
        """All that aren't the signature's."""
        known = model.source["file"]
        both = (("inputs", model.inputs), ("outputs", model.outputs))
        return [
            Unsupported(
                spec.name,
                side[:-1],
                f"the signature's {side} are {', '.join(known[side])}",
                "leave the name out: the file is written unchanged, with its own names",
            )
            for side, specs in both
            for spec in specs
            if spec.name not in known[side]
        ]


def _base(request: Request) -> str:
    return Path(request.source).name
