"""JSON lines between parent and worker.

Requests arrive on stdin: {"id": 1, "method": "load", "params": {...}}. Answers leave on what was
stdout: {"id": 1, "result": {...}} or {"id": 1, "error": {...}}. Between them may come
{"event": "progress", "text": ...} and {"event": "warning", "text": ...}. One request is served at
a time, in order. The process ends when stdin ends, whatever it is doing.

A process that serves several models, one after the other, forks for each: what a model's code
changes goes with it. The fork has the pipes until `shutdown`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import signal
import sys
import threading
from typing import Any, BinaryIO, Callable, Dict, Mapping, Optional, Protocol, Tuple

from .errors import WorkerError, from_library

VERSION = 1
READING = ("load", "tokenize")
"""The methods that read the user's files."""
WARMING = ("hello", "warm")
"""The methods that run nothing of the user's."""

Method = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Channel:
    """The way out to the parent; whole lines only, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one message as a line. A parent that has gone ends this process."""
        line = json.dumps(message).encode("ascii") + b"\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except OSError:
                os._exit(0)

    def progress(self, text: str) -> None:
        """Tell the parent what is being done now."""
        self.send({"event": "progress", "text": text})

    def warning(self, text: str) -> None:
        """Tell the parent something that its user should read."""
        self.send({"event": "warning", "text": text})


class Backend(Protocol):
    """What serves the methods of one framework."""

    def __init__(self, channel: Channel) -> None: ...

    def methods(self) -> Dict[str, Method]:
        """Method names and the functions from params to result."""
        ...


def _take_streams() -> Tuple[BinaryIO, BinaryIO]:
    """Private copies of stdin and stdout; user code is left with an empty stdin and stderr.

    The copies are not inherited by processes that user code starts: such a process could
    otherwise hold the pipes open after the parent has gone.
    """
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    return requests, answers


def _leave() -> None:
    """End at once. Framework threads and atexit handlers have nothing left to do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _read_requests(stream: BinaryIO, waiting: "queue.Queue[bytes]") -> None:
    """Queue lines until the parent closes the pipe or dies, then end the process.

    os._exit works even while the main thread is inside a long native call. What follows a shutdown
    is for the process that this one was forked from.
    """
    for line in iter(stream.readline, b""):
        waiting.put(line)
        if (_parse(line) or {}).get("method") == "shutdown":
            return
    os._exit(0)


def answer(methods: Mapping[str, Method], request: Mapping[str, Any]) -> Dict[str, Any]:
    """The `result` or `error` part for one request."""
    name = request.get("method")
    method = methods.get(name) if isinstance(name, str) else None
    try:
        if method is None:
            raise WorkerError(
                "usage", f"no method {name!r}; one of: {', '.join(methods)}", code="usage"
            )
        return {"result": method(request.get("params") or {})}
    except WorkerError as error:
        return {"error": error.payload()}
    # Whatever it is must reach the parent as an answer: it would wait for one otherwise.
    except Exception as error:
        return {"error": from_library(error, reading=name in READING).payload()}


def _parse(line: bytes) -> Optional[Dict[str, Any]]:
    """The request in a line, or None if it is no JSON object."""
    try:
        request = json.loads(line)
    except ValueError:
        return None
    return request if isinstance(request, dict) else None


def _forked(stream: BinaryIO, channel: Channel, methods: Mapping[str, Method]) -> bytes:
    """Import the framework and fork for each model; returns in the forks, with the first request.

    No thread of the framework's may run before: importing starts none. A fork that dies takes this
    process along the same way, so that the parent sees what it would see of the fork.
    """
    for line in iter(stream.readline, b""):
        request = _parse(line) or {}
        if request.get("method") in WARMING:
            channel.send({"id": request.get("id"), **answer(methods, request)})
            continue
        answer(methods, {"method": "warm"})  # what is wrong with it, the fork says too
        child = os.fork()
        if not child:
            return line
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code < 0:
            faulthandler.disable()
            if -code != signal.SIGKILL:
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        if code:
            os._exit(code)
    os._exit(0)


def serve(make_backend: Callable[[Channel], Backend], *, forking: bool = False) -> None:
    """Serve requests until `shutdown` or the end of stdin, with `forking` each model in a fork;
    does not return."""
    requests, answers = _take_streams()
    # Ctrl-C reaches the whole process group; the parent decides, and says so by closing stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(answers)
    waiting: "queue.Queue[bytes]" = queue.Queue()
    methods = make_backend(channel).methods()
    if forking:
        waiting.put(_forked(requests, channel, methods))
    threading.Thread(target=_read_requests, args=(requests, waiting), daemon=True).start()
    while True:
        request = _parse(waiting.get())
        if request is None:
            error = WorkerError("internal", "a request is not a JSON object")
            channel.send({"id": None, "error": error.payload()})
            continue
        if request.get("method") == "shutdown":
            channel.send({"id": request.get("id"), "result": {}})
            _leave()
        channel.send({"id": request.get("id"), **answer(methods, request)})
