"""The process of one build: ``python -P -m emitters.tensorrt.build_child``.

It answers one request and ends: after a build that failed, the next in the same process comes
out different. One JSON object a line comes in and goes out, as in :mod:`converter.child`.

    {"id": 1, "method": "build", "params": {"folder": "/tmp/x", "gpu": false}}

What is to be done lies in ``request.json`` in that folder, and so do the files; the process starts
itself anew there, with the same few variables and the addresses of memory not randomized: the
builder orders things by their addresses, and only so gives the same bytes every time.

Only the standard library and the vendor's are used here.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
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
from emitters.tensorrt.child_settings import Missing, Refused, network_flags, set_up

REQUEST = "request.json"

_ADDR_NO_RANDOMIZE = 0x0040000  # sys/personality.h
_PR_SET_PDEATHSIG = 1  # sys/prctl.h

_KEPT = ("LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONFAULTHANDLER")
_KEPT_PREFIXES = ("CUDA", "NVIDIA", "NV_", "TRT")
_KEPT_ON_GPUS = ("PATH", "HOME")  # the driver keeps what it compiled under HOME

SEVERITIES = {"INTERNAL_ERROR": "error", "ERROR": "error", "WARNING": "warning", "INFO": "info"}


def start_anew(number: int, folder: str, gpu: bool) -> None:
    """Replaces this process by one that works in ``folder``; doesn't return."""
    os.chdir(folder)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # end with the tool, however it ends
    libc.personality(libc.personality(0xFFFFFFFF) | _ADDR_NO_RANDOMIZE)
    names = (*_KEPT, *(_KEPT_ON_GPUS if gpu else ()))
    kept = {
        name: text
        for name, text in os.environ.items()
        if name in names or name.startswith(_KEPT_PREFIXES)
    }
    argv = [sys.executable, "-P", "-m", "emitters.tensorrt.build_child", str(number)]
    os.execve(sys.executable, argv, kept)


def fixed_addresses() -> bool:
    """Whether the system let us have memory at addresses that aren't randomized."""
    return bool(ctypes.CDLL(None).personality(0xFFFFFFFF) & _ADDR_NO_RANDOMIZE)


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


def load_plugins(trt: Any, logger: Any, paths: list[str]) -> None:
    """The library's own plugins where it has such, and those that were named."""
    if hasattr(trt, "init_libnvinfer_plugins"):
        trt.init_libnvinfer_plugins(logger, "")
    for path in paths:
        if trt.get_plugin_registry().load_library(path) is None:
            raise Refused("usage", f"--plugin {Path(path).name}: it can't be loaded as plugins")


def support(request: Mapping[str, Any], trt: Any, log: list[tuple[str, str]]) -> dict[str, Any]:
    """What the parser says of a model, without making a network of it."""
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
    """Parses, sets up, builds, writes the plan; says how far it came.

    ``stage`` is ``parse``, ``missing``, ``build`` where it ended there, ``done`` else.
    """
    logger, options, taken = new_logger(trt, log), request["options"], {}
    load_plugins(trt, logger, options["plugins"])
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(trt))
    parser = trt.OnnxParser(network, logger)
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
        return {"stage": "build", "seconds": taken}
    start = time.perf_counter()
    with Path(request["plan"]).open("wb") as file:
        file.write(memoryview(plan))
    taken["write"] = time.perf_counter() - start
    if request.get("timing_cache"):
        keep_timings(config, request["timing_cache"])
    answer = {"stage": "done", "seconds": taken, **described}
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
    """The engine's layers, as its inspector tells them (needs a GPU)."""
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    if engine is None:
        return []
    text = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    layers: list[Any] = json.loads(text).get("Layers", [])
    return layers


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"build": build, "support": support}


def work(number: int) -> dict[str, Any]:
    """Does what ``request.json`` says; gives the line to answer with."""
    log: list[tuple[str, str]] = []
    try:
        request = json.loads(Path(REQUEST).read_text())
        start = time.perf_counter()
        trt = importlib.import_module(request["module"])
        loaded = time.perf_counter() - start
        result = TASKS[request["task"]](request, trt, log)
        result.setdefault("seconds", {})["load"] = loaded
        facts = {"version": trt.__version__, "fixed_addresses": fixed_addresses(), "log": log}
        return {"id": number, "result": {**result, **facts}}
    except Exception as error:  # whatever the library raises is the answer
        kind = "dependency" if isinstance(error, (ImportError, OSError)) else "source"
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, Refused):
            kind, text = error.kind, str(error)
        return {
            "id": number,
            "error": {
                "kind": kind,
                "message": text,
                "details": [text for severity, text in log if severity == "error"],
                "traceback": traceback.format_exc(),
            },
        }


def in_thread(number: int) -> dict[str, Any]:
    """As :func:`work`, in a thread: the C library gives it a heap of its own, at an address that
    doesn't depend on what this process has done before (64 MiB is its alignment)."""
    answers: list[dict[str, Any]] = []
    threading.stack_size(64 << 20)
    thread = threading.Thread(target=lambda: answers.append(work(number)))
    thread.start()
    thread.join()
    return answers[0]


def main() -> None:
    """Keeps standard output for the answer; what a library prints goes to standard error."""
    if len(sys.argv) == 1:
        request = json.loads(sys.stdin.buffer.readline() or b"{}")
        if request:
            start_anew(request["id"], **request["params"])
        return
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with suppress(BrokenPipeError):  # nobody waits for it any more
        answers.write(json.dumps(in_thread(int(sys.argv[1]))) + "\n")
        answers.flush()
    sys.stderr.flush()
    os._exit(0)  # the libraries' destructors have nothing to do for us


if __name__ == "__main__":
    main()
