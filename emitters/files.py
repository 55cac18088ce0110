"""What targets have in common that write a few files of their own, packed with what runs them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import Unsupported, from_os_error
from converter.files.digest import file_digest
from converter.ir.contents import Contents
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Emitter

if TYPE_CHECKING:
    from converter.check.shipping import Shipped

Details = Mapping[str, Any]


class FileEmitter(Emitter):
    """A target; ``packing.py`` and ``contents.py`` of its folder have what their names say.

    Attributes:
        file: What the artifact is called.
    """

    texts = False
    lowers = True
    packs = True
    file: str

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """See :meth:`refusals`.

        Raises:
            UsageError: A precision that this target hasn't was asked for.
            DependencyError: What writes the files isn't here.
        """
        for precision in request.precision:
            self.require_precision(precision, request)
        return self.refusals(model, request, simplified)

    @abstractmethod
    def refusals(self, model: Model, request: Request, simplified: bool) -> Sequence[Unsupported]:
        """As :meth:`unsupported`, of precisions that there are.

        Args:
            model: The graph, which isn't changed.
            request: The options.
            simplified: Whether passes have run.
        """

    def emit(
        self, model: Model, folder: Path, precision: str, request: Request, seen: Any = None
    ) -> Artifact:
        """Writes the artifact into ``folder``.

        Returns:
            An artifact whose details are ``bytes``, ``sha256``, and those of :meth:`write`.

        Raises:
            UsageError: The folder can't be written.
            UnsupportedError: A node can't be written.
            ModelError: What writes the files refuses the model.
            MachineError: The disk is full, or a process died.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files, details = self.write(model, folder, precision, request)
        except OSError as error:
            raise from_os_error(error, f"writing {self.file}") from error
        return artifact_of(self.name, precision, folder / self.file, files, details)

    @abstractmethod
    def write(
        self, model: Model, folder: Path, precision: str, request: Request
    ) -> tuple[list[Path], Details]:
        """Writes the files into ``folder``; gives them, and details of the artifact.

        Args:
            model: The graph in the precision that it is written in.
            folder: Where the files go.
            precision: One of the target's ``precisions``.
            request: The options, of which the target reads its own.

        Raises:
            OSError: The folder can't be written.
            ModelyardError: As :meth:`emit`.
        """

    def contents(self, artifact: Artifact, request: Request, sizes: Mapping[str, int]) -> Contents:
        """What the file's operators compute in, and what its weights are stored in."""
        found: Contents = self._part("contents").contents_of(artifact.path)
        return found

    def pack(
        self, artifact: Artifact, model: Model, shipped: Shipped, request: Request
    ) -> Sequence[str]:
        """Writes samples, what the source gave for them, ``selftest.py`` and a README around it.

        Raises:
            OSError: The folder can't be written.
        """
        lines: Sequence[str] = self._part("packing").pack(artifact, model, shipped, request)
        return lines

    def _part(self, name: str) -> Any:
        """A module of the target's folder, imported when it is needed."""
        return import_module(f"{type(self).__module__.rpartition('.')[0]}.{name}")


def artifact_of(
    target: str, precision: str, path: Path, files: Sequence[Path], details: Details
) -> Artifact:
    """An artifact of files that lie beside ``path``, or in it, with their sizes and digests.

    Args:
        target: The target's name.
        precision: The artifact's.
        path: The artifact's file or folder.
        files: All of its files, beside ``path`` or in it.
        details: What else the report says of it.
    """
    own = {
        "bytes": sum(file.stat().st_size for file in files),
        "sha256": {file.relative_to(path.parent).as_posix(): file_digest(file) for file in files},
    }
    return Artifact(target, precision, path, list(files), {**own, **details})
