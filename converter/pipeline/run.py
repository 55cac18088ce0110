"""Carries a plan out: in order, side by side where that is right, from the cache where it can.

What a step does is in :mod:`converter.pipeline.steps`; here is only when it does it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from converter.errors import GateError, MachineError, ModelError, ModelyardError
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan, Step
from converter.runtime import memory
from converter.runtime.child import end_children
from converter.runtime.session import Progress

WORKERS = 2
"""Steps side by side; each has threads of its own."""


SPARED = ("masks", "calibrate", "quantize", "emit", "check", "bench")
"""The kinds of steps without which other artifacts can be made."""


class Listener(Protocol):
    """Told how a run goes on; called from several threads."""

    def planned(self, plan: Plan) -> None: ...

    def started(self, step: Step) -> None: ...

    def progress(self, step: Step, text: str) -> None: ...

    def finished(self, step: Step, seconds: float, cached: bool) -> None: ...


class Silent:
    """A listener that says nothing."""

    def planned(self, plan: Plan) -> None:
        """Nothing."""

    def started(self, step: Step) -> None:
        """Nothing."""

    def progress(self, step: Step, text: str) -> None:
        """Nothing."""

    def finished(self, step: Step, seconds: float, cached: bool) -> None:
        """Nothing."""


class Action(Protocol):
    """What a kind of step does."""

    def run(self, step: Step, progress: Progress) -> Any:
        """Does it; gives its result."""

    def key(self, step: Step, needs: list[str], result: Any) -> str:
        """The key of its result: the step's own, or what only the result can tell."""

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """Its key and its result from the cache, where they are there."""

    def keep(self, key: str, result: Any, cache: Cache) -> None:
        """Puts its result into the cache."""


@dataclass(frozen=True)
class Done:
    """What a step gave."""

    step: Step
    key: str
    result: Any
    seconds: float
    cached: bool


def _give_way() -> None:
    """Has this thread run where a core is idle: models' threads wait for each other, and one that
    has to share its core holds all of them up."""
    if sys.platform == "linux":  # others know processes alone here
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


class Stopped(BaseException):
    """Ends a step from inside, at the next thing that it tells: the run has failed elsewhere, or
    its user wants no more of it. Nothing that steps catch catches it."""


class Run:
    """One run of a plan.

    Args:
        plan: The steps.
        actions: For each kind of step, what it does; may be added to before it is carried out.
        cache: Where results are kept.
        listener: Told how it goes.
        abort: Called once when a step fails while others run, to make those end soon.
        keep_going: Whether what doesn't depend on a step goes on where that can't be done.

    Attributes:
        plan: The steps; others from where :attr:`revise` says so.
        revise: Called after each step: what it gave may ask for another plan.
        done: What steps gave, by their ids.
        left: Why steps couldn't be done, by their ids: those that need them aren't here.
    """

    def __init__(
        self,
        plan: Plan,
        actions: Mapping[str, Action],
        cache: Cache,
        listener: Listener,
        abort: Callable[[], None],
        *,
        keep_going: bool = False,
    ) -> None:
        self.plan = plan
        self.revise: Callable[[Step], Plan | None] = lambda step: None
        self.actions = dict(actions)
        self._cache = cache
        self._listener = listener
        self._abort = abort
        self._keep_going = keep_going
        self._lock = threading.Lock()
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="keep", initializer=_give_way)
        self._kept: list[Future[None]] = []
        self._stopped = threading.Event()
        self.done: dict[str, Done] = {}
        self.left: dict[str, ModelyardError] = {}

    def result(self, id: str) -> Any:
        """What the step of that id gave."""
        return self.done[id].result

    def seconds(self) -> dict[str, float]:
        """How long each step took."""
        return {id: done.seconds for id, done in self.done.items()}

    def carry_out(self) -> None:
        """Runs every step; raises what the first failing one raises."""
        self._listener.planned(self.plan)
        waiting = list(self.plan.steps)
        running: dict[Future[None], Step] = {}
        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="step")
        try:
            while waiting or running:
                for step in self._startable(waiting, list(running.values())):
                    waiting.remove(step)
                    running[pool.submit(self._do, step)] = step
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    step = running.pop(future)
                    self._settle(step, future)
                    self._follow(self.revise(step))
                begun = {*self.done, *(step.id for step in running.values())}
                wanted = self.plan.wanted(self.left) - begun
                waiting = [step for step in self.plan.steps if step.id in wanted]
        except BaseException as error:  # an interrupt too ends what runs; all of it goes on
            self._stopped.set()
            try:
                self._abort()
            finally:
                if not isinstance(error, Exception):
                    end_children()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self._keeper.shutdown(wait=True)
        for kept in self._kept:
            kept.result()

    def leave_out(self, target: str, error: ModelyardError) -> None:
        """Has a target's artifacts not made: it can't take the model."""
        self.left |= {
            step.id: error
            for step in self.plan.steps
            if step.kind == "emit" and step.target == target
        }

    def _follow(self, plan: Plan | None) -> None:
        """Goes on with another plan, where there is one: what was done otherwise, or needs what
        was, isn't done any more."""
        if plan is None:
            return
        self.plan, anew = plan, set[str]()
        for step in plan.steps:
            done = self.done.get(step.id)
            if done is None or done.step != step or anew.intersection(step.needs):
                anew.add(step.id)
                self.done.pop(step.id, None)
        self._listener.planned(plan)

    def _settle(self, step: Step, future: Future[None]) -> None:
        """Raises what a step raised, unless the run goes on without it."""
        try:
            future.result()
        except (ModelError, GateError) as error:
            self.left[step.id] = error
            if not self._keep_going or step.kind not in SPARED:
                raise

    def _startable(self, waiting: list[Step], running: list[Step]) -> list[Step]:
        """The steps that can start now: what they need is done, and nobody measures time."""
        chosen: list[Step] = []
        for step in waiting:
            beside = [*running, *chosen]
            if not all(step.beside(other) for other in beside):
                continue
            if all(need in self.done for need in step.needs) and len(beside) < WORKERS:
                chosen.append(step)
        return chosen

    def _keep(self, action: Action, key: str, result: Any) -> None:
        """Puts a result into the cache; where that can't be, the run goes on without it."""
        try:
            action.keep(key, result, self._cache)
        except (MachineError, OSError) as error:
            self._cache.give_up(error)

    def _tell(self, step: Step, text: str) -> None:
        if self._stopped.is_set():
            raise Stopped
        self._listener.progress(step, text)

    def _do(self, step: Step) -> None:
        start = time.perf_counter()
        self._listener.started(step)
        action = self.actions[step.kind]
        needs = [self.done[need].key for need in step.needs]
        found = action.find(step, needs, self._cache) if step.kept else None
        if found:
            key, result = found
        else:
            result = action.run(step, lambda text: self._tell(step, text))
            key = action.key(step, needs, result)
            if step.kept:  # beside the next steps, which only read what is kept
                self._kept.append(self._keeper.submit(self._keep, action, key, result))
        memory.give_back()
        seconds = time.perf_counter() - start
        with self._lock:
            self.done[step.id] = Done(step, key, result, seconds, bool(found))
        self._listener.finished(step, seconds, bool(found))
