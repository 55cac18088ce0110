"""The process of one build: ``python -P -m emitters.tensorrt.build_child MODULE``.

It loads the vendor's library at once, answers one request and ends: after a build that failed, the
next in the same process comes out different. One JSON object a line comes in and goes out, as in
:mod:`converter.runtime.child`:

    {"id": 1, "method": "build", "params": {"folder": "/tmp/x", "task": "build", ...}}

Paths in it are relative to that folder. The same build has to give the same bytes every time, and
the builder orders things by their addresses in memory. So whoever starts the process has taken the
randomness out of them (:mod:`.process`); all work is done in one thread with a heap of its own,
and what differs from place to place, the request's line, is read outside of it.

Only the standard library and the vendor's are used here.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from emitters.tensorrt.child_network import describe
from emitters.tensorrt.child_settings import (
    Missing,
    SettingsError,
    load_plugins,
    network_flags,
    set_up,
)
from emitters.tensorrt.child_threads import one_core
from emitters.tensorrt.child_writing import write_and_digest

ADDR_NO_RANDOMIZE = 0x0040000  # sys/personality.h
_PR_SET_PDEATHSIG = 1  # sys/prctl.h
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

LOOKS, LOOK_SECONDS = 6, 10.0
"""How often in a row, and after how long, a library is seen to do nothing before it is given up."""

SEVERITIES = {"INTERNAL_ERROR": "error", "ERROR": "error", "WARNING": "warning", "INFO": "info"}


def fixed_addresses() -> bool:
    """Whether the system let us have memory at addresses that aren't randomized."""
    return bool(ctypes.CDLL(None).personality(0xFFFFFFFF) & ADDR_NO_RANDOMIZE)


def new_logger(trt: Any, log: list[tuple[str, str]]) -> Any:
    """A logger that adds severity and text to ``log``, all but the verbose."""

    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            kind = SEVERITIES.get(str(severity).rsplit(".", 1)[-1])
            if kind is not None:
                log.append((kind, message))

    return Logger()


def parser_errors(parser: Any) -> list[dict[str, Any]]:
    """What the ONNX parser refused, and at which node of the main graph."""
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    return [
        {
            "node": error.node(),
            "name": _called(error, "node_name"),
            "op": _called(error, "node_operator"),
            "text": error.desc(),
            "code": str(error.code()).rsplit(".", 1)[-1],
        }
        for error in errors
    ]


def _called(error: Any, method: str) -> str:
    return str(getattr(error, method)()) if hasattr(error, method) else ""


def support(request: Mapping[str, Any], trt: Any, log: list[tuple[str, str]]) -> dict[str, Any]:
    """What the parser says of a model, without making a network of it.

    Args:
        request: ``onnx``: the file; ``plugins``: libraries that are loaded.
        trt: The library's module.
        log: What it logs is added: severity and text.

    Returns:
        ``supported``; ``errors``; ``taken``: indices of the nodes that the parser takes.
    """
    logger = new_logger(trt, log)
    load_plugins(trt, logger, request["plugins"])
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(trt))
    parser = trt.OnnxParser(network, logger)
    content = Path(request["onnx"]).read_bytes()
    supported = parser.supports_model_v2(content, request["onnx"])
    return {
        "supported": bool(supported),
        "errors": parser_errors(parser),
        "taken": sorted(
            node
            for index in range(parser.num_subgraphs)
            if parser.is_subgraph_supported(index)
            for node in parser.get_subgraph_nodes(index)
        ),
    }


def build(request: Mapping[str, Any], trt: Any, log: list[tuple[str, str]]) -> dict[str, Any]:
    """Parses, sets up, builds, writes the plan.

    Args:
        request: ``onnx``, ``plan`` and ``timing_cache``: files; ``options``; ``dry``: nothing is
            built; ``inspect``: the engine's layers are given too, which needs a GPU.
        trt: The library's module.
        log: What it logs is added: severity and text.

    Returns:
        ``stage``: ``parse``, ``missing`` or ``build`` where it ended there, else ``done``; with it
        what is known by then: ``errors``, ``missing``, ``seconds`` by step, the plan's ``sha256``,
        the network.
    """
    options, taken = request["options"], {}
    start = time.perf_counter()
    logger = new_logger(trt, log)
    load_plugins(trt, logger, options["plugins"])
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(trt))
    parser = trt.OnnxParser(network, logger)
    taken["prepare"] = time.perf_counter() - start
    start = time.perf_counter()
    if not parser.parse_from_file(request["onnx"]):
        return {"stage": "parse", "errors": parser_errors(parser)}
    taken["parse"] = time.perf_counter() - start
    described = describe(trt, network)
    if request.get("dry"):
        return {"stage": "done", "seconds": taken, **described}
    try:
        config = set_up(trt, builder, network, options, request.get("timing_cache"))
    except Missing as error:
        return {"stage": "missing", "missing": error.missing}
    start = time.perf_counter()
    plan = builder.build_serialized_network(network, config)
    taken["build"] = time.perf_counter() - start
    if plan is None:
        return {"stage": "build", "seconds": taken, **described}
    start = time.perf_counter()
    sha256 = write_and_digest(Path(request["plan"]), memoryview(plan))
    taken["write"] = time.perf_counter() - start
    if request.get("timing_cache"):
        keep_timings(config, request["timing_cache"])
    answer = {"stage": "done", "seconds": taken, "sha256": sha256, **described}
    if request.get("inspect"):
        answer["engine"] = inspect(trt, logger, plan)
    return answer


def keep_timings(config: Any, path: str) -> None:
    """Writes the timing cache as it is after the build; it appears whole."""
    cache = config.get_timing_cache()
    if cache is not None:
        written = Path(f"{path}.{os.getpid()}")
        written.write_bytes(memoryview(cache.serialize()))
        written.replace(path)


def inspect(trt: Any, logger: Any, plan: Any) -> list[Any]:
    """The engine's layers, as its inspector tells them. That needs a GPU.

    Args:
        trt: The library's module.
        logger: The library's.
        plan: The engine's bytes.

    Returns:
        The layers; empty where the plan can't be loaded.
    """
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    if engine is None:
        return []
    text = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    layers: list[Any] = json.loads(text).get("Layers", [])
    return layers


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"build": build, "support": support}


def work(module: str, requests: queue.Queue[Any], answers: queue.Queue[Any]) -> None:
    """Loads the library, says so by an empty answer, does what the first request says.

    Args:
        module: The library's, by name.
        requests: Gives a number and a request.
        answers: Takes the answers.
    """
    log: list[tuple[str, str]] = []
    start = time.perf_counter()
    failed: Exception | None = None
    trt: Any = None
    try:
        trt = importlib.import_module(module)
    except Exception as error:  # whatever the library raises is the answer, once it is asked for
        failed = error
    loaded = time.perf_counter() - start
    answers.put({})
    number, request = requests.get()
    try:
        if failed is not None:
            raise failed
        result = TASKS[request["task"]](request, trt, log)
        result.setdefault("seconds", {})["load"] = loaded
        facts = {"version": trt.__version__, "fixed_addresses": fixed_addresses(), "log": log}
        answers.put({"id": number, "result": {**result, **facts}})
    except Exception as error:  # whatever the library raises is the answer
        answers.put({"id": number, "error": told(error, log)})


def guarded(module: str, requests: queue.Queue[Any], answers: queue.Queue[Any]) -> None:
    """As :func:`work`; what even its own handling of errors raises ends the process.

    Args:
        module: The library's, by name.
        requests: Gives a number and a request.
        answers: Takes the answers.
    """
    try:
        work(module, requests, answers)
    except BaseException as error:  # mostly MemoryError: nothing that needs more can be done
        os.write(2, type(error).__name__.encode() + b"\n")
        os._exit(1)


def told(error: Exception, log: list[tuple[str, str]]) -> dict[str, Any]:
    """An error as an answer has it."""
    kind = "dependency" if isinstance(error, (ImportError, OSError)) else "source"
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SettingsError):
        kind, text = error.kind, str(error)
    if isinstance(error, MemoryError) or (kind == "dependency" and unmapped(text)):
        kind = "memory"
    if isinstance(error, OSError) and has_no_space(error):
        kind = "space"
    return {
        "kind": kind,
        "message": text,
        "details": [text for severity, text in log if severity == "error"],
        "traceback": traceback.format_exc(),
    }


def has_no_space(reason: OSError) -> bool:
    """Whether the disk, a quota or a limit on files left no room."""
    return reason.errno in _NO_SPACE


def unmapped(text: str) -> bool:
    """Whether a library that is said not to be there only didn't fit into memory.

    The vendor's package tries each of its own before, and passes over what that says.
    """
    if "failed to map segment" in text or "annot allocate memory" in text:
        return True
    name = text.split(": cannot open shared object file")[0].split(" ")[-1]
    for folder in sys.path:
        for file in Path(folder).glob(f"tensorrt*/{name}"):
            try:
                ctypes.CDLL(str(file))
            except OSError as error:
                return "failed to map segment" in str(error) or "annot allocate" in str(error)
    return False


def awaited(answers: queue.Queue[Any], module: str) -> Any:
    """The answer; ends the process where the library never gives one.

    TensorRT-RTX waits for ever for a thread that it had no memory to start. It only computes, so
    that a process which used no time of a processor for long has come to that.
    """
    idle, used = 0, time.process_time()
    while idle < LOOKS or module != "tensorrt_rtx":
        with suppress(queue.Empty):
            return answers.get(timeout=LOOK_SECONDS)
        now = time.process_time()
        idle, used = (0 if now - used > LOOK_SECONDS / 100 else idle + 1), now
    os.write(2, b"all threads wait for one another: out of memory\n")
    os._exit(1)


def main() -> None:
    """Keeps standard output for the answer; what a library prints goes to standard error."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # however the tool ends
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module = sys.argv[1]
    if module == "tensorrt_rtx":  # the other times kernels, and gives other bytes every time
        one_core()
    requests: queue.Queue[Any] = queue.Queue()
    answers: queue.Queue[Any] = queue.Queue()
    threading.stack_size(64 << 20)  # its alignment: the heap's place depends on nothing before it
    threading.Thread(target=guarded, args=(module, requests, answers), daemon=True).start()
    answers.get()  # one after the other, or their memory would lie as it happens
    request = json.loads(sys.stdin.buffer.readline() or b"{}")
    if request:
        params = request["params"]
        os.chdir(params["folder"])
        requests.put((request["id"], params))
        with suppress(BrokenPipeError):  # nobody waits for it any more
            out.write(json.dumps(awaited(answers, module)) + "\n")
            out.flush()
    sys.stderr.flush()
    os._exit(0)  # the libraries' destructors have nothing to do for us


if __name__ == "__main__":
    main()
