"""What a cluster would ask of a server that runs: the probes and ports of ``--deploy k8s``."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from converter import plugins
from converter.commands.serve import Served, address_of
from converter.options.recipe import make_request
from converter.protocols.deployment import Deployable
from converter.protocols.server import Launch, ServedBy, Server
from converter.serving.asking import answers
from emitters.deploying import k8s

HOST = "127.0.0.1"


def written(server: Server, package: Path, first: int) -> tuple[ServedBy, list[dict[str, Any]]]:
    """What the server says of a package, and the manifests of it: with the ports at which it was
    started, ``first`` being HTTP's."""
    served = server.deployed(package)
    assert served is not None
    at = {name: first + index for index, name in enumerate(server.ports)}
    served = replace(served, ports={name: at[name] for name in served.ports})
    asked = make_request({"source": "net.onnx"})
    what = Deployable("net", server.name, served, package, (), False, package, None, asked)
    return served, k8s.documents_of(what)


def asked_of(documents: list[dict[str, Any]]) -> dict[str, str]:
    """The address of each probe, and that at which metrics are scraped."""
    template = documents[0]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    found = {}
    for kind in ("startup", "readiness", "liveness"):
        get = container[f"{kind}Probe"]["httpGet"]
        found[kind] = f"http://{HOST}:{ports[get['port']]}{get['path']}"
    told = template["metadata"].get("annotations")
    if told:
        port, path = (told[f"prometheus.io/{key}"] for key in ("port", "path"))
        found["metrics"] = f"http://{HOST}:{port}{path}"
    return found


def assert_probes_answer(served: Served) -> None:
    """Every probe is answered 200, a path beside them isn't, and somebody listens on every port."""
    server: Server = plugins.load("servers", served.server)
    where = served.addresses.get("json") or served.addresses["v2"]
    told, documents = written(server, served.folder, urlsplit(where).port or 0)
    found = asked_of(documents)
    silent = [f"{kind}: {url}" for kind, url in found.items() if not answers(url)]
    assert not silent and not answers(f"http://{HOST}:{told.ports['http']}/no/such/path"), silent
    for port in told.ports.values():
        socket.create_connection((HOST, port), 10).close()


@dataclass(frozen=True)
class Early:
    """What was seen at the moment in which a server's readiness probe was first answered.

    Attributes:
        loaded: Whether the server itself said that its model was loaded.
        answer: HTTP's status of a request, sent then, and the answer.
    """

    loaded: bool
    answer: tuple[int, str]


@contextmanager
def watched(
    package: Path, name: str, first: int, ask: Callable[[str], tuple[int, str]]
) -> Iterator["Future[Early]"]:
    """Asks for readiness from before a server starts until it is answered, then the server's own
    word, and what ``ask`` asks at the model's address."""
    server: Server = plugins.load("servers", name)
    url = asked_of(written(server, package, first)[1])["readiness"]
    ports = {port: first + index for index, port in enumerate(server.ports)}
    launch = Launch(package, Path(), Path(), HOST, ports)
    endpoint = next(e for e in server.endpoints(package) if e.port == "http")
    stop = Event()

    def watch() -> Early:
        while not answers(url):
            assert not stop.wait(0.02), f"{url} isn't answered"
        loaded = server.ready(launch)
        return Early(loaded, ask(address_of(endpoint, launch.address("http"), False)))

    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(watch)
        finally:
            stop.set()
