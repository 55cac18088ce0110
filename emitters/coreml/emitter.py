"""The Core ML target: an ML Program as an ``.mlpackage``, read back and run to check it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from converter.coreml_file import coremltools, is_package
from converter.digest import file_digest
from converter.errors import Unsupported, UnsupportedError, UsageError, from_os_error
from converter.ir import Model
from converter.plugins import Artifact, Session
from converter.request import Request
from emitters.coreml.lowering import Lowered, lower, unsupported_operators
from emitters.coreml.package import convert, write
from emitters.coreml.session import open_package
from emitters.coreml.sizes import input_types

FILE_NAME = "model.mlpackage"
TARGET = 17
"""The oldest system that packages are for where nothing else is asked for."""


class CoremlEmitter:
    """Writes ``model.mlpackage``."""

    name = "coreml"
    extra: str | None = "coreml"
    scheme = "coreml-w8a8"

    def unsupported(
        self, model: Model, request: Request, *, simplified: bool = True
    ) -> Sequence[Unsupported]:
        """Every input, output and node that can't be lowered, and why.

        Before simplifying, what depends on shapes isn't known yet: then only operators that have
        no lowering at all are listed.

        Raises:
            UsageError: bf16 was asked for.
            DependencyError: coremltools isn't there.
        """
        if "bf16" in request.precision:
            raise UsageError(
                "coreml has no bf16: Core ML computes in fp16 and fp32", hint="Use fp16."
            )
        coremltools()
        if not simplified:
            return unsupported_operators(model.graph)
        return lower(model, TARGET).refusals

    def emit(self, model: Model, folder: Path, precision: str, request: Request) -> Artifact:
        """Writes ``<folder>/model.mlpackage``.

        Returns:
            An artifact whose ``path`` is the package's folder, and whose details are ``bytes``,
            ``sha256`` of its files by their place in it, ``operations``, ``target``.

        Raises:
            UsageError: The folder can't be written.
            UnsupportedError: A node can't be lowered.
            MachineError: The disk is full.
        """
        lowered = lower(model, TARGET)
        if lowered.refusals:
            raise UnsupportedError(
                f"coreml can't take {len(lowered.refusals)} things of this model", lowered.refusals
            )
        path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write(convert(lowered, TARGET, input_types(lowered.inputs)), lowered, path, {})
        except OSError as error:
            raise from_os_error(error, f"writing {FILE_NAME}") from error
        files = sorted(file for file in path.rglob("*") if file.is_file())
        details = {
            "bytes": sum(file.stat().st_size for file in files),
            "sha256": {file.relative_to(folder).as_posix(): file_digest(file) for file in files},
            "target": f"iOS{TARGET}",
            "decisions": _decisions(lowered),
        }
        return Artifact(self.name, precision, path, [path, *files], details)

    def sniff(self, path: Path) -> bool:
        """Whether it is a package, by its manifest."""
        return is_package(path)

    def open(self, artifact: Artifact, request: Request, *, frugal: bool = False) -> Session:
        """The package, read back from disk.

        Raises:
            ModelError: It can't be read.
        """
        return open_package(artifact.path, request, frugal=frugal)


def _decisions(lowered: Lowered) -> list[str]:
    return [told for port in (*lowered.inputs, *lowered.outputs) if (told := port.told())]
