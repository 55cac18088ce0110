"""What puts a package where it runs: one plug-in of the group ``modelyard.deployments``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from converter.protocols.spec import DeploymentSpec, apply

if TYPE_CHECKING:
    from converter.options.request import Request
    from converter.protocols.server import ServedBy

STEPS = ("schema", "build", "run", "answer")
"""What can be tried of a deployment, in order."""


@dataclass(frozen=True)
class Deployable:
    """A package to deploy.

    Attributes:
        name: The model's name, as the server has it.
        server: The server's name.
        served: What the server says of the package.
        package: Its folder.
        beside: Folders beside it that it asks.
        flow: Whether it joins the models of several parts.
        root: The output's folder, which the package lies in.
        memory: Bytes that the artifact's process took at most; None where nothing was measured.
        request: What was asked for.
    """

    name: str
    server: str
    served: ServedBy
    package: Path
    beside: Sequence[Path]
    flow: bool
    root: Path
    memory: int | None
    request: Request


@dataclass(frozen=True)
class Deployed:
    """A deployment, not written yet.

    Attributes:
        files: Texts by their paths in its folder.
        lines: What deploys it, typed in the output's folder, ``{here}`` being the deployment's.
        checks: What happened of :data:`STEPS`, and why the others didn't.
        decisions: What was chosen and why, a line each.
    """

    files: Mapping[str, str]
    lines: Sequence[str]
    checks: Mapping[str, str]
    decisions: Sequence[str] = field(default_factory=list)


class Deployment(ABC):
    """A place where packages run: a class that extends this.

    Attributes:
        name: As ``--deploy`` has it.
        options: As an :class:`Emitter`'s.
    """

    name: str
    options: Sequence[str] = ()

    def __init_subclass__(cls, spec: DeploymentSpec | None = None) -> None:
        if spec is not None:
            apply(spec, cls)

    @abstractmethod
    def check(self, name: str, request: Request) -> None:
        """Refuses what can be known to be wrong before anything is converted.

        Args:
            name: The name that the served model gets.
            request: What is asked for.

        Raises:
            UsageError: An option is wrong, or the name can't be one there.
        """

    def require(self, request: Request) -> None:  # noqa: B027 - most need nothing
        """Refuses what can't be done on this machine, before the source is read.

        Raises:
            DependencyError: Something that it needs isn't here.
        """

    @abstractmethod
    def deploy(self, package: Deployable) -> Deployed:
        """The files of one package's deployment, held to what can be checked here.

        Raises:
            UsageError: What was asked contradicts what was measured.
            InternalError: The files aren't as they should be.
        """

    def attempt(self, package: Deployable, place: Path) -> Mapping[str, str]:
        """Tries what was written, where that was asked for.

        Args:
            package: The package, with its README's last lines.
            place: The folder with the texts of :meth:`deploy`.

        Returns:
            What happened of :data:`STEPS`, in place of :attr:`Deployed.checks`.

        Raises:
            ModelyardError: It can't be built, doesn't run, or answers otherwise than it should.
        """
        return {}
