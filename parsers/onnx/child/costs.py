"""The worker's methods for what an ONNX model costs in ONNX Runtime: memory, time by operator.

Nothing else is loaded in the process: what it holds is the runtime's and the model's.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...worker import resident
from ...worker.backend import FrameworkBackend
from ...worker.errors import WorkerError
from ...worker.packages import require

_CPU = "CPUExecutionProvider"
_INFO, _QUIET = 1, 4
_ARENA = re.compile(rb"Total allocated bytes: (\d+)")
"""What ONNX Runtime logs where its arena grows (`core/framework/bfc_arena.cc`)."""

_WITH_BODIES = frozenset({"If", "Loop", "Scan"})
_WARM_RUNS = 3
_LARGE = 1 << 30
"""Bytes up to which the graph that ran is written: a protobuf holds two of them at most."""
_END = "_kernel_time"


class OnnxRuntimeBackend(FrameworkBackend):
    """One file, opened for each call."""

    PACKAGES = ("onnxruntime", "numpy")
    METHODS = ("hello", "warm", "memory", "profile")

    def warm(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Import ONNX Runtime. Raises dependency."""
        return {"version": _runtime().__version__}

    def memory(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What is resident, and how much its arena took: {"phases", "arena"}.

        `file`, `feeds` (.npz), `seconds` of running; `threads` and `without`, optimizations that
        are left out, where given. `arena` is None without one.
        """
        runtime = _runtime()
        feeds = _read(params["feeds"])

        def opened() -> Any:
            session = _session(params, runtime.SessionOptions())
            return lambda: session.run(None, feeds)

        with _logged(runtime) as sizes, _failing():
            phases = resident.measure(opened, float(params["seconds"]))
        return {"phases": phases, "arena": max(sizes, default=None)}

    def profile(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Microseconds of a run, whole and by node: {"runs", "us", "nodes": [...]}.

        Params as of `memory`. Each node has `name`, `op`, `place` (its provider), `us`, without
        what runs within it, and the names of its `outputs`, in the graph that ONNX Runtime made of
        the model, where that isn't too large to be written.
        """
        runtime = _runtime()
        feeds = _read(params["feeds"])
        options = runtime.SessionOptions()
        with tempfile.TemporaryDirectory() as folder, _failing():
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(folder) / "runs")
            made = Path(folder) / "made.onnx"
            if _size(Path(params["file"])) <= _LARGE:
                options.optimized_model_filepath = str(made)
            session = _session(params, options)
            for _ in range(_WARM_RUNS):
                session.run(None, feeds)
            runs = resident.repeat(lambda: session.run(None, feeds), float(params["seconds"]))
            events = json.loads(Path(session.end_profiling()).read_text())
            found = _by_node(events, runs)
            outputs = _outputs(made)
        for node in found["nodes"]:
            node["outputs"] = outputs.get(node["name"], [])
        return {"runs": runs, **found}


def _by_node(events: list[dict[str, Any]], runs: int) -> dict[str, Any]:
    """The mean of the last `runs` runs."""
    whole = sorted((e for e in events if e["name"] == "model_run"), key=lambda e: e["ts"])[-runs:]
    begun = whole[0]["ts"]
    nodes = [
        event for event in events
        if event["cat"] == "Node" and event["name"].endswith(_END) and event["ts"] >= begun
    ]  # fmt: skip
    spent: dict[tuple[str, str, str], float] = defaultdict(float)
    for event, own in _own_times(nodes):
        args = event["args"]
        place = args.get("provider", "").replace("ExecutionProvider", "").lower()
        spent[event["name"].removesuffix(_END), args["op_name"], place] += own / runs
    return {
        "us": sum(event["dur"] for event in whole) / runs,
        "nodes": [
            {"name": name, "op": op, "place": place, "us": us}
            for (name, op, place), us in spent.items()
        ],
    }


def _size(file: Path) -> int:
    """Bytes of a model with what lies beside it, its weights among that."""
    return sum(item.stat().st_size for item in file.parent.iterdir() if item.is_file())


def _outputs(made: Path) -> dict[str, list[str]]:
    """By node of a file, the names of its outputs."""
    if not made.exists():
        return {}
    onnx = require("onnx", "onnx", "to read the graph that ran")
    return {node.name: list(node.output) for node in onnx.load(made).graph.node}


def _own_times(events: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], float]]:
    """Each event with its time, less that of those within it: an If's, of its branch's nodes."""
    inside: dict[int, float] = defaultdict(float)
    around: list[dict[str, Any]] = []
    ordered = sorted(events, key=lambda e: (e["ts"], -e["dur"]))
    for event in ordered:
        while around and around[-1]["ts"] + around[-1]["dur"] < event["ts"] + event["dur"]:
            around.pop()
        if around:
            inside[id(around[-1])] += event["dur"]
        if event["args"]["op_name"] in _WITH_BODIES:
            around.append(event)
    for event in ordered:
        yield event, max(0.0, event["dur"] - inside[id(event)])


def _session(params: Mapping[str, Any], options: Any) -> Any:
    options.log_severity_level = _QUIET
    if params.get("threads"):
        options.intra_op_num_threads = int(params["threads"])
    return _runtime().InferenceSession(
        params["file"], options, providers=[_CPU],
        disabled_optimizers=list(params.get("without") or ()),
    )  # fmt: skip


@contextmanager
def _logged(runtime: Any) -> Iterator[list[int]]:
    """Afterwards, how many bytes its arena held each time that it had grown."""
    sizes: list[int] = []
    with tempfile.TemporaryFile() as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        runtime.set_default_logger_severity(_INFO)
        try:
            yield sizes
        finally:
            runtime.set_default_logger_severity(_QUIET)
            os.dup2(stderr, 2)
            os.close(stderr)
            log.seek(0)
            sizes += map(int, _ARENA.findall(log.read()))


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except WorkerError:
        raise
    except Exception as error:  # its own exception classes share no public base
        raise WorkerError(
            "source", f"ONNX Runtime failed: {error}", code="runtime-failed"
        ) from error


def _read(path: str) -> dict[str, Any]:
    import numpy as np

    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _runtime() -> Any:
    return require("onnxruntime", "onnxruntime", "to run ONNX models")
