"""``tflite_run.py FILE ...``: the median latency of each file in LiteRT, in milliseconds, in turns.

Inputs are seeded normal numbers, and ones for integers; a free dimension is 1. LiteRT has its
default delegate (XNNPACK) and as many threads as there are cores.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from ai_edge_litert.interpreter import Interpreter

ROUNDS = 15
UNMEASURED = 3


def runner(file: str) -> Callable[[], None]:
    """A call that runs the file once on inputs that are set."""
    interpreter = Interpreter(file, num_threads=len(os.sched_getaffinity(0)))
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for item in interpreter.get_input_details():
        dtype, shape = np.dtype(item["dtype"]), tuple(item["shape"])
        feed = rng.standard_normal(shape) if dtype.kind == "f" else np.ones(shape)
        interpreter.set_tensor(item["index"], feed.astype(dtype))
    return lambda: interpreter.invoke()


if __name__ == "__main__":
    calls = [runner(file) for file in sys.argv[1:]]
    times: list[list[float]] = [[] for _ in calls]
    for number in range(UNMEASURED + ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if number >= UNMEASURED:
                taken.append((time.perf_counter() - start) * 1000)
    print(*(statistics.median(taken) for taken in times))
