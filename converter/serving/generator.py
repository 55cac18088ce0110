"""The load generator, a process of its own: ``own.py converter.serving.generator JOB.json``.

Threads ask over a connection each, with requests that were made before, and note when each was sent
and answered. Closed loop: a thread asks again as soon as it has its answer. Open loop: requests are
due at the moments of a Poisson process, whoever is free sends the next one, and its latency counts
from when it was due, so that a server which falls behind can't hide it by slowing its clients down
(Schroeder, Wierman, Harchol-Balter: "Open Versus Closed", NSDI 2006).

Each answer is compared with the one that the same request got alone: bytes first, and where they
differ, the values. The process measures its own CPU time: what it takes, the server lacks.

Once every connection has had an answer, the process says ``ready`` and waits for a line, so that
who started it can look at the server before any request that counts.
"""

from __future__ import annotations

import json
import math
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from converter.serving.address import Address
from converter.serving.remote import open_wire
from converter.serving.wire import Asker, ErrorAnswer, Wire

READY = "ready"
"""What it says once it is: a line on stdout. It goes on after one on stdin."""

TOLERANCE = 1e-3
"""Of an output's largest value: servers batch requests, and other sizes round differently."""


@dataclass
class Tally:
    """What the threads count, each under the lock."""

    latencies: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    last: int = 0


class Generator:
    """One point: so many connections, for so long or so many requests.

    Args:
        wire: Asks the server.
        requests: They are sent in turn.
        job: ``connections``, ``seconds``, ``count`` (or None), ``rate`` (or None), ``seed``.
    """

    def __init__(self, wire: Wire, requests: Sequence[bytes], job: dict[str, Any]) -> None:
        self._wire, self._requests, self._job = wire, requests, job
        self._answers: list[bytes] = []
        self._lock, self._tally = threading.Lock(), Tally()
        self._turns: Iterator[tuple[int, float | None]] = iter(())
        self._start = threading.Barrier(job["connections"] + 1)
        self._began = 0.0

    def run(self, warm: Callable[[], object]) -> dict[str, Any]:
        """Sends everything; gives what came of it, as JSON has it.

        Args:
            warm: Called once every connection is open and has had an answer.
        """
        first = self._wire.connect()
        self._answers = [first.ask(request) for request in self._requests]
        first.close()
        count = self._job["connections"]
        threads = [threading.Thread(target=self._work, args=(n,)) for n in range(count)]
        for thread in threads:
            thread.start()
        self._start.wait()
        warm()
        cpu, self._began = time.process_time(), time.perf_counter()
        self._turns = self._schedule()
        self._start.wait()
        for thread in threads:
            thread.join()
        end = max(self._tally.last / 1e9, self._began)
        return self._result(end - self._began, time.process_time() - cpu)

    def _schedule(self) -> Iterator[tuple[int, float | None]]:
        """Number and due time of each request; None where it is due at once."""
        count, rate = self._job["count"] or math.inf, self._job["rate"]
        end = math.inf if self._job["count"] else self._began + self._job["seconds"]
        number, due, dice = 0, self._began, random.Random(self._job["seed"])
        while number < count:
            due += dice.expovariate(rate) if rate else 0
            if (due if rate else time.perf_counter()) >= end:
                return
            yield number, due if rate else None
            number += 1

    def _work(self, number: int) -> None:
        asker = self._wire.connect()
        try:
            self._ask(asker, number % len(self._requests), time.perf_counter_ns())
        finally:
            self._start.wait()
            self._start.wait()
        while True:
            with self._lock:
                turn = next(self._turns, None)
            if turn is None:
                break
            which, due = turn
            sent = time.perf_counter()
            if due is not None and due > sent:
                time.sleep(due - sent)
            began = time.perf_counter_ns() if due is None else int(due * 1e9)
            if due is not None:
                self._tally.late.append(time.perf_counter_ns() - began)
            self._ask(asker, which % len(self._requests), began, count=True)
        asker.close()

    def _ask(self, asker: Asker, which: int, began: int, count: bool = False) -> None:
        problem, wrong = "", False
        try:
            answer = asker.ask(self._requests[which])
        except (ErrorAnswer, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        end = time.perf_counter_ns()
        if not problem and answer != self._answers[which]:
            wrong = not alike(self._wire, answer, self._answers[which])
        if not count:
            return
        with self._lock:
            self._tally.last = max(self._tally.last, end)
            if problem:
                self._tally.errors[problem] += 1
            else:
                self._tally.latencies.append(end - began)
                self._tally.wrong += wrong

    def _result(self, seconds: float, cpu: float) -> dict[str, Any]:
        tally = self._tally
        times = sorted(nanoseconds / 1e6 for nanoseconds in tally.latencies)
        late = sorted(nanoseconds / 1e6 for nanoseconds in tally.late)
        return {
            "n": len(times),
            "seconds": seconds,
            "cpu_s": cpu,
            "errors": sum(tally.errors.values()),
            "error_texts": dict(tally.errors.most_common(3)),
            "wrong": tally.wrong,
            "mean_ms": sum(times) / len(times) if times else None,
            "max_ms": times[-1] if times else None,
            "late_p99_ms": percentile(late, 99),
            **{f"p{rank}_ms": percentile(times, rank) for rank in (50, 90, 95, 99)},
        }


def alike(wire: Wire, answer: bytes, expected: bytes) -> bool:
    """Whether two answers say the same, but for how other batches round.

    Args:
        wire: Reads answers of its protocol.
        answer: An answer's body.
        expected: The body of the answer that is right.
    """
    import numpy as np

    try:
        found, wanted = wire.decode(answer), wire.decode(expected)
    except (ValueError, KeyError, TypeError):
        return False
    if found.keys() != wanted.keys():
        return False
    for name, array in wanted.items():
        other = found[name]
        if array.dtype.kind not in "fV":
            if not np.array_equal(array, other):
                return False
            continue
        real, theirs = array.astype(np.float64), other.astype(np.float64)
        scale = np.max(np.abs(real[np.isfinite(real)]), initial=0.0)
        near = real.shape == theirs.shape and np.allclose(
            real, theirs, rtol=0, atol=TOLERANCE * scale, equal_nan=True
        )
        if not near:
            return False
    return True


def percentile(ordered: Sequence[float], rank: int) -> float | None:
    """By linear interpolation between order statistics; None where fewer than one value is expected
    beyond it."""
    if not ordered or (rank > 50 and len(ordered) * (100 - rank) < 100):
        return None
    place = (len(ordered) - 1) * rank / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _say_ready() -> None:
    print(READY, flush=True)
    sys.stdin.readline()


def main() -> None:
    """Carries out the job in a file; prints what came of it."""
    folder = Path(sys.argv[1]).parent
    job = json.loads(Path(sys.argv[1]).read_bytes())
    wire = open_wire(Address(**job["address"]), keys=tuple(job["keys"]))
    requests = [(folder / name).read_bytes() for name in job["requests"]]
    try:
        print(json.dumps(Generator(wire, requests, job).run(_say_ready)))
    except (ErrorAnswer, OSError) as error:
        print(json.dumps({"failed": str(error)}))


if __name__ == "__main__":
    main()
