"""``profiled.py RUNTIME FILE SAMPLES``: microseconds by kernel, on one thread.

RUNTIME is ``onnxruntime`` or ``openvino``; FILE is in int8, since ONNX Runtime renames convolutions
in float32, which are told apart by what their modules are called. Each node counts with its median.
Prints JSON.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from runtime import OPENVINO, Feeds, read_samples  # type: ignore[import-not-found]

RUNS, UNMEASURED = 60, 40
Event = tuple[str, str, float]
"""A node's name, its operator, microseconds."""


def onnxruntime(file: str, feeds: Feeds) -> Iterable[Event]:
    """Each node of each run."""
    import onnxruntime as runtime

    with tempfile.TemporaryDirectory() as folder:
        options = runtime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        options.enable_profiling, options.profile_file_prefix = True, f"{folder}/runs"
        session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        for _ in range(UNMEASURED + RUNS):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            yield event["name"], event["args"]["op_name"], event["dur"]


def openvino(file: str, feeds: Feeds) -> Iterable[Event]:
    """Each node of each run."""
    import openvino as runtime  # type: ignore[import-not-found]

    core = runtime.Core()
    model = core.read_model(file)
    model.reshape({name: array.shape for name, array in feeds.items()})
    options = {**OPENVINO, "INFERENCE_NUM_THREADS": 1, "PERF_COUNT": True}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    for _ in range(UNMEASURED + RUNS):
        request.infer(feeds)
        for node in request.profiling_info:
            yield node.node_name, node.node_type, node.real_time.total_seconds() * 1e6


def kind(node: str, operator: str) -> str:
    """What a node counts as."""
    if "Conv" in operator:
        part = re.search("stem|depthwise", node)
        return part[0] if part else "other convolutions"
    if re.search("MatMul|Gemm|FullyConnected", operator):
        return "other products"
    return "sums" if operator.endswith("Add") else "all else"


def main(name: str, file: str, samples: str) -> None:
    """Profiles and prints.

    Args:
        name: ``onnxruntime`` or ``openvino``.
        file: The model's file.
        samples: An .npz; the first sample is run.
    """
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    for node, operator, microseconds in globals()[name](file, read_samples(samples, 1)[0]):
        taken[node, operator].append(microseconds)
    spent = Counter[str]()
    for (node, operator), times in taken.items():
        spent[kind(node, operator)] += statistics.median(times[UNMEASURED:])  # type: ignore[assignment]
    print(json.dumps(spent))


if __name__ == "__main__":
    main(*sys.argv[1:])
