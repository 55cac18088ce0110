"""Start and stop a real Triton server around a test."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from tests.triton.environment import TritonEnvironment, provide_triton_environment
from tests.triton.supervisor import supervised

ModelControl = Literal["none", "explicit", "poll"]

_HOST = "127.0.0.1"
_PORT_TAKEN = "already in use"
_START_ATTEMPTS = 3
_POLL_INTERVAL_S = 0.01
_START_TIMEOUT_S = 60.0
_STOP_GRACE_S = 10.0
_LOAD_TIMEOUT_S = 120.0
_ERROR_LINE = re.compile(r"^E\d|libprotobuf ERROR")


class TritonServerError(RuntimeError):
    """The server did not start, or ended while it was needed; the message holds its log."""


@dataclass
class TritonServer:
    """A server over one model repository, alive inside a `with` block.

    Model repositories are taken as they are: nothing is added to them or rewritten. `http_url`
    and `grpc_url` are in the `host:port` form of Triton's clients; `metrics_url` is a full URL.

    With `model_control="none"` every model must load, or entering the block fails with the
    server's log. Pass `extra_args=("--exit-on-error=false", "--strict-readiness=false")` to keep
    a server whose models are broken.
    """

    repository: Path
    model_control: ModelControl = "none"
    log_verbose: int = 0
    extra_args: Sequence[str] = ()
    auto_complete: bool = False
    environment: TritonEnvironment | None = None

    def __post_init__(self) -> None:
        self.repository = self.repository.resolve()
        self._supervisor: subprocess.Popen[str] | None = None
        self._pid: int | None = None
        self._ports = (0, 0, 0)
        self._folder: Path | None = None
        self._shm_prefix = ""
        self._final_log = ""

    @property
    def http_url(self) -> str:
        """`host:port` of the HTTP endpoint."""
        return f"{_HOST}:{self._ports[0]}"

    @property
    def grpc_url(self) -> str:
        """`host:port` of the gRPC endpoint."""
        return f"{_HOST}:{self._ports[1]}"

    @property
    def metrics_url(self) -> str:
        """Full URL of the Prometheus metrics."""
        return f"http://{_HOST}:{self._ports[2]}/metrics"

    @property
    def pid(self) -> int:
        """Process id of `tritonserver` itself."""
        if self._pid is None:
            raise TritonServerError("the Triton server is not running")
        return self._pid

    def log(self) -> str:
        """Everything that the server has written so far, or wrote before it was stopped."""
        if self._folder is None:
            return self._final_log
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start the server and return once it answers and its models are ready."""
        if self._supervisor is not None:
            raise TritonServerError("the Triton server is already running")
        environment = self.environment or provide_triton_environment()
        for attempt in range(_START_ATTEMPTS):
            try:
                self._start_once(environment)
                return
            except TritonServerError:
                # Ports are chosen free, but another process may have been quicker.
                if _PORT_TAKEN not in self.log() or attempt == _START_ATTEMPTS - 1:
                    raise

    def load(self, name: str) -> None:
        """Load or reload a model (explicit control); raise with the reason where it is refused.

        The server tells the client no reason for a configuration that it cannot read, so the
        reason is taken from its log as well.
        """
        seen = len(self.log())
        answer = self._control(name, "load")
        if answer:
            errors = "\n".join(
                line for line in self.log()[seen:].splitlines() if _ERROR_LINE.search(line)
            )
            raise TritonServerError(f"cannot load model '{name}': {answer}\n{errors}")

    def unload(self, name: str) -> None:
        """Ask for a model to be unloaded (explicit control); it goes in the background."""
        answer = self._control(name, "unload")
        if answer:
            raise TritonServerError(f"cannot unload model '{name}': {answer}")

    def stop(self) -> None:
        """Stop the server and everything that it started; safe to call twice."""
        supervisor, self._supervisor, self._pid = self._supervisor, None, None
        if supervisor is not None:
            _end(supervisor)
        if self._folder is not None:
            self._final_log = self.log()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _control(self, name: str, action: str) -> str:
        """Return the server's complaint, which is empty where all went well."""
        connection = http.client.HTTPConnection(_HOST, self._ports[0], timeout=_LOAD_TIMEOUT_S)
        try:
            connection.request("POST", f"/v2/repository/models/{name}/{action}", body=b"{}")
            response = connection.getresponse()
            text = response.read().decode("utf-8", errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(f"the Triton server did not {action} '{name}': {error}") from error
        finally:
            connection.close()
        if response.status == http.HTTPStatus.OK:
            return ""
        return str(json.loads(text).get("error", text)) if text.startswith("{") else text

    @property
    def _log_file(self) -> Path:
        assert self._folder is not None
        return self._folder / "server.log"

    def _start_once(self, environment: TritonEnvironment) -> None:
        self._ports = _free_ports()
        # Unique beyond this machine's process ids, as a killed test run may leave regions behind.
        self._shm_prefix = f"modelyard-{uuid.uuid4().hex[:16]}"
        self._folder = Path(tempfile.mkdtemp(prefix="modelyard-triton-"))
        try:
            self._launch(environment, self._folder)
            self._wait_until_ready(time.monotonic() + _START_TIMEOUT_S)
        except BaseException:  # an interrupt must not leave a server either; all of it goes on
            self.stop()
            raise

    def _launch(self, environment: TritonEnvironment, folder: Path) -> None:
        backends = environment.make_backend_directory(folder / "backends")
        command = supervised(
            self._server_command(environment, backends),
            folder=folder,
            grace_s=_STOP_GRACE_S,
            shm_prefix=self._shm_prefix,
        )
        with self._log_file.open("wb") as log:
            self._supervisor = subprocess.Popen(
                command,
                env=environment.process_environment(),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._supervisor.stdout is not None
        with self._supervisor.stdout as announced:
            line = announced.readline()
        if not line:
            raise self._failure("the Triton server could not be started")
        self._pid = int(line)

    def _server_command(self, environment: TritonEnvironment, backends: Path) -> list[str]:
        http_port, grpc_port, metrics_port = self._ports
        command = [
            str(environment.server_binary),
            f"--model-repository={self.repository}",
            f"--model-control-mode={self.model_control}",
            f"--backend-directory={backends}",
            f"--cache-directory={environment.cache_directory}",
            f"--http-address={_HOST}",
            f"--http-port={http_port}",
            f"--grpc-address={_HOST}",
            f"--grpc-port={grpc_port}",
            f"--metrics-address={_HOST}",
            f"--metrics-port={metrics_port}",
            f"--log-verbose={self.log_verbose}",
            "--allow-gpu-metrics=false",
            "--allow-cpu-metrics=false",
            "--pinned-memory-pool-byte-size=0",
            # Do not linger for open client connections or unloading: nothing is to be saved.
            "--exit-timeout-secs=0",
        ]
        # A backend written in Python has settings of its own, apart from the Python backend's.
        for backend in ("python", "onnxruntime"):
            setting = f"--backend-config={backend},shm-region-prefix-name={self._shm_prefix}"
            command.append(setting)
        if not self.auto_complete:
            command.append("--disable-auto-complete-config")
        return [*command, *self.extra_args]

    def _wait_until_ready(self, deadline: float) -> None:
        while not self._is_ready():
            assert self._supervisor is not None
            if self._supervisor.poll() is not None:
                raise self._failure("the Triton server ended during its start")
            if time.monotonic() > deadline:
                raise self._failure(f"the Triton server was not ready in {_START_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_INTERVAL_S)

    def _is_ready(self) -> bool:
        return _answers(self._ports[0], "/v2/health/ready") and _answers(self._ports[2], "/metrics")

    def _failure(self, what: str) -> TritonServerError:
        return TritonServerError(f"{what}; its log:\n{self.log()}")


def _end(supervisor: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor.pid, signal.SIGTERM)
    try:
        supervisor.wait(_STOP_GRACE_S + 5.0)
    except subprocess.TimeoutExpired:
        # The server is tied to its supervisor, and goes with it.
        supervisor.kill()
        supervisor.wait()


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(_HOST, port, timeout=5.0)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _free_ports() -> tuple[int, int, int]:
    """Ask the kernel for three free ports, all held until the last is known."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(3)]
        for probe in sockets:
            probe.bind((_HOST, 0))
        http_port, grpc_port, metrics_port = (probe.getsockname()[1] for probe in sockets)
    return http_port, grpc_port, metrics_port
