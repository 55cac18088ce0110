"""The one child process that third-party simplifiers share, started early and kept.

A simplifier that crashes takes the child with it, one that hangs is stopped together with
it; the next call starts a new one.
"""

from __future__ import annotations

import atexit
import os
import signal
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from converter.errors import MachineError
from converter.passes.libraries.library import LibraryError
from converter.runtime.child import Child, ChildError, own_module, worker_env
from converter.text.words import one_line

TIME_LIMIT = 120.0
"""Seconds that a simplifier may take."""

_TOO_LONG, _KILLED = "took longer than", signal.SIGKILL.name
"""What is said of one that was stopped, and of one that the system ended."""

COMMAND = own_module("converter.passes.libraries.child")
"""What the child runs; tests put another in its place."""


class _Shared:
    """The child, if it runs, and the lock around it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.child: Child | None = None

    def start(self) -> Child:
        with self.lock:
            if self.child is None:
                self.child = Child(COMMAND, what="the simplifiers' process", env=worker_env())
            return self.child

    def stop(self) -> None:
        with self.lock:
            child, self.child = self.child, None
            if child is not None:
                child.close()


_shared = _Shared()
atexit.register(_shared.stop)


def start_tools() -> None:
    """Starts the child, which then imports the libraries while the caller does other things."""
    _shared.start()


def stop_tools() -> None:
    """Ends the child, if it runs."""
    _shared.stop()


def run_tool(
    tool: str,
    model: onnx_ir.Model,
    options: Mapping[str, Any] | None = None,
    time_limit: float = TIME_LIMIT,
) -> onnx_ir.Model:
    """What a simplifier of :mod:`.tools_child` makes of ``model``.

    Args:
        tool: ``onnxslim``, ``onnxsim`` or ``ort-basic``.
        model: All of its weights in memory.
        options: Keyword arguments of the library's own function.
        time_limit: Seconds after which the child is stopped.

    Raises:
        LibraryError: The library raised, crashed, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder, _shared.lock:
        source, result = Path(folder, "in.onnx"), Path(folder, "out.onnx")
        onnx.save(onnx_ir.to_proto(model), source)
        params = {"tool": tool, "source": str(source), "result": str(result)}
        _call(tool, {**params, "options": dict(options or {})}, time_limit)
        return onnx_ir.from_proto(onnx.load(result))


def _call(tool: str, params: Mapping[str, Any], time_limit: float) -> None:
    child = _shared.start()
    expired = threading.Event()

    def stop() -> None:
        expired.set()
        os.killpg(child.pid, signal.SIGKILL)

    timer = threading.Timer(time_limit, stop)
    timer.start()
    try:
        child.call("simplify", **params)
    except ChildError as error:
        raise LibraryError(f"{tool} failed: {_first_line(str(error.fields['message']))}") from error
    except MachineError as error:
        _shared.stop()
        if expired.is_set():
            raise LibraryError(f"{tool} {_TOO_LONG} {time_limit:g} s") from error
        last = "".join(f"; {line}" for line in error.details[-1:])
        raise LibraryError(f"{tool} crashed: {error.message}{last}") from error
    finally:
        timer.cancel()
        timer.join()
        if expired.is_set():  # also where the answer came in the very last moment
            _shared.stop()


def depends_on_machine(detail: str) -> bool:
    """Whether a simplifier failed because time or memory gave out: elsewhere it may not."""
    return _TOO_LONG in detail or _KILLED in detail


def _first_line(text: str) -> str:
    line = one_line(text.strip().split("\n", 1)[0])
    return line if len(line) <= 200 else line[:197] + "..."
