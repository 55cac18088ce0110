"""Servers in their own containers, by docker or podman, where one of them works.

The container is on the machine's network, so that it listens where it is told to and nowhere else
(docker's ``--publish`` goes past a firewall's rules), and the package is mounted read-only. It is
removed with the command that runs it.
"""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from converter.errors import DependencyError
from converter.protocols.server import Command, Container
from converter.runtime.session import Progress

PROGRAMS = {"docker": ("--gpus", "all"), "podman": ("--device", "nvidia.com/gpu=all")}
"""In the order in which they are tried, with what gives a container the GPUs: docker's by NVIDIA's
container toolkit, podman's by the Container Device Interface."""

_ANSWER_SECONDS = 20.0


def program() -> str | None:
    """The one that works: docker's command is often there without its service."""
    return next((name for name in PROGRAMS if shutil.which(name) and _works(name)), None)


def require_program() -> str:
    """The one that works.

    Raises:
        DependencyError: None does.
    """
    found = program()
    if found is None:
        raise DependencyError(
            "neither docker nor podman works here",
            code="package-missing",
            hint="Install one of them and start its service. `docker info` has to work.",
        )
    return found


def is_there(tool: str, image: str) -> bool:
    """Whether an image has been pulled."""
    return done([tool, "image", "inspect", image]).returncode == 0


def pull(tool: str, image: str, progress: Progress) -> None:
    """Fetches an image.

    Args:
        tool: ``docker`` or ``podman``.
        image: The image's name, with its tag.
        progress: Called before it starts.

    Raises:
        DependencyError: It couldn't be; the tool's last lines are in the details.
    """
    progress(f"pulling {image}")
    ran = done([tool, "pull", image], seconds=None)
    if ran.returncode:
        raise DependencyError(
            f"{tool} couldn't pull {image}", code="download-failed", details=last_lines(ran)
        )


def command(tool: str, container: Container, package: Path, line: Sequence[str]) -> Command:
    """What runs a command line in a container, with the package in it.

    Args:
        tool: ``docker`` or ``podman``.
        container: The image, and where the package goes in it.
        package: The package's folder, mounted read-only.
        line: The command line in the container.
    """
    name = f"modelyard-{uuid.uuid4().hex[:16]}"
    run = [tool, "run", "--rm", "--name", name, "--network", "host"]
    run += ["--volume", f"{package.resolve()}:{container.folder}:ro"]
    for folder in container.beside:
        place = Path(container.folder).with_name(folder.name)
        run += ["--volume", f"{folder.resolve()}:{place}:ro"]
    run += PROGRAMS[tool] if container.gpus else ()
    # Where the command is killed, the container would go on.
    return Command([*run, container.image, *line], after=[tool, "rm", "--force", name])


def _works(tool: str) -> bool:
    return done([tool, "info"], _ANSWER_SECONDS).returncode == 0


def done(
    line: Sequence[str], seconds: float | None = _ANSWER_SECONDS
) -> subprocess.CompletedProcess[str]:
    """A command of the tool's, run to its end; it failed where it took longer than ``seconds``."""
    try:
        return subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(line, 1, "", f"no answer in {seconds:.0f} s")


def last_lines(ran: subprocess.CompletedProcess[str], count: int = 8) -> list[str]:
    """The last lines of what a command said is wrong; of what it said at all, where that is
    nothing."""
    lines = (ran.stderr.strip() or ran.stdout).splitlines()
    return [line for line in lines if line.strip()][-count:]
