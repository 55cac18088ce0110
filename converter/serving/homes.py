"""Where a package's server runs: in an environment of its own, or in its own container."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from converter.errors import DependencyError, UsageError
from converter.protocols.server import Command, Container, Environment, Launch, Server
from converter.runtime.session import Progress
from converter.serving import containers, environments


@dataclass(frozen=True)
class Download:
    """What has to be fetched once.

    Attributes:
        what: ``the environment of NAME``.
        size: ``about 95 MB``.
        items: Requirements of pip's, or an image.
    """

    what: str
    size: str
    items: Sequence[str]


Agree = Callable[[Download], bool]
"""Asked once before something is downloaded."""


class Home(ABC):
    """Where a server runs."""

    def require(self, offline: bool, agree: Agree) -> None:
        """Raises DependencyError where it isn't there, and may not be fetched."""
        missing = self._missing()
        if missing is None:
            return
        size = f"{missing.size}: {', '.join(missing.items)}"
        if offline:
            raise DependencyError(
                f"{missing.what} isn't here, and --offline forbids a download",
                code="offline",
                hint=f"Without --offline, Modelyard downloads it once ({size}).",
            )
        if not agree(missing):
            raise DependencyError(
                f"{missing.what} isn't here",
                code="offline",
                hint=f"With --yes, Modelyard downloads it once ({size}).",
            )

    @abstractmethod
    def _missing(self) -> Download | None:
        """What isn't there yet."""

    @abstractmethod
    def set_up(self, state: Progress) -> Path:
        """Fetches what is missing; :attr:`Launch.environment`."""

    @abstractmethod
    def command(self, launch: Launch) -> Command:
        """What starts the server."""


class InEnvironment(Home):
    """A server of Python packages."""

    def __init__(self, server: Server, environment: Environment) -> None:
        self._server, self._environment = server, environment
        environments.require_programs(self._environment)

    def _missing(self) -> Download | None:
        wanted = self._environment
        if environments.is_there(wanted):
            return None
        size = f"about {wanted.megabytes} MB"
        return Download(f"the environment of {wanted.name}", size, wanted.requirements)

    def set_up(self, state: Progress) -> Path:
        """A virtual environment in the cache."""
        return environments.set_up(self._environment, state)

    def command(self, launch: Launch) -> Command:
        """As the plug-in has it."""
        return self._server.command(launch)


class InContainer(Home):
    """A server in the image that its makers publish."""

    def __init__(self, server: Server, container: Container) -> None:
        self._server, self._container = server, container
        self._tool = containers.require_program()

    def _missing(self) -> Download | None:
        image = self._container.image
        if containers.is_there(self._tool, image):
            return None
        return Download(f"the container of {self._server.name}", "several GB", [image])

    def set_up(self, state: Progress) -> Path:
        """The image, pulled; there is no environment, so that its folder is nowhere."""
        if self._missing():
            containers.pull(self._tool, self._container.image, state)
        return Path(os.devnull)

    def command(self, launch: Launch) -> Command:
        """The server in it, on this machine's network."""
        line = self._server.contained(launch)
        return containers.command(self._tool, self._container, launch.folder, line)


def choose(server: Server, folder: Path, container: bool, image: str | None) -> Home:
    """Where a package's server runs: an environment, or a container where one is asked for or
    where only that can run it.

    Args:
        server: The plug-in of the package's server.
        folder: The package.
        container: Whether a container is asked for.
        image: The image to take; None for the server's own.

    Raises:
        UsageError: No container runs the package, or it isn't known which one.
        DependencyError: What it needs isn't on this machine.
    """
    own, environment = server.container(folder), server.environment(folder)
    if environment is not None and not container and image is None:
        try:
            return InEnvironment(server, environment)
        except DependencyError:
            if own is None or not containers.program():
                raise
    if own is None:
        raise UsageError(
            f"no container of {server.name} can run {folder.name} unchanged",
            code="server-cannot-serve",
        )
    own = replace(own, image=image or own.image)
    if not own.image:
        raise UsageError(
            f"Modelyard doesn't know which container of {server.name} runs {folder.name}",
            code="option-missing",
            hint="Name it with --image. The package's README.md says what the image needs.",
        )
    return InContainer(server, own)
