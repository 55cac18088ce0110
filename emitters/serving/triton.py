"""Packages an artifact as a model folder for the Triton Inference Server.

What goes where in the folder is the server's ``docs/user_guide/model_repository.md``; how it is
written is :mod:`emitters.serving.triton_folder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from converter.check.reference import ReferenceOutputs
from converter.errors import InternalError, from_os_error
from converter.ir import Model
from converter.plugins import Announce, Artifact, Packaged
from converter.request import Request
from converter.samples import Samples
from emitters.serving.triton_config import build_config, require_types
from emitters.serving.triton_engine import require_servable
from emitters.serving.triton_folder import Folder
from emitters.serving.triton_repository import no_one, publish_model
from emitters.serving.triton_validate import validate_folder, version_numbers


class TritonServer:
    """Model folders for Triton: configuration, model or engine, labels, warm-up, client."""

    name = "triton"
    extra: str | None = None
    accepts: Sequence[str] = ("tensorrt", "onnx")
    options = ("Serving",)

    def __init__(self) -> None:
        self._reference: ReferenceOutputs | None = None

    def compare_with(self, reference: ReferenceOutputs) -> None:
        """The source's outputs on the samples, for folders whose engine is built later."""
        self._reference = reference

    def package(
        self, artifact: Artifact, model: Model, samples: Samples, request: Request, folder: Path
    ) -> Packaged:
        """Writes ``<folder>/<name>/{config.pbtxt, <version>/model.onnx, ...}`` and reads it back.

        An engine lies in the place of the ONNX file; one that is still to be built has its lock,
        samples and the script that builds it beside the ONNX file.

        The bytes written depend on the arguments alone.

        Raises:
            UsageError: A serving option doesn't fit the model, a sample doesn't fit it, or the
                folder is in the way.
            UnsupportedError: Inputs or outputs that Triton can't take; all of them.
            ModelError: ONNX Runtime refuses the artifact.
            InternalError: What was written doesn't pass :func:`validate_folder`.
            MachineError: The disk is full.
        """
        package = Folder(artifact, model, samples, request, self._reference)
        try:
            path = package.write(folder)
        except OSError as error:
            raise from_os_error(error, "writing the Triton model folder") from error
        problems = validate_folder(path)
        if problems:
            raise InternalError("the Triton model folder is not as it should be", details=problems)
        decisions = list(package.decisions)
        return Packaged(self.name, path, package.details(), decisions, package.later(path))

    def check(self, model: Model, request: Request) -> None:
        """Refuses what can be known before anything is converted.

        Raises:
            UsageError: A serving option is wrong in itself, or contradicts another.
            UnsupportedError: Inputs or outputs that Triton can't take; all of them.
        """
        require_types(model.inputs, model.outputs)
        if "tensorrt" in request.to:
            require_servable(model, request)
        sizes = [size for size in (request.max_batch, *request.preferred_batch) if size is not None]
        build_config("any", (), (), max([8, *sizes]), request)

    def publish(self, packaged: Packaged, repository: Path, announce: Announce = no_one) -> Path:
        """Adds the package to a repository, at its next version; gives the version's folder.

        What was decided on the way is added to ``packaged.decisions``; ``announce`` is told what is
        about to appear.

        Raises:
            UsageError: The repository holds a model of this name that has no configuration or
                another interface, or it can't be written.
            MachineError: The disk is full.
        """
        (version,) = version_numbers(packaged.path)
        path, notes = publish_model(packaged.path, version, repository, announce)
        packaged.decisions += notes
        return path


__all__ = ["TritonServer", "validate_folder"]
