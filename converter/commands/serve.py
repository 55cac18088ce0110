"""Starts a package's server: serve()."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from converter import plugins
from converter.errors import DependencyError, UsageError
from converter.pipeline.folders import flows_of, packages_of_part, parts_of
from converter.protocols.server import Endpoint, Launch, Server
from converter.serving import homes
from converter.serving.homes import Agree
from converter.serving.ports import free, require_free
from converter.serving.running import Running, Say
from converter.serving.secure import SecureEnd, context_of

Ports = Mapping[str, int]

_LOOPBACK = "127.0.0.1"
_DEEPEST = 4
"""Below a folder, a package lies at most so deep: ``serving/SERVER/PRECISION/MODEL``."""


@dataclass(frozen=True)
class Served:
    """A package that is being served.

    Attributes:
        server: The server's name.
        folder: The package, or the folder of several.
        addresses: By protocol, as ``--server`` takes them, of several packages by ``MODEL
            PROTOCOL``; ``metrics`` where the server has such.
        running: Its process.
    """

    server: str
    folder: Path
    addresses: Mapping[str, str]
    running: Running


def find_package(path: str) -> tuple[Server, Path]:
    """The one package that ``path`` is, or that lies in it, and its server; where one server takes
    several (:attr:`Server.several`), the folder of all: of a repository, or an output of parts; of
    an output whose parts a flow joins, the flow's package.

    Raises:
        UsageError: There is none, or several.
    """
    if not Path(path).is_dir():
        raise UsageError(f"there is no folder {path}", code="file-not-found")
    found = packages_in(path)
    if not found:
        names = ", ".join(server.name for server in _servers())
        raise UsageError(
            f"{path} holds no package of a server",
            code="not-an-artifact",
            hint="Convert the model with --serve SERVER, and serve that output. "
            f"Servers that run here: {names}.",
        )
    if len(found) > 1 and (server := served_together(path, found)):
        return server, found[0][1].parent
    if len(found) > 1 and len(joined := [one for one in found if one[1] in flows_of(path)]) == 1:
        return joined[0]
    if len(found) > 1:
        folders = ", ".join(str(folder) for _, folder in found)
        raise UsageError(
            f"{path} holds {len(found)} packages", code="choose-one", hint=f"Name one: {folders}."
        )
    return found[0]


def served_together(path: str, found: Sequence[tuple[Server, Path]]) -> Server | None:
    """The server that takes all of these packages at once, where ``path`` asks for that."""
    server, folder = found[0]
    together = all(other is server and it.parent == folder.parent for other, it in found)
    asked = Path(path).absolute() == folder.parent or bool(parts_of(path))
    return server if server.several and together and asked else None


def packages_in(path: str) -> list[tuple[Server, Path]]:
    """The packages that the folder ``path`` is, or that lie least deep in it, and their servers;
    without those that others of them ask."""
    servers = _servers()
    level = packages_of_part(path) or [Path(path).absolute()]  # a server runs in another folder
    for _ in range(_DEEPEST + 1):
        found = [(s, folder) for folder in level for s in servers if s.holds(folder)]
        if found:
            asked = {place for server, folder in found for place in server.calls(folder)}
            return [(server, folder) for server, folder in found if folder not in asked]
        level = sorted(item for folder in level for item in folder.iterdir() if item.is_dir())
    return []


def _servers() -> list[Server]:
    """Those that can be started here."""
    servers: list[Server] = []
    for name in plugins.available("servers"):
        with suppress(DependencyError):  # what can't be loaded here can't be served here either
            servers.append(plugins.load("servers", name))
    return [server for server in servers if server.ports]


@contextmanager
def serve(
    path: str,
    *,
    host: str = _LOOPBACK,
    port: int | None = None,
    tls: tuple[str, str] | None = None,
    container: bool = False,
    image: str | None = None,
    offline: bool = False,
    agree: Agree = lambda download: True,
    log: Say | None = None,
    state: Say = lambda text: None,
) -> Iterator[Served]:
    """Serves a package for as long as the block lasts; it answers when the block begins.

    Args:
        path: A package, or an output folder that holds one.
        host: The address to listen on.
        port: Of HTTP; the server's other ports follow it. 0: free ones. None: the usual ones.
        tls: Certificate and key: files, PEM.
        container: Run the server's own container, by docker or podman, and not an environment.
        image: Which: its name and tag; without one, that which is known to take the package.
        offline: Fetch nothing.
        agree: Asked before an environment or an image is downloaded.
        log: Called with each line of the server's log, from a thread; without one, the last lines
            are in the error where it fails.
        state: Called with what is being done.

    Raises:
        UsageError: There is no such package, a port is taken, or the certificate is none.
        DependencyError: What the server needs isn't there, and may not be fetched.
        MachineError: The server didn't start; the end of its log is in the details.

    Yields:
        Its addresses.

    Example:
        >>> with modelyard.serve("build/other", port=0) as served:
        ...     print(served.addresses["v2"])
        http://127.0.0.1:.../v2/models/net
    """
    server, folder = find_package(path)
    home = homes.choose(server, folder, container, image)
    ports = inner = _choose_ports(server, host, port)
    home.require(offline, agree)
    with ExitStack() as stack:
        if tls:
            inner = _choose_ports(server, _LOOPBACK, 0)
            _secure(host, ports, inner, Path(tls[0]), Path(tls[1]), stack)
        place = home.set_up(state)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="modelyard-serve-")))
        launch = Launch(folder, place, scratch, _LOOPBACK if tls else host, inner)
        state(f"starting {server.name} with {folder}")
        running = Running(server, launch, home.command(launch), log)
        stack.callback(running.stop)
        running.wait_until_ready()
        public = replace(launch, host=host, ports=ports)
        yield Served(server.name, folder, _addresses(server, public, bool(tls)), running)


def _choose_ports(server: Server, host: str, first: int | None) -> dict[str, int]:
    """A port for each that the server has; all are free now."""
    if first == 0:
        first = free(host, len(server.ports))
    ports = dict(server.ports)
    if first is not None:
        ports = {name: first + index for index, name in enumerate(server.ports)}
    require_free(host, ports, "--port N takes others, --port 0 free ones.")
    return ports


def _secure(
    host: str, ports: Ports, inner: Ports, certificate: Path, key: Path, stack: ExitStack
) -> None:
    """Listens with TLS on ``ports``, and passes on to the server's own, on this machine."""
    for name, number in ports.items():
        protocols = ["h2"] if name == "grpc" else ["http/1.1"]
        context = context_of(certificate, key, protocols)
        stack.callback(SecureEnd(host, number, context, inner[name]).close)


def _addresses(server: Server, public: Launch, secure: bool) -> dict[str, str]:
    found, endpoints = {}, server.endpoints(public.folder)
    several = len({endpoint.model for endpoint in endpoints}) > 1
    for endpoint in endpoints:
        name = f"{endpoint.model} {endpoint.protocol}" if several else endpoint.protocol
        found[name] = address_of(endpoint, public.address(endpoint.port), secure)
    if "metrics" in public.ports:
        found["metrics"] = f"http{'s' * secure}://{public.address('metrics')}/metrics"
    return found


def address_of(endpoint: Endpoint, place: str, secure: bool) -> str:
    """A model's address, as a client types it: ``grpc://HOST:PORT/MODEL``,
    ``http://HOST:PORT/v2/models/MODEL``, ``http://HOST:PORT/PATH``.

    Args:
        endpoint: The model or path, and its protocol.
        place: ``HOST:PORT``.
        secure: Whether the server speaks TLS: ``grpcs`` and ``https`` then.
    """
    if endpoint.protocol == "grpc":
        return f"grpc{'s' * secure}://{place}/{endpoint.model}"
    path = f"/v2/models/{endpoint.model}" if endpoint.protocol == "v2" else endpoint.model
    return f"http{'s' * secure}://{place}{path}"
