"""Latency of a callable, measured by wall clock."""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, List, Union


def _timed(call: Callable[[], object], runs: int) -> List[int]:
    durations = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        call()
        durations.append(time.perf_counter_ns() - start)
    return durations


def _share(runs: int, workers: int) -> List[int]:
    """`runs` split as evenly as possible; no worker is left without one."""
    workers = min(workers, runs)
    return [runs // workers + (1 if index < runs % workers else 0) for index in range(workers)]


def measure(
    call: Callable[[], object], runs: int, concurrency: int
) -> Dict[str, Union[int, List[int]]]:
    """Call something repeatedly, from several threads. Raises what it raises.

    Args:
        call: What is measured.
        runs: How many calls in all.
        concurrency: How many threads call.

    Returns:
        ``ns``: how long each call took, in nanoseconds; ``total_ns``: wall time of the whole.
    """
    if concurrency <= 1:
        start = time.perf_counter_ns()
        durations = _timed(call, runs)
        return {"ns": durations, "total_ns": time.perf_counter_ns() - start}
    shares = _share(runs, concurrency)
    results: List[List[int]] = [[] for _ in shares]
    failures: List[BaseException] = []
    gate = threading.Barrier(len(shares) + 1)

    def work(index: int) -> None:
        gate.wait()
        try:
            results[index] = _timed(call, shares[index])
        # Kept for the caller's thread: it knows what to make of it.
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(shares))]
    for thread in threads:
        thread.start()
    gate.wait()
    start = time.perf_counter_ns()
    for thread in threads:
        thread.join()
    total = time.perf_counter_ns() - start
    if failures:
        raise failures[0]
    return {"ns": [duration for part in results for duration in part], "total_ns": total}
