"""Which of ONNX Runtime's kernels a model's time goes to, by its profiler."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from converter.ir.model import BATCH, Model, TensorSpec

RUNS = 50
"""Of which each node's median counts; as many before them don't."""

NAMED = 4
"""Operators that are named, those that take most first."""

SIZES = (1, 512)
"""Of free dimensions: no window is longer than the second, of the models that have windows."""


def profile(model: Path, runs: int = RUNS) -> Mapping[str, tuple[int, float]]:
    """By operator, as the CPU runs it in one thread: nodes, and microseconds of all of them.

    Inputs are zeros at batch 1, and at the first of :data:`SIZES` along other free dimensions at
    which the model runs. To profile costs time: shares count, not sums.

    Args:
        model: An ONNX file.
        runs: Of which each node's median counts; as many before them don't.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder) / "runs")
        session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        feeds = _running(session, Model.load(model).inputs)
        for _ in range(2 * runs):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
    return _by_operator(events, runs)


def most(found: Mapping[str, tuple[int, float]]) -> str:
    """The operators that take most of the time, with their shares and how many nodes they have."""
    whole = sum(seen for _, seen in found.values()) or 1.0
    named = list(found.items())[:NAMED]
    return ", ".join(f"{op} {seen / whole:.0%} ({count})" for op, (count, seen) in named)


def _by_operator(events: list[dict[str, Any]], runs: int) -> Mapping[str, tuple[int, float]]:
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            times[event["args"]["op_name"], event["name"]].append(event["dur"])
    count, spent = Counter(operator for operator, _ in times), Counter[str]()
    for (operator, _), taken in times.items():
        spent[operator] += statistics.median(taken[-runs:])  # type: ignore[assignment]
    return {operator: (count[operator], float(seen)) for operator, seen in spent.most_common()}


def _running(
    session: onnxruntime.InferenceSession, specs: Sequence[TensorSpec]
) -> dict[str, np.ndarray[Any, Any]]:
    """Zeros on which the model runs."""
    for size in SIZES[:-1]:
        with suppress(InvalidArgument):
            session.run(None, feeds := zeros(specs, size))
            return feeds
    return zeros(specs, SIZES[-1])


def zeros(specs: Sequence[TensorSpec], size: int = 1) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs of zeros, at batch 1, and at ``size`` along other free dimensions."""
    sizes = {spec.name: [_size(dim, size) for dim in spec.shape or ()] for spec in specs}
    return {spec.name: np.zeros(sizes[spec.name], spec.dtype) for spec in specs}


def _size(dim: int | str, size: int) -> int:
    return dim if isinstance(dim, int) else 1 if dim == BATCH else size
