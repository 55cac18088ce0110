"""ONNX Runtime's GPU providers: how they are set up, what really ran on them, timing on the device.

A provider takes what it can of a graph and leaves the rest to the next: ``tensorrt`` to CUDA, CUDA
to the CPU. What went where is counted from ONNX Runtime's own record of the assignment.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from converter.errors import DependencyError, MachineError
from converter.files.cache_root import cache_root
from converter.runtime.session import Timing
from converter.text.words import one_line

CPU, CUDA, TENSORRT = (
    "CPUExecutionProvider",
    "CUDAExecutionProvider",
    "TensorrtExecutionProvider",
)
TIMES = "wall time of one run; inputs and outputs stay in the device's memory"

_RECORD = "session.record_ep_graph_assignment_info"
_LIBRARIES = ("cudart", "nvrtc", "nvJitLink", "cublasLt", "cublas", "curand", "cufft", "cudnn")
"""What the CUDA provider links, in an order in which each finds those that it needs loaded."""


def on_gpu(providers: Sequence[str]) -> bool:
    """Whether one of ONNX Runtime's provider names is a GPU's."""
    return any(name in (CUDA, TENSORRT) for name in providers)


def with_fallbacks(providers: Sequence[str]) -> list[str]:
    """ONNX Runtime's names, best first: TensorRT leaves nodes to CUDA, everything to the CPU."""
    chain = []
    for name in providers:
        chain += [name, CUDA] if name == TENSORRT else [name]
    return list(dict.fromkeys([*chain, CPU]))


def settings(provider: str) -> dict[str, str]:
    """The options a provider is opened with.

    TF32 is off, so that float32 means float32 in comparisons. Engines and timings of the TensorRT
    provider are kept in our cache, which it keys by graph, version and device; precision is in the
    graph, so that none of its precision flags are set.
    """
    if provider == CUDA:
        return {"use_tf32": "0"}
    if provider == TENSORRT:
        folder = cache_root().absolute() / "onnxruntime-tensorrt"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:  # nothing is kept then, and it takes longer
            return {}
        return {
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": str(folder),
            "trt_timing_cache_enable": "1",
            "trt_timing_cache_path": str(folder),
        }
    return {}


def prepare(providers: Sequence[str]) -> None:
    """Makes ready what the GPU providers among ONNX Runtime's names need.

    The TensorRT provider has no option for TF32: NVIDIA's libraries read it from the environment
    when they start, which a user may have set.
    """
    load_libraries()
    if TENSORRT in providers:
        os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
        with suppress(ImportError):  # TensorRT's own package loads its libraries
            importlib.import_module("tensorrt_libs")


@cache
def load_libraries() -> None:
    """Loads the libraries that the providers link from where Python packages put them.

    They may lie in another folder than ONNX Runtime, where it doesn't look. What isn't there is
    passed over: the system's own may serve, and if not, the provider doesn't start, which is
    told.
    """
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    for library in _LIBRARIES:
        for folder in folders:
            for file in sorted(folder.glob(f"*/lib/lib{library}*.so.*")):
                with suppress(OSError):
                    ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)


def open_session(
    model: Any,
    options: onnxruntime.SessionOptions,
    providers: Sequence[str],
    without: Sequence[str] = (),
) -> onnxruntime.InferenceSession:
    """A session that runs on what it was told to, and changes to nothing else when that fails.

    Args:
        model: A file's name, or its content.
        options: Threads, optimization level and the like, as ONNX Runtime takes them.
        providers: ONNX Runtime's own names, ``CUDAExecutionProvider``, best first.
        without: Names of its rewrites that are left out.

    Raises:
        DependencyError: A GPU provider doesn't start; without it, the model opens.
        MachineError: The GPU's memory is too small.
        Exception: As ONNX Runtime raises it, for anything else.
    """
    wanted = [(name, settings(name)) for name in providers]
    try:
        return onnxruntime.InferenceSession(
            model,
            options,
            providers=wanted,
            enable_fallback=0,
            disabled_optimizers=list(without) or None,
        )
    except Exception as error:  # its own exception classes share no public base
        if not on_gpu(providers):
            raise
        if is_out_of_memory(str(error)):
            raise MachineError(
                f"the model doesn't fit into the GPU's memory: {one_line(error)}",
                code="out-of-memory",
            ) from error
        onnxruntime.InferenceSession(model, onnxruntime.SessionOptions(), providers=[CPU])
        gpus = ", ".join(short(name) for name in providers if name != CPU)
        raise DependencyError(
            f"ONNX Runtime did not start {gpus}",
            code="device-missing",
            details=[one_line(line) for line in str(error).splitlines() if line.strip()],
            hint="`modelyard doctor` shows what this machine has.",
        ) from error


def is_out_of_memory(message: str) -> bool:
    """Whether ONNX Runtime's words are of spent memory (its arena's, or CUDA's error 2)."""
    return "Failed to allocate memory" in message or "out of memory" in message


def record_assignment(options: onnxruntime.SessionOptions) -> None:
    """Has the session keep which provider each node went to (ONNX Runtime 1.24 and newer)."""
    options.add_session_config_entry(_RECORD, "1")


def nodes_by_provider(session: onnxruntime.InferenceSession) -> dict[str, int]:
    """How many nodes of the graph went to each provider, by its short name.

    Nodes are counted as they were when they were assigned: before a provider fused its own into
    one. Empty where ONNX Runtime is too old to tell.
    """
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        return {}
    counts: Counter[str] = Counter()
    for part in ask():
        counts[short(part.ep_name)] += len(part.get_nodes())
    return dict(counts.most_common())


def short(provider: str) -> str:
    """``CUDA`` for ``CUDAExecutionProvider``."""
    return provider.removesuffix("ExecutionProvider")


def time_on_device(
    session: onnxruntime.InferenceSession,
    values: Mapping[str, onnxruntime.OrtValue],
    outputs: Sequence[str],
    runs: int,
    concurrency: int,
    device: str = "cuda",
) -> Timing:
    """Wall time of runs, without copies from and to the host.

    Args:
        session: With a GPU provider.
        values: Inputs by name, in whatever memory; they are used where they are.
        outputs: Names; they are left in the device's memory.
        runs: How often each caller runs the session.
        concurrency: How many threads run at once.
        device: Where outputs are left: ``cuda``, or ``cpu`` for a session without a GPU.

    Returns:
        ``runs * concurrency`` times in nanoseconds, and the wall time of all.
    """

    def caller() -> list[int]:
        binding = session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name in outputs:
            binding.bind_output(name, device)
        return [_one(session, binding) for _ in range(runs)]

    return timed(caller, concurrency)


def _one(session: onnxruntime.InferenceSession, binding: onnxruntime.IOBinding) -> int:
    start = time.perf_counter_ns()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    return time.perf_counter_ns() - start


def timed(caller: Callable[[], list[int]], concurrency: int) -> Timing:
    """What ``concurrency`` callers at once measure, and the wall time of all together."""
    start = time.perf_counter_ns()
    if concurrency == 1:
        taken = caller()
    else:
        with ThreadPoolExecutor(concurrency) as pool:
            done = pool.map(lambda _: caller(), range(concurrency))
            taken = [ns for one in done for ns in one]
    return Timing(tuple(taken), time.perf_counter_ns() - start)


def on_device(array: np.ndarray[Any, Any]) -> onnxruntime.OrtValue:
    """The array in the memory of the first GPU."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
