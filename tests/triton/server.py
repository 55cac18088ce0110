"""Start and stop a real Triton server around a test."""

import contextlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from converter.serving.asking import answers
from emitters.serving.triton.running import OWN
from tests.triton.environment import TritonEnvironment, provide_triton_environment

ModelControl = Literal["none", "explicit", "poll"]

_HOST = "127.0.0.1"
_PORT_TAKEN = "already in use"
_START_ATTEMPTS = 3
_START_TIMEOUT_S = 60.0
_STOP_GRACE_S = 10.0
_LOAD_TIMEOUT_S = 120.0
_ERROR_LINE = re.compile(r"^E\d|libprotobuf ERROR")

_WATCH = 'read _; kill -s KILL -- "-$1" 2>/dev/null; rm -rf "$2" "/dev/shm/$3"*'
"""A shell's script that waits for the end of the process which started it, however it ends: only
that one holds the other end of its standard input. Then it ends the server and its helpers, which
are one process group, and removes what they left: the folder, and shared memory."""


class TritonServerError(RuntimeError):
    """The server did not start, or ended while it was needed; the message holds its log."""


@dataclass
class TritonServer:
    """A server over one model repository, alive inside a `with` block.

    Model repositories are taken as they are: nothing is added to them or rewritten. `http_url`
    and `grpc_url` are in the `host:port` form of Triton's clients; `metrics_url` is a full URL.

    With `model_control="none"` every model must load, or entering the block fails with the
    server's log.
    """

    repository: Path
    model_control: ModelControl = "none"
    log_verbose: int = 0
    extra_args: Sequence[str] = ()
    auto_complete: bool = False

    def __post_init__(self) -> None:
        self.repository = self.repository.resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._shm_prefix = self._final_log = ""
        self.http_url = self.grpc_url = self.metrics_url = ""

    @property
    def pid(self) -> int:
        """Process id of `tritonserver` itself."""
        if self._process is None:
            raise TritonServerError("the Triton server is not running")
        return self._process.pid

    def log(self) -> str:
        """Everything that the server has written so far, or wrote before it was stopped."""
        if self._folder is None:
            return self._final_log
        return (self._folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start the server and return once it answers and its models are ready."""
        environment = provide_triton_environment()
        for attempt in range(_START_ATTEMPTS):
            try:
                self._start_once(environment)
                return
            except BaseException as error:  # an interrupt must not leave a server either
                self.stop()
                # Ports are chosen free, but another process may have been quicker.
                again = isinstance(error, TritonServerError) and _PORT_TAKEN in self.log()
                if not again or attempt == _START_ATTEMPTS - 1:
                    raise

    def load(self, name: str) -> None:
        """Load or reload a model (explicit control); raise with the reason where it is refused.

        The server tells the client no reason for a configuration that it cannot read, so the
        reason is taken from its log as well.
        """
        seen = len(self.log())
        if answer := self._control(name, "load"):
            lines = self.log()[seen:].splitlines()
            errors = "\n".join(line for line in lines if _ERROR_LINE.search(line))
            raise TritonServerError(f"cannot load model '{name}': {answer}\n{errors}")

    def unload(self, name: str) -> None:
        """Ask for a model to be unloaded (explicit control); it goes in the background."""
        # Triton ends by a segmentation fault where a batcher's thread is stopped while it starts,
        # which is a few milliseconds after the model is said to be loaded.
        time.sleep(0.2)
        if answer := self._control(name, "unload"):
            raise TritonServerError(f"cannot unload model '{name}': {answer}")

    def stop(self) -> None:
        """Stop the server and everything that it started; safe to call twice."""
        process, watch, self._process, self._watch = self._process, self._watch, None, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_GRACE_S)
        self._final_log, self._folder = self.log(), None
        if watch is not None:
            watch.communicate()  # closes its input: it cleans up
        if process is not None:
            process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _control(self, name: str, action: str) -> str:
        """Return the server's complaint, which is empty where all went well."""
        url = f"http://{self.http_url}/v2/repository/models/{name}/{action}"
        try:
            with urllib.request.urlopen(url, b"{}", _LOAD_TIMEOUT_S):
                return ""
        except urllib.error.HTTPError as refusal:
            return refusal.read().decode(errors="replace")
        except OSError as error:
            raise self._failure(f"the Triton server did not {action} '{name}': {error}") from error

    def _start_once(self, environment: TritonEnvironment) -> None:
        ports = _free_ports()
        self.http_url, self.grpc_url, metrics = (f"{_HOST}:{port}" for port in ports)
        self.metrics_url = f"http://{metrics}/metrics"
        # Unique beyond this machine's process ids, as a killed test run may leave regions behind.
        self._shm_prefix = f"modelyard-{uuid.uuid4().hex[:16]}"
        self._folder = folder = Path(tempfile.mkdtemp(prefix="modelyard-triton-"))
        backends = environment.make_backend_directory(folder / "backends")
        with (folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command(environment, backends, ports), cwd=folder, stdout=log, stderr=log,
                env=environment.process_environment(), stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        watch = ["sh", "-c", _WATCH, "sh", str(self.pid), str(folder), self._shm_prefix]
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)
        self._wait_until_ready(time.monotonic() + _START_TIMEOUT_S)

    def _command(self, environment: TritonEnvironment, backends: Path,
                 ports: Sequence[int]) -> list[str]:  # fmt: skip
        command = [
            str(environment.server_binary),
            f"--model-repository={self.repository}",
            f"--model-control-mode={self.model_control}",
            f"--backend-directory={backends}",
            f"--cache-directory={environment.cache_directory}",
            f"--log-verbose={self.log_verbose}",
            "--allow-gpu-metrics=false",
            "--allow-cpu-metrics=false",
            "--pinned-memory-pool-byte-size=0",
            # Do not linger for open client connections or unloading: nothing is to be saved.
            "--exit-timeout-secs=0",
        ]
        for kind, port in zip(("http", "grpc", "metrics"), ports, strict=True):
            command += [f"--{kind}-address={_HOST}", f"--{kind}-port={port}"]
        # A backend written in Python has settings of its own, apart from the Python backend's.
        for backend in ("python", *OWN):
            command.append(f"--backend-config={backend},shm-region-prefix-name={self._shm_prefix}")
        if not self.auto_complete:
            command.append("--disable-auto-complete-config")
        return [*command, *self.extra_args]

    def _wait_until_ready(self, deadline: float) -> None:
        assert self._process is not None
        while not (answers(f"http://{self.http_url}/v2/health/ready")
                   and answers(self.metrics_url)):  # fmt: skip
            if self._process.poll() is not None:
                raise self._failure("the Triton server ended during its start")
            if time.monotonic() > deadline:
                raise self._failure(f"the Triton server was not ready in {_START_TIMEOUT_S:.0f} s")
            time.sleep(0.01)

    def _failure(self, what: str) -> TritonServerError:
        return TritonServerError(f"{what}; its log:\n{self.log()}")


def _free_ports() -> list[int]:
    """Ask the kernel for three free ports, all held until the last is known."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(3)]
        for probe in sockets:
            probe.bind((_HOST, 0))
        return [probe.getsockname()[1] for probe in sockets]
