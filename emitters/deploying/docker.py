"""A Dockerfile and ``compose.yaml`` for a server's package."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from converter import plugins
from converter.options.request import Request
from converter.protocols.deployment import Deployable, Deployed
from converter.protocols.server import MODELS, ServedBy, Server
from converter.serving.ports import require_free
from emitters.deploying.names import OfServers, dns_name, image_of
from emitters.deploying.pods import GRACE, context_of, decided, memory_of, text_of
from emitters.deploying.request import deploying
from emitters.deploying.spec import SPECS
from emitters.templates import render

NO_SCHEMA = "there is none: hadolint passes these Dockerfiles in Modelyard's own tests"
LOOPBACK = "127.0.0.1"
"""Where images are published: to this machine alone."""

NOT_TRIED = "no: not tried (--try-image)"
"""Of what nothing has happened."""


class DockerDeployment(OfServers, spec=SPECS["docker"]):
    """An image of the package, built and run by docker or podman."""

    name = "docker"

    def deploy(self, package: Deployable) -> Deployed:
        image, (here, inside) = image_of(package), published(package)["http"]
        context = context_of(package).as_posix()
        own = f"docker build --tag {image} --file {{here}}/Dockerfile {shlex.quote(context)}"
        run = "docker run --rm --init --read-only --tmpfs /tmp --cap-drop ALL"
        run += f" --publish {LOOPBACK}:{here}:{inside}{' --gpus all' * package.served.gpu} {image}"
        return Deployed(
            {"Dockerfile": dockerfile(package), "compose.yaml": text_of(compose(package))},
            [own, run],
            {"schema": NO_SCHEMA, **dict.fromkeys(("build", "run", "answer"), NOT_TRIED)},
            decided(package),
        )

    def require(self, request: Request) -> None:
        """And ports that were named; for ``--try-image`` what builds images, and the base that was
        named."""
        asked = deploying(request)
        if asked.port is not None:
            for name in request.serve:
                server: Server = plugins.load("servers", name)
                ports = {each: asked.port + at for at, each in enumerate(server.ports)}
                require_free(LOOPBACK, ports, "Give another --port, or end what listens there.")
        if asked.try_image and not request.dry_run:
            from emitters.deploying.trying import require_tool

            require_tool(asked.base_image)

    def attempt(self, package: Deployable, place: Path) -> Mapping[str, str]:
        """The image, where ``--try-image`` asks for it; see :mod:`emitters.deploying.trying`."""
        if not deploying(package.request).try_image:
            return {}
        from emitters.deploying.trying import tried

        return tried(package, place)


def dockerfile(package: Deployable) -> str:
    """Requirements, then the model, then the rest: layers in the order in which they change."""
    served, name = package.served, package.name
    inside = f"{MODELS}/{name}"
    files = [item for item in served.requirements if (package.package / item).is_file()]
    model = [_copy(package, name, item) for item in served.model]
    model += [_copies(f"{folder.name}/", f"{MODELS}/{folder.name}/") for folder in package.beside]
    others = sorted(item.name for item in package.package.iterdir())
    rest = [item for item in others if item not in served.model and item not in files]
    single = [item for item in rest if (package.package / item).is_file()]
    folders = [_copy(package, name, item) for item in rest if item not in single]
    values = {
        "base": base_of(package),
        "variables": {"HOME": "/tmp", "PYTHONUNBUFFERED": "1", **served.variables},
        "system": " ".join(served.system),
        "pip": _pip(served.requirements, files, inside),
        "required": _copies(*(f"{name}/{item}" for item in files), f"{inside}/") if files else "",
        "model": model,
        "rest": [_copies(*(f"{name}/{item}" for item in single), f"{inside}/"), *folders],
        "folder": inside,
        "user": served.user,
        "ports": sorted(served.ports.values()),
        "signal": served.signal,
        "health": json.dumps(health(served)),
        "command": json.dumps(list(served.command)),
    }
    return render("emitters.deploying", "Dockerfile.j2", values, quoted=json.dumps)


def published(package: Deployable) -> dict[str, tuple[int, int]]:
    """By name, each port's number on the machine that runs the image, and inside."""
    first = deploying(package.request).port
    return {
        name: (number if first is None else first + at, number)
        for at, (name, number) in enumerate(package.served.ports.items())
    }


def base_of(package: Deployable) -> str:
    """The image that the package's is built on."""
    return deploying(package.request).base_image or package.served.base


def _copy(package: Deployable, name: str, item: str) -> str:
    folder = "/" if (package.package / item).is_dir() else ""
    inside = f"{MODELS}/{name}/{item}/" if folder else f"{MODELS}/{name}/"
    return _copies(f"{name}/{item}{folder}", inside)


def _copies(*paths: str) -> str:
    return f"COPY {json.dumps(paths)}"


def _pip(requirements: Any, files: list[str], inside: str) -> str:
    if not requirements:
        return ""
    if not files:
        return " ".join(map(shlex.quote, requirements))
    wanted, lock = (shlex.quote(f"{inside}/{item}") for item in files)
    return f"--requirement {wanted} --constraint {lock}"


def health(served: ServedBy, port: str = "http", path: str = "") -> list[str]:
    """A command that ends with 0 where the server answers 200 at its own address.

    Args:
        served: How the package runs in an image.
        port: The port's name among the package's.
        path: What is asked for; empty: where the server says that it is ready.

    Returns:
        The program and its arguments.
    """
    number, path = served.ports[port], path or served.ready
    if served.python:
        url = f"http://127.0.0.1:{number}{path}"
        code = f"import urllib.request; urllib.request.urlopen({url!r}, timeout=4)"
        return ["python3", "-c", code]
    return health_in_bash(number, path)


def health_in_bash(port: int, path: str) -> list[str]:
    """The same without an interpreter and curl."""
    asked = f"GET {path} HTTP/1.0\\r\\n\\r\\n"
    code = f"exec 3<>/dev/tcp/127.0.0.1/{port} && printf {shlex.quote(asked)} >&3"
    return ["bash", "-c", f"{code} && read -r line <&3 && [[ $line == *' 200 '* ]]"]


def compose(package: Deployable) -> dict[str, Any]:
    """One service, closed as the pods are."""
    served = package.served
    context = context_of(package)
    here = PurePosixPath("deploy", "docker", package.server, package.name)
    service: dict[str, Any] = {
        "image": image_of(package),
        "build": {
            "context": "/".join([".."] * len(here.parts)) + f"/{context.as_posix()}",
            "dockerfile": "/".join([".."] * len(context.parts)) + f"/{here}/Dockerfile",
        },
        "ports": [f"{LOOPBACK}:{here}:{inside}" for here, inside in published(package).values()],
        "init": True,
        "read_only": True,
        "tmpfs": ["/tmp"],
        "shm_size": "256m",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "mem_limit": f"{memory_of(package)[1]}m",
        "stop_grace_period": f"{GRACE}s",
        "restart": "unless-stopped",
    }
    if served.gpu:
        device = {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return {"services": {dns_name(package.name): service}}
