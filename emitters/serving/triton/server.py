"""Packages an artifact as a model folder for the Triton Inference Server.

What goes where in the folder is the server's ``docs/user_guide/model_repository.md``; how it is
written is :mod:`emitters.serving.triton.folder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from converter.errors import InternalError, from_os_error
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.protocols.flow import JoinedFlow
from converter.protocols.server import (
    MODELS,
    Announce,
    Command,
    Container,
    Endpoint,
    Environment,
    Evidence,
    Knob,
    Launch,
    Packaged,
    ServedBy,
    Server,
    Turned,
    Value,
)
from converter.samples import Samples
from emitters.serving.request import refuse_label
from emitters.serving.triton import (
    SPECS,
    as_is,
    front,
    front_files,
    running,
    sequences,
    tuning,
    versions,
)
from emitters.serving.triton.as_is_folder import SourceFolder
from emitters.serving.triton.config import (
    CONFIG_NAME,
    build_config,
    require_types,
    version_numbers,
)
from emitters.serving.triton.engine import require_servable
from emitters.serving.triton.flow import write_flow
from emitters.serving.triton.folder import Folder
from emitters.serving.triton.repository import no_one, publish_model, require_publishable
from emitters.serving.triton.request import triton
from emitters.serving.triton.stored import publish_stored, require_stored
from emitters.serving.triton.validate import validate_folder


class TritonServer(Server, spec=SPECS["triton"]):
    """Model folders for Triton: configuration, model or engine, labels, warm-up, client."""

    name = "triton"

    def package(
        self,
        artifact: Artifact,
        model: Model,
        samples: Samples,
        request: Request,
        folder: Path,
        evidence: Evidence | None = None,
    ) -> Packaged:
        """Writes ``<folder>/<name>/{config.pbtxt, <version>/model.onnx, ...}`` and reads it back.

        With ``--prepare server`` that folder is ``<name>_model``, and ``<name>`` beside it takes
        users' files: :mod:`emitters.serving.triton.front`.

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
        asked, known = triton(request), evidence or Evidence()
        files = front.Front.of(asked, known.shipped)
        asked = files.inner if files else asked
        package = (
            SourceFolder(artifact, model, samples, asked, known.shipped)
            if artifact.target in as_is.BACKENDS
            else Folder(
                artifact, model, samples, asked, known.reference, known.shipped, known.source
            )
        )
        try:
            path = package.write(folder)
            written = [path]
            if files is not None:
                written.insert(0, files.write(folder, package, running.image_of(path)))
        except OSError as error:
            raise from_os_error(error, "writing the Triton model folder") from error
        problems = [line for made in written for line in validate_folder(made)]
        if problems:
            raise InternalError("the Triton model folder is not as it should be", details=problems)
        packaged = Packaged(
            self.name,
            *(written[0], package.details(), list(package.decisions), package.later(path)),
        )
        return files.describe(packaged, path) if files else packaged

    def join(self, folder: Path, flow: JoinedFlow) -> Packaged:
        """Writes the model of a flow: see :mod:`emitters.serving.triton.flow`.

        Raises:
            UsageError: A part takes tensors alone, or a part's model has the flow's name.
            InternalError: What was written doesn't pass :func:`validate_folder`.
            MachineError: The disk is full.
        """
        try:
            packaged = write_flow(folder, flow)
        except OSError as error:
            raise from_os_error(error, "writing the Triton model folder") from error
        if problems := validate_folder(packaged.path):
            raise InternalError("the Triton model folder is not as it should be", details=problems)
        return packaged

    def check(self, model: Model, request: Request) -> None:
        """Refuses what can be known before anything is converted.

        Raises:
            UsageError: A serving option is wrong in itself, or contradicts another.
            UnsupportedError: Inputs or outputs that Triton can't take; all of them.
        """
        require_types(model.inputs, model.outputs)
        asked = triton(request)
        refuse_label(asked, "Triton")
        sequences.require(model, asked)
        front.require(asked)
        if "tensorrt" in asked.to:
            require_servable(model, asked)
        for target in set(as_is.BACKENDS).intersection(asked.to):
            if target == self._served(asked):
                as_is.require_servable(model, target, asked)
        sizes = [size for size in (asked.max_batch, *asked.preferred_batch) if size is not None]
        build_config("any", (), (), max([8, *sizes]), asked)

    def _served(self, request: Request) -> str:
        """The target whose float32 artifact is packaged."""
        return next(target for target in self.accepts if target in request.to)

    def publish(
        self, packaged: Packaged, repository: Path | str, announce: Announce = no_one
    ) -> PurePath:
        """Adds the package to a repository, at its next version; gives the version's folder.

        What was decided on the way is added to ``packaged.decisions``; ``announce`` is told what is
        about to appear.

        Raises:
            UsageError: The repository holds a model of this name that has no configuration or
                another interface, or it can't be written.
            MachineError: The disk is full, or a store can't be reached.
        """
        (version,) = version_numbers(packaged.path)
        if isinstance(repository, Path):
            require_publishable(packaged.path, repository)
        else:
            require_stored(packaged.path, repository)
        path = PurePath()
        for model in (*front_files.behind(packaged.path), packaged.path):
            # who is asked is there first
            if isinstance(repository, Path):
                path, notes = publish_model(model, version, repository, announce)
            else:
                path, notes = publish_stored(model, version, repository, announce)
            packaged.decisions += notes
        return path

    def versions(self, folder: Path) -> Sequence[int]:
        """By the folders' names."""
        return version_numbers(folder)

    def served(self, folder: Path) -> Sequence[int]:
        """See :func:`emitters.serving.triton.versions.served`."""
        return versions.served(folder)

    def serving(self, folder: Path, version: int | None) -> tuple[str, str]:
        """See :func:`emitters.serving.triton.versions.serving`."""
        return CONFIG_NAME, versions.serving(folder, version)

    def holds(self, folder: Path) -> bool:
        """Whether there is a configuration, and a version."""
        return (folder / CONFIG_NAME).is_file() and bool(version_numbers(folder))

    def calls(self, folder: Path) -> Sequence[Path]:
        """The model behind one that takes users' files."""
        return front_files.calls(folder)

    def environment(self, folder: Path) -> Environment:
        """See :func:`emitters.serving.triton.running.environment`."""
        return running.environment(folder)

    def command(self, launch: Launch) -> Command:
        """See :func:`emitters.serving.triton.running.command`."""
        return running.command(launch)

    def container(self, folder: Path) -> Container | None:
        """See :func:`emitters.serving.triton.running.container`."""
        return running.container(folder)

    def deployed(self, folder: Path, root: str = MODELS) -> ServedBy:
        """See :func:`emitters.serving.triton.running.deployed`."""
        return running.deployed(folder, root, self.ports)

    def contained(self, launch: Launch) -> Sequence[str]:
        """See :func:`emitters.serving.triton.running.contained`."""
        return running.contained(launch)

    def ready(self, launch: Launch) -> bool:
        """Whether the model is loaded and warm."""
        return running.ready(launch)

    def endpoints(self, folder: Path) -> Sequence[Endpoint]:
        """Over gRPC, and over HTTP."""
        return running.endpoints(folder)

    def files_at(self, folder: Path) -> Endpoint | None:
        """Of the model in front, whose only input is the body."""
        return running.files_at(folder)

    def knobs(self, folder: Path) -> Sequence[Knob]:
        """See :func:`emitters.serving.triton.tuning.knobs`."""
        return tuning.knobs(folder)

    def turned(self, folder: Path, values: Mapping[str, Value]) -> Turned:
        """See :func:`emitters.serving.triton.tuning.turned`."""
        return tuning.turned(folder, values)


__all__ = ["TritonServer", "validate_folder"]
