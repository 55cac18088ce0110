"""A small parent for the worker, as the real one talks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from parsers.pytorch.spec import PYTORCH

MAIN = Path(__file__).resolve().parents[2] / "parsers" / "worker" / "main.py"


class Failure(Exception):
    """The worker's error answer."""

    def __init__(self, error: dict[str, Any], stderr: str = "") -> None:
        super().__init__(json.dumps(error, indent=1))
        self.kind: str = error["kind"]
        self.message: str = error["message"]
        self.details: list[str] = error["details"]
        self.traceback: str = error["traceback"]
        self.error = error


@contextmanager
def fails(kind: str, *says: str) -> Iterator[pytest.ExceptionInfo[Failure]]:
    """A block that has to end with an error: of the kind, with these in its message."""
    with pytest.raises(Failure) as caught:
        yield caught
    assert caught.value.kind == kind, caught.value
    for text in says:
        assert text in caught.value.message


class Bomb:
    """Makes a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (eval, (f"open({str(self.path)!r}, 'w').close()",))


class Client:
    """A worker process and the pipes to it."""

    def __init__(
        self, cwd: Path | None = None, env: dict[str, str] | None = None,
        python: str = sys.executable, stderr: Path | None = None, backend: str = PYTORCH.backend,
    ) -> None:  # fmt: skip
        self._stderr = stderr.open("wb") if stderr else subprocess.DEVNULL
        self.events: list[dict[str, Any]] = []
        self._next = 0
        self.process = subprocess.Popen(
            [python, str(MAIN), backend], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._stderr, cwd=cwd, env={**os.environ, "PYTHONHASHSEED": "0", **(env or {})},
        )  # fmt: skip

    def send(self, method: str, **params: Any) -> int:
        """Send a request without waiting; returns its id."""
        assert self.process.stdin is not None
        self._next += 1
        request = {"id": self._next, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self._next

    def receive(self, wanted: int | None) -> dict[str, Any]:
        """The answer with the given id; events before it are kept in `events`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "event" in message:
                self.events.append(message)
                continue
            assert message["id"] == wanted, message
            if "error" in message:
                raise Failure(message["error"])
            result: dict[str, Any] = message["result"]
            return result
        raise AssertionError(f"the worker ended with {self.process.wait(5)}")

    def call(self, method: str, **params: Any) -> Any:
        """Send a request and wait for its result; raises Failure for an error."""
        return self.receive(self.send(method, **params))

    def refuses(self, kind: str, says: Sequence[str], method: str, **params: Any) -> Failure:
        """The error that a request has to end with: of the kind, with these in its message."""
        with fails(kind, *says) as caught:
            self.call(method, **params)
        return caught.value

    def close(self) -> int:
        """End the worker by closing its stdin; returns its exit status."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        status = self.process.wait(10)
        self.process.stdout.close()
        return status

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
