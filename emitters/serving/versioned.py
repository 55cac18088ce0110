"""What servers of folders with numbered versions share: the package around ``NAME/1/``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from converter.errors import UsageError, from_os_error
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.protocols.server import Evidence, Packaged, Server
from converter.samples import Samples
from emitters.packaging import Device, Package, Readme, Wire
from emitters.serving.python.served import Served, require_servable
from emitters.serving.request import refuse_label, serving


class VersionedServer(Server):
    """A server that reads a configuration and version folders.

    Attributes:
        title: What it is called.
        batches: Whether it joins requests.
        labels: Whether its versions have labels.
    """

    title: str
    batches = labels = False

    def check(self, model: Model, request: Request) -> None:
        """Refuses what can be known before anything is converted.

        Raises:
            UsageError: A serving option is wrong in itself, or contradicts another.
            UnsupportedError: Inputs or outputs of types that it can't take; all of them.
        """
        require_servable(model, serving(request), self.name)
        if not self.labels:
            refuse_label(serving(request), self.title)

    def package(
        self,
        artifact: Artifact,
        model: Model,
        samples: Samples,
        request: Request,
        folder: Path,
        evidence: Evidence | None = None,
    ) -> Packaged:
        """Writes ``<folder>/<name>/``.

        Raises:
            UsageError: A serving option doesn't fit the model, or the folder is in the way.
            ModelError: The runtime refuses the artifact.
            MachineError: The disk is full.
        """
        asked = serving(request)
        if not self.batches:
            asked = replace(asked, max_batch=0, dynamic_batching=False)
        served = Served.of(artifact, model, samples, asked)
        served = replace(served, shipped=evidence.shipped if evidence else None)
        path = folder / served.name
        if path.exists():
            raise UsageError(
                f"{path.name} is in the way: the package folder already holds it",
                code="output-in-the-way",
                hint="Serve one precision at a time, or choose another --name.",
            )
        notes = self.decided(served)
        try:
            self.place(served, path).mkdir(parents=True)
            self.write(served, path, model)
            more = self.more(served, model)
            notes += self._surround(served, path, notes, self.readme(served, model), more)
        except OSError as error:
            raise from_os_error(error, f"writing the {self.name} package") from error
        return Packaged(self.name, path, self.details(served), notes)

    def _surround(
        self,
        served: Served,
        path: Path,
        notes: Sequence[str],
        readme: Readme,
        more: Mapping[str, Any],
    ) -> list[str]:
        """Samples, clients, a self-test and a README; what was decided on them."""
        return Package(
            name=served.name,
            server=self.name,
            title=f"A package for {self.title}",
            target=served.artifact.target,
            precision=served.artifact.precision,
            file=(self.place(served, path) / self.file(served)).relative_to(path).as_posix(),
            inputs=served.inputs,
            outputs=served.outputs,
            shipped=served.shipped,
            request=served.request,
            runs=self.wire(served),
            readme=replace(readme, notes=notes),
            more=more,
        ).write(path)

    def place(self, served: Served, path: Path) -> Path:
        """The folder in the package that the artifact lies in."""
        return path / str(served.request.version)

    @abstractmethod
    def write(self, served: Served, path: Path, model: Model) -> None:
        """Puts the artifact into its folder, and writes the configuration.

        Args:
            served: What is served.
            path: The package's folder; the one for the artifact is made already.
            model: What the artifact was made of.
        """

    @abstractmethod
    def file(self, served: Served) -> str:
        """The artifact in its folder."""

    @abstractmethod
    def wire(self, served: Served) -> Wire | Device:
        """How it is asked, or what runs the artifact where no server is."""

    @abstractmethod
    def readme(self, served: Served, model: Model) -> Readme:
        """What the README says of the server."""

    def more(self, served: Served, model: Model) -> dict[str, Any]:
        """What ``modelyard.json`` says besides."""
        return {}

    def decided(self, served: Served) -> list[str]:
        """What was chosen and why, a line each."""
        return list(served.decisions)

    def details(self, served: Served) -> dict[str, Any]:
        """What the report says of the package."""
        return {"model": served.name, "version": served.request.version}
