"""Joins requests that wait at the same time into one run of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from inference import Arrays, Model


class Batcher:
    """Of one event loop: requests that come while a batch runs are the next batch.

    Args:
        model: What runs, in a thread, a batch at a time.
        largest: Rows that requests are joined up to; 1 where none are.
        delay: Seconds that the first request of a batch waits for others, where no batch runs.
    """

    def __init__(self, model: Model, largest: int, delay: float) -> None:
        self._model = model
        self._largest = largest
        self._delay = delay
        self._waiting: list[tuple[Arrays, asyncio.Future[Arrays]]] = []
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1)

    async def run(self, feeds: Arrays) -> Arrays:
        """The outputs of one request."""
        answer: asyncio.Future[Arrays] = asyncio.get_running_loop().create_future()
        self._waiting.append((feeds, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await answer

    async def run_all(self, requests: Sequence[Arrays]) -> list[Arrays]:
        """The outputs of several."""
        return list(await asyncio.gather(*map(self.run, requests)))

    async def _work(self) -> None:
        await asyncio.sleep(self._delay)
        while self._waiting:
            taken = self._take()
            requests = [feeds for feeds, _ in taken]
            run = asyncio.get_running_loop().run_in_executor(
                self._thread, self._model.run, requests
            )
            try:
                results = await run
            except Exception as error:  # it is each caller's, who is told
                for _, answer in taken:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), outputs in zip(taken, results, strict=True):
                if not answer.done():  # its caller may have gone
                    answer.set_result(outputs)

    def _take(self) -> list[tuple[Arrays, asyncio.Future[Arrays]]]:
        """The requests that fit into one batch, from the front."""
        rows, count = 0, 0
        for feeds, _ in self._waiting:
            rows += self._model.rows(feeds)
            if count and rows > self._largest:
                break
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken
