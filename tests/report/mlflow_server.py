"""An MLflow server for tests: SQLite and local files, in an environment of its own, on this machine
alone."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from converter.protocols.server import Environment
from converter.serving.environments import own_variables, set_up

PACKAGES = """
aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiosignal==1.4.0 alembic==1.20.1 annotated-doc==0.0.7
annotated-types==0.8.0 anyio==4.16.0 attrs==26.1.0 blinker==1.9.0 cachetools==7.3.3
certifi==2026.10.19.post1 cffi==2.1.1 charset-normalizer==3.5.3 click==8.5.1 cloudpickle==3.1.3
cryptography==50.0.2 databricks-sdk==0.162.0 fastapi==0.165.0 flask-cors==6.0.5 flask==3.1.3
frozenlist==1.8.0 gitdb==4.0.12 GitPython==3.2.1 google-auth==2.63.0 graphene==3.4.3
graphql-core==3.2.14 graphql-relay==3.2.0 h11==0.16.0 huey==3.5.4 idna==3.20
importlib_metadata==9.1.0 itsdangerous==2.2.0 Jinja2==3.1.6 mako==1.4.3 MarkupSafe==3.0.4
mlflow-skinny==3.17.2 mlflow-tracing==3.17.2 mlflow==3.17.2 multidict==7.2.1 numpy==2.4.6
opentelemetry-api==1.45.2 opentelemetry-proto==1.45.2 opentelemetry-sdk==1.45.2
opentelemetry-semantic-conventions==0.66b2 packaging==26.4 pandas==3.1.1 propcache==0.5.4
protobuf==7.36.2 pyasn1==0.6.5 pyasn1_modules==0.4.2 pycparser==3.12 pydantic==2.14.4
pydantic_core==2.50.5 python-dateutil==2.9.0.post0 python-dotenv==1.2.4 PyYAML==6.0.4
requests==2.34.2 six==1.17.0 smmap==5.0.3 SQLAlchemy==2.1.9 sqlparse==0.6.1 starlette==1.10.0
typing-inspection==0.4.5 typing_extensions==4.16.0 urllib3==2.8.0 uvicorn==0.54.0
werkzeug==3.1.9 yarl==1.25.1 zipp==4.1.2
"""
"""The server, and what it imports of what MLflow asks for."""

MLFLOW = Environment("mlflow", tuple(PACKAGES.split()), 60, dependencies=False)

_START_S = 120


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """The address of a server, whose database, artifacts and log lie in a folder."""
    program = set_up(MLFLOW, lambda text: None) / "bin" / "mlflow"
    port = free_port()
    line = [str(program), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}",
            "--artifacts-destination", str(folder / "artifacts")]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            line, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder,
            env={**own_variables(), "MLFLOW_DISABLE_TELEMETRY": "true",
                 "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        )  # fmt: skip
    try:
        _wait(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    """Until the server answers."""
    end = time.monotonic() + _START_S
    while True:
        try:
            with urlopen(address, timeout=5):
                return
        except (URLError, ConnectionError, TimeoutError):
            if time.monotonic() > end or process.poll() is not None:
                raise
            time.sleep(0.2)
