"""An S3 server for tests: moto's, in an environment of its own, on this machine alone."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import s3fs
from botocore.exceptions import BotoCoreError

from converter.protocols.server import Environment
from converter.serving.environments import own_variables, set_up

MOTO = Environment(
    "moto",
    (
        *(
            "moto==5.2.5",
            "blinker==1.9.0",
            "boto3==1.44.8",
            "botocore==1.44.8",
            "certifi==2026.10.18",
        ),
        *("cffi==2.1.1", "charset-normalizer==3.5.2", "click==8.5.1", "cryptography==50.0.2"),
        *(
            "flask==3.1.3",
            "flask-cors==6.0.5",
            "idna==3.20",
            "itsdangerous==2.2.0",
            "jinja2==3.1.6",
        ),
        *("jmespath==1.1.0", "markupsafe==3.0.4", "py-partiql-parser==0.6.3", "pycparser==3.12"),
        *("python-dateutil==2.9.0.post0", "pyyaml==6.0.3", "requests==2.34.2", "responses==0.26.3"),
        *("s3transfer==0.19.3", "six==1.17.0", "urllib3==2.8.0", "werkzeug==3.1.9"),
        "xmltodict==1.0.4",
    ),
    30,
    dependencies=False,
)

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
    """A server with one bucket; its log lies in a folder, what it holds in memory."""
    program = set_up(MOTO, lambda text: None) / "bin" / "moto_server"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [str(program), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            line, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=own_variables()
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _make_bucket(address)
        variables = {
            "AWS_ENDPOINT_URL_S3": address, "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1",
        }  # fmt: skip
        yield S3Server(f"s3://{_BUCKET}", variables)
    finally:
        process.terminate()
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
