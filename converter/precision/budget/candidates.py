"""Evaluates several candidates at a time, with the results that one after the other gives.

Each candidate is an evaluation by itself. It gets its share of the cores: pools of threads that
share cores wait for each other.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from converter.ir.model import Model
from converter.machine import describe_machine
from converter.runtime import memory

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST = 8
"""Candidates at a time: Python's part of each is done by one thread at a time."""

_COPIES = 3
"""Times the weights that a candidate holds at most: in float, lowered, packed by its session."""


@dataclass(frozen=True)
class Beside:
    """How candidates run.

    Attributes:
        workers: How many at a time.
        threads: Of each one's session.
    """

    workers: int
    threads: int

    @classmethod
    def of(cls, model: Model) -> Beside:
        """As many as the cores and the memory allow."""
        cores = max(1, int(describe_machine().usable))
        held = sum(tensor.nbytes for value in model.initializers()
                   if (tensor := value.const_value) is not None)  # fmt: skip
        here = memory.Memory.here()
        own = os.getpid()
        room = here.room(memory.taken([own, *memory.family(own)])) if here else 0
        fit = room // (_COPIES * held + 1)
        workers = max(1, min(cores, _MOST, fit))
        return cls(workers, max(1, cores // workers))

    def each(
        self, evaluate: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Result, None, None]:
        """What each item gives, in the items' order; closed early, it waits for those that run.

        Args:
            evaluate: Called in several threads.
            items: Taken one by one, as there is room.
        """
        if self.workers == 1:
            yield from map(evaluate, items)
            return
        begun: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="candidate") as pool:
            try:
                for item in items:
                    begun.append(pool.submit(evaluate, item))
                    if len(begun) > self.workers:
                        yield begun.popleft().result()
                while begun:
                    yield begun.popleft().result()
            finally:
                for future in begun:
                    future.cancel()
