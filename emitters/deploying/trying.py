"""A package's image, built, started and asked by docker or podman.

The container is as closed as a pod, and has no network: what asks it runs inside. Afterwards the
container and the image go; the builder keeps its layers, so that the same build is quick.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from converter.errors import DependencyError, GateError
from converter.protocols.deployment import Deployable
from converter.serving import containers
from emitters.deploying.docker import base_of, health
from emitters.deploying.pods import GRACE, memory_of

FORMAT = {"docker": (), "podman": ("--format", "docker")}
"""podman's own format has no health checks."""

CLOSED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt",
          "no-new-privileges", "--shm-size", "256m", "--network", "none")  # fmt: skip

_LAYERS = {"pip install": "requirements", "apt-get install": "system", "COPY": "package"}
"""What a layer is, by what made it."""

_UNITS = {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3}

READY_SECONDS = 300.0
"""As pods have for their start."""

PIP = "PIP_CONFIG_FILE"
"""pip's own variable: the file that it names is the build's, too, as a secret."""


def require_tool(base: str | None) -> None:
    """Refuses what can be known before anything is read.

    Raises:
        DependencyError: There is no tool, or it can't get the base.
    """
    tool = containers.require_program()
    if base is not None and not containers.is_there(tool, base):
        containers.pull(tool, base, lambda text: None)


def tried(package: Deployable, place: Path) -> dict[str, str]:
    """Builds the image of ``place/Dockerfile``, starts it, asks it, and ends it.

    Returns:
        What happened of build, run and answer.

    Raises:
        DependencyError: It can't be built, or doesn't run here; the last lines that were said.
        GateError: It answers otherwise than the source.
    """
    name = f"modelyard-{uuid.uuid4().hex[:16]}"
    trial = _Trial(package, containers.require_program(), name)
    try:
        return dict(zip(("build", "run", "answer"), trial.steps(place), strict=True))
    finally:
        containers.done([trial.tool, "kill", name])  # which has ended, unless something failed
        containers.done([trial.tool, "rm", "--force", name])
        containers.done([trial.tool, "rmi", "--no-prune", trial.image])


@dataclass(frozen=True)
class _Trial:
    package: Deployable
    tool: str
    name: str

    @property
    def image(self) -> str:
        return f"localhost/{self.name}:1"

    def steps(self, place: Path) -> Iterator[str]:
        """What is said of each."""
        yield self.build(place)
        started = self.start()
        answered = self.answer()
        yield f"{started}; {self.end()}"
        yield answered

    def build(self, place: Path) -> str:
        """The image, with the network of this machine."""
        base = base_of(self.package)
        if not containers.is_there(self.tool, base):
            containers.pull(self.tool, base, lambda text: None)
        line = [self.tool, "build", *FORMAT[self.tool], "--network", "host", "--tag", self.image]
        if config := os.environ.get(PIP):
            line += ["--secret", f"id=pip,src={config}"]
        line += ["--file", str(place / "Dockerfile"), str(self.package.package.parent)]
        self._done(line, f"couldn't build the image of {self.package.name}", None)
        whole, own = self._size(self.image), self._size(base)
        parts = ", ".join(f"{name} {size:.1f}" for name, size in self._layers(base).items())
        return (
            f"yes: {self._version()}, {whole / 1e6:.0f} MB, of which {(whole - own) / 1e6:.0f} lie "
            f"over {base} (MB: {parts})"
        )

    def _version(self) -> str:
        return self._done([self.tool, "--version"], "doesn't say its version").strip()

    def _size(self, image: str) -> int:
        line = [self.tool, "image", "inspect", "--format", "{{.Size}}", image]
        return int(self._done(line, f"doesn't say the size of {image}"))

    def _layers(self, base: str) -> dict[str, float]:
        """MB of the layers over the base, by what they are."""
        lines, below = self._history(self.image), self._history(base)
        found: dict[str, float] = {}
        for layer in lines[: len(lines) - len(below)]:  # the newest first
            size, _, made = layer.partition("\t")
            kind = next((name for mark, name in _LAYERS.items() if mark in made), "")
            match = re.fullmatch(r"([\d.]+) ?([kMG]?)B", size)
            if kind and match is not None:
                found[kind] = found.get(kind, 0.0) + float(match[1]) * _UNITS[match[2]]
        return found

    def _history(self, image: str) -> list[str]:
        line = [self.tool, "history", "--no-trunc", "--format", "{{.Size}}\t{{.CreatedBy}}", image]
        return self._done(line, f"doesn't say the layers of {image}").splitlines()

    def start(self) -> str:
        """The container, until its own health check passes; its probes' paths are asked, too."""
        served = self.package.served
        gpus = containers.PROGRAMS[self.tool] if served.gpu else ()
        memory = f"{memory_of(self.package)[1]}m"
        line = [self.tool, "run", "--detach", "--name", self.name, *CLOSED, "--memory", memory]
        began = time.monotonic()
        self._done([*line, *gpus, self.image], f"couldn't start the image of {self.package.name}")
        while containers.done(self._inside(health(served))).returncode:
            if not self._runs() or time.monotonic() - began > READY_SECONDS:
                log = containers.done([self.tool, "logs", self.name])
                ended = "isn't ready" if self._runs() else "ended"
                raise DependencyError(
                    f"the image of {self.package.name} was built, but its server {ended} "
                    f"after {time.monotonic() - began:.0f} s",
                    code="setup-failed",
                    details=containers.last_lines(log, 20),
                )
            time.sleep(0.5)
        took = time.monotonic() - began
        asked = {("http", served.ready), ("http", served.live), *filter(None, [served.metrics])}
        for port, path in sorted(asked):
            said = f"{path} isn't answered by the server in the image of {self.package.name}"
            self._done(self._inside(health(served, port, path)), said)
        paths = ", ".join(sorted(path for _, path in asked))
        return (
            f"yes: as user {served.user}, with a read-only root, without capabilities and network, "
            f"in {memory}; healthy after {took:.0f} s; {paths} answer"
        )

    def _runs(self) -> bool:
        line = [self.tool, "inspect", "--format", "{{.State.Running}}", self.name]
        return containers.done(line).stdout.strip() == "true"

    def answer(self) -> str:
        """The package's own test, inside."""
        served = self.package.served
        if not served.python:
            return "no: the image has no Python that would run selftest.py"
        url = f"http://127.0.0.1:{served.ports['http']}"
        done = containers.done(self._inside(["python3", "selftest.py", "--url", url]), 300)
        said = done.stdout.strip().splitlines()
        if done.returncode == 1:
            raise GateError(
                f"the image of {self.package.name} gives other answers than the source",
                details=containers.last_lines(done, 20),
            )
        if not said:
            raise DependencyError(
                f"the image of {self.package.name} runs, but its self-test fails",
                code="setup-failed",
                details=containers.last_lines(done),
            )
        return f"{'no' if done.returncode else 'yes'}: selftest.py inside: {said[0]}"

    def end(self) -> str:
        """Ends it as the image says."""
        signal, began = self.package.served.signal, time.monotonic()
        containers.done([self.tool, "stop", "-t", str(GRACE), self.name], GRACE + 30)
        took = time.monotonic() - began
        line = [self.tool, "inspect", "--format", "{{.State.ExitCode}}", self.name]
        code = containers.done(line).stdout.strip()
        if code == "137":
            return f"{signal} DIDN'T END IT within {GRACE} s"
        return f"ended by {signal} after {took:.0f} s"

    def _inside(self, line: list[str]) -> list[str]:
        return [self.tool, "exec", self.name, *line]

    def _done(self, line: list[str], said: str, seconds: float | None = 60.0) -> str:
        """What a command prints.

        Raises:
            DependencyError: It failed.
        """
        done = containers.done(line, seconds)
        if done.returncode:
            raise DependencyError(
                f"{self.tool} {said}", code="setup-failed", details=containers.last_lines(done, 12)
            )
        return done.stdout
