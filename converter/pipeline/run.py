"""Carries a plan out: in order, side by side where that is right, from the cache where it can.

What a step does is in :mod:`converter.pipeline.steps`; here is only when it does it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from converter.errors import (
    BudgetError,
    GateError,
    InternalError,
    MachineError,
    ModelError,
    ModelyardError,
)
from converter.options.parts import named
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

    def finished(self, step: Step, seconds: float, cached: bool) -> None:
        """A step is done.

        Args:
            step: The step.
            seconds: How long it took.
            cached: Whether its result came from the cache.
        """


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

    def known(self, step: Step, needs: list[str]) -> str:
        """The key of all that is known before it is done."""

    def found(self, result: Any) -> None:
        """Called where the result is taken that an earlier run or another part made."""

    def key(self, step: Step, needs: list[str], result: Any) -> str:
        """The key of a result: the step's own, or what only the result can tell.

        Args:
            step: The step.
            needs: The keys of the results that it needs, in the step's order.
            result: What the step gave.
        """

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """A step's result from the cache.

        Args:
            step: The step.
            needs: The keys of the results that it needs, in the step's order.
            cache: Where earlier runs kept results.

        Returns:
            Its key and the result; None where the cache lacks it.
        """

    def keep(self, key: str, result: Any, cache: Cache) -> None:
        """Puts a step's result into the cache.

        Args:
            key: What :meth:`key` gave.
            result: What the step gave.
            cache: Where later runs look for it.
        """


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
        this = os.PRIO_PROCESS, threading.get_native_id()
        os.setpriority(*this, min(19, os.getpriority(*this) + 10))  # up, only root may


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
        part: The part of the request that the plan is of; empty where there are no parts.
        apart: Whether other runs go on whatever this one fails with.

    Attributes:
        plan: The steps; others from where :attr:`revise` says so.
        revise: Called after each step: what it gave may ask for another plan.
        end: Called where the run is done with and others go on: lets go of what it has open.
        done: What steps gave, by their ids.
        left: Why steps couldn't be done, by their ids: those that need them aren't here.
        failed: Why none of the part can be given, where other parts went on.
        over: Whether nothing more is begun of it.
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
        part: str = "",
        apart: bool = False,
    ) -> None:
        self.plan = plan
        self.part = part
        self.apart = apart
        self.over = False
        self.revise: Callable[[Step], Plan | None] = lambda step: None
        self.end: Callable[[], None] = lambda: None
        self.actions = dict(actions)
        self.failed: ModelyardError | None = None
        self.abort = abort
        self.listener = listener
        self._cache = cache
        self._keep_going = keep_going
        self._lock = threading.Lock()
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
        carry_out([self])

    def leave_out(self, target: str, error: ModelyardError) -> None:
        """Has a target's artifacts not made: it can't take the model."""
        self.left |= {
            step.id: error
            for step in self.plan.steps
            if step.kind == "emit" and step.target == target
        }

    def waiting(self, begun: Collection[str]) -> list[Step]:
        """The steps that are still to be done, of those that haven't begun."""
        if self.failed is not None or self.over:
            return []
        wanted = self.plan.wanted(self.left) - {*self.done, *begun}
        return [step for step in self.plan.steps if step.id in wanted]

    def follow(self, step: Step) -> bool:
        """Goes on with another plan, where what a step gave asks for one: what was done otherwise,
        or needs what was, isn't done any more."""
        plan = self.revise(step)
        if plan is None:
            return False
        self.plan, anew = plan, set[str]()
        for step in plan.steps:
            done = self.done.get(step.id)
            if done is None or done.step != step or anew.intersection(step.needs):
                anew.add(step.id)
                self.done.pop(step.id, None)
        return True

    def settle(self, step: Step, future: Future[None], *, alone: bool) -> None:
        """Raises what a step raised, unless this run, or other parts, go on without it.

        Args:
            step: The step, which has ended.
            future: What it came to.
            alone: Whether no other part goes on where this run can't.
        """
        try:
            future.result()
        except Exception as error:
            if not isinstance(error, ModelyardError):
                if not self.apart:
                    raise
                error = unforeseen(error)
                self.left[step.id] = error
            if isinstance(error, ModelError | GateError):
                self.left[step.id] = error
                if self._keep_going and step.kind in SPARED:
                    return
                if self.apart and isinstance(error, BudgetError):  # told with the report
                    self.over = True
                    return
                if self._keep_going and not alone:
                    self.failed = self.failed or error
                    return
            if self.apart:
                self.failed = self.failed or error
                return
            named(error, self.part)
            raise

    def do(self, step: Step, tell: Progress, keep: Keep) -> None:
        """Carries out one step: takes its result from the cache, or makes it.

        Args:
            step: A step whose needs are done.
            tell: Called with its progress.
            keep: Called with what writes the result into the cache, beside the next steps.
        """
        start = time.perf_counter()
        shown = self.shown(step)
        self.listener.started(shown)
        action = self.actions[step.kind]
        needs = [self.done[need].key for need in step.needs]
        found = action.find(step, needs, self._cache) if step.kept else None
        if found:
            key, result = found
        else:
            result = action.run(step, tell)
            key = action.key(step, needs, result)
            if step.kept:  # beside the next steps, which only read what is kept
                keep(partial(self._keep, action, key, result))
        memory.give_back()
        seconds = time.perf_counter() - start
        with self._lock:
            self.done[step.id] = Done(step, key, result, seconds, bool(found))
        self.listener.finished(shown, seconds, bool(found))

    def known(self, step: Step) -> str:
        """The key of what is known of a step before it is done."""
        return self.actions[step.kind].known(step, [self.done[need].key for need in step.needs])

    def take_over(self, step: Step, made: Done) -> None:
        """Takes what another part's step gave, which is the same."""
        self.listener.started(self.shown(step))
        self.actions[step.kind].found(made.result)
        with self._lock:
            self.done[step.id] = Done(step, made.key, made.result, 0.0, made.cached)
        self.listener.finished(self.shown(step), 0.0, made.cached)

    def shown(self, step: Step) -> Step:
        """A step as a listener is told of it: with its part."""
        return step.of(self.part)

    def _keep(self, action: Action, key: str, result: Any) -> None:
        """Puts a result into the cache; where that can't be, the run goes on without it."""
        try:
            action.keep(key, result, self._cache)
        except (MachineError, OSError) as error:
            self._cache.give_up(error)


def unforeseen(error: Exception) -> ModelyardError:
    """What nobody foresaw, as the error of a run that others go on without; its cause is kept."""
    made = InternalError(f"a bug in modelyard: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


Keep = Callable[[Callable[[], None]], None]
"""Has a result kept, beside what runs next."""


class Waiting(Protocol):
    """Runs that join those at work as there is room."""

    def take(self) -> Run | None:
        """The next one; None where none is left, or there is no room now: then it is asked again
        once a run has ended. With no run at work there is room."""

    def keeps(self, run: Run) -> bool:
        """Whether what an ended run's steps gave may still be taken over."""


def carry_out(runs: Sequence[Run], waiting: Waiting | None = None, workers: int = WORKERS) -> None:
    """Runs every step of every run, side by side where that is right.

    Args:
        runs: The runs, one for each part; their listeners are one, and told of all.
        waiting: More runs, which join one by one. A run that has ended is let go of.
        workers: Steps side by side.

    Raises:
        ModelyardError: What the first failing step raises; with ``keep_going``, a part that can't
            be given is left, where there are others (:attr:`Run.failed`).
    """
    _Together(runs, waiting, workers).carry_out()


class _Together:
    """Runs that are carried out at the same time."""

    def __init__(self, runs: Sequence[Run], waiting: Waiting | None, workers: int) -> None:
        self._runs = list(runs)
        self._waiting = waiting
        self._workers = workers
        self._alone = len(runs) == 1 and waiting is None
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="keep", initializer=_give_way)
        self._kept: list[Future[None]] = []
        self._stopped = threading.Event()
        self._running: dict[Future[None], tuple[Run, Step]] = {}
        self._first: dict[str, tuple[Run, Step]] = {}  # who does what is known by a key
        self._keys: dict[tuple[Run, str], str] = {}

    def carry_out(self) -> None:
        self._plan()
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="step")
        try:
            while True:
                self._join()
                for run, step in self._startable():
                    self._running[pool.submit(self._job(run, step))] = run, step
                if not self._running:  # what a part waited for may have gone with another plan
                    idle = [*self._runs] if self._waiting else []
                    if not self._first and not idle:
                        break
                    self._first.clear()
                    for run in idle:
                        self._end(run)
                    continue
                finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
                for future in finished:
                    run, step = self._running.pop(future)
                    run.settle(step, future, alone=self._alone)
                    if run.follow(step):
                        self._plan()
                    self._end(run)
        except BaseException as error:  # an interrupt too ends what runs; all of it goes on
            self._stopped.set()
            try:
                for run in self._runs:
                    run.abort()
            finally:
                if not isinstance(error, Exception):
                    end_children()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self._keeper.shutdown(wait=True)
        for kept in self._kept:
            kept.result()

    def _join(self) -> None:
        """Takes in more runs, as there is room."""
        while self._waiting is not None and (run := self._waiting.take()) is not None:
            self._runs.append(run)
            self._plan()

    def _end(self, run: Run) -> None:
        """Lets go of what a part has open, once it is done with."""
        running = any(other is run for other, _ in self._running.values())
        if self._alone or running or run.waiting(()):
            return
        run.end()
        if self._waiting is not None:
            self._runs.remove(run)
            self._keys = {of: key for of, key in self._keys.items() if of[0] is not run}
            for key, (other, _) in [*self._first.items()]:
                if other not in self._runs and not self._waiting.keeps(other):
                    del self._first[key]

    def _plan(self) -> None:
        """Tells the listener of all steps."""
        steps = (run.shown(step) for run in self._runs for step in run.plan.steps)
        if self._runs:
            self._runs[0].listener.planned(Plan(tuple(steps)))

    def _startable(self) -> list[tuple[Run, Step]]:
        """The steps that can start now: what they need is done, and nobody measures time."""
        beside = [step for _, step in self._running.values()]
        chosen: list[tuple[Run, Step]] = []
        for run in self._runs:
            begun = [step.id for other, step in self._running.values() if other is run]
            for step in run.waiting(begun):
                ready = len(beside) < self._workers and all(step.beside(other) for other in beside)
                ready = ready and all(need in run.done for need in step.needs)
                if ready and not self._is_at_it(run, step):
                    chosen.append((run, step))
                    beside.append(step)
        return chosen

    def _is_at_it(self, run: Run, step: Step) -> bool:
        """Whether another part does the same at this moment: it is waited for."""
        if self._alone or not step.kept:
            return False
        key = self._keys.get((run, step.id)) or run.known(step)
        self._keys[run, step.id] = key
        other, its = self._first.setdefault(key, (run, step))
        return other is not run and its.id not in {*other.done, *other.left}

    def _job(self, run: Run, step: Step) -> Callable[[], None]:
        """What carries a step out: does it, or takes what another part's gave."""
        other, its = self._first.get(self._keys.get((run, step.id), ""), (run, step))
        if other is not run and its.id in other.done:
            return partial(run.take_over, step, other.done[its.id])
        return partial(run.do, step, partial(self._tell, run, step), self._keep)

    def _keep(self, put: Callable[[], None]) -> None:
        self._kept.append(self._keeper.submit(put))

    def _tell(self, run: Run, step: Step, text: str) -> None:
        if self._stopped.is_set():
            raise Stopped
        run.listener.progress(run.shown(step), text)
