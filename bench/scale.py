"""``python -m bench scale``: 1,000 models x 8 artifacts on 1 to 64 workers, simulated.

Step times are measured in a sweep of zoo models (:mod:`bench.scale_measured`). A discrete-event
simulation (simpy) has workers like that machine carry out such models: each takes the next model
from a queue, fetches its source from the store, runs its steps side by side as the local executor
would, and puts what it made into the store. Prices are the reader's. Writes docs/scale.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import simpy

from bench.scale_measured import AXES, KEPT, MODELS, Measured, Model, Work, measure
from converter.pipeline.run import WORKERS
from converter.text import words

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scale.md"
FLEET = (1, 2, 4, 8, 16, 32, 64)
OPEN = 2
"""Models that a worker has open at once."""

GIGABIT = 125e6
"""Bytes a second."""


@dataclass
class Store:
    """An object store: so many transfers at a time, each as quick as a worker's link.

    Args:
        env: The simulation.
        link: Bytes a second of a worker's link.
        streams: Transfers at a time.
    """

    env: simpy.Environment
    link: float
    streams: int
    moved: float = 0.0

    def __post_init__(self) -> None:
        self._free = simpy.Resource(self.env, self.streams)

    def move(self, size: float) -> Generator[Any, Any, None]:
        """Moves so many bytes."""
        with self._free.request() as turn:
            yield turn
            yield self.env.timeout(size / self.link)
        self.moved += size


@dataclass
class _Job:
    """A model at work on a worker."""

    model: Model
    left: list[Work]
    done: set[str] = field(default_factory=set)
    moving: bool = True


class Worker:
    """A machine like the one that was measured.

    Args:
        env: The simulation.
        store: Where sources come from and artifacts go.
        queue: The models that no worker has taken yet.
    """

    def __init__(self, env: simpy.Environment, store: Store, queue: deque[Model]) -> None:
        self._env, self._store, self._queue = env, store, queue
        self._jobs: list[_Job] = []
        self._running: dict[simpy.Event, tuple[_Job, Work | None]] = {}
        self.ended = 0.0

    def run(self) -> Generator[Any, Any, None]:
        """Takes models until none is left."""
        while True:
            self._start()
            if self._queue and len(self._jobs) < OPEN and self._idle():
                model = self._queue.popleft()
                self._jobs.append(_Job(model, list(model.steps)))
                self._move(self._jobs[-1], model.source)
            if not self._running:
                break
            yield self._env.any_of(self._running)
            for event in [event for event in self._running if event.processed]:
                self._finished(*self._running.pop(event))
        self.ended = self._env.now

    def _idle(self) -> bool:
        """Whether there is room for a step, and no model on its way here that will fill it."""
        steps = [work.step for _, work in self._running.values() if work is not None]
        coming = any(job.moving and not job.done for job in self._jobs)
        return not coming and len(steps) < WORKERS and not any(step.alone for step in steps)

    def _start(self) -> None:
        """Starts what may run beside what runs, as the local executor does."""
        beside = [work.step for _, work in self._running.values() if work is not None]
        for job in self._jobs:
            for work in [] if job.moving else [*job.left]:
                ready = len(beside) < WORKERS and job.done.issuperset(work.needs)
                if ready and all(work.step.beside(other) for other in beside):
                    job.left.remove(work)
                    beside.append(work.step)
                    self._running[self._env.timeout(work.seconds)] = job, work

    def _move(self, job: _Job, size: float) -> None:
        job.moving = True
        self._running[self._env.process(self._store.move(size))] = job, None

    def _finished(self, job: _Job, work: Work | None) -> None:
        if work is not None:
            job.done.add(work.id)
            if len(job.done) == len(job.model.steps):
                self._move(job, job.model.results + job.model.outputs)
        elif job.done:
            self._jobs.remove(job)
        else:
            job.moving = False


@dataclass(frozen=True)
class Night:
    """What a night took: seconds until the end and of all machines, and the store's use."""

    wall: float
    machines: float
    moved: float
    store: float


def simulate(
    models: Sequence[Model], workers: int, link: float = 125e6, streams: int = 10
) -> Night:
    """Has so many workers carry out models, in their order.

    Args:
        models: In the order in which workers take them.
        workers: How many there are.
        link: Bytes a second of a worker's link.
        streams: Transfers at a time.
    """
    env = simpy.Environment()
    store, queue = Store(env, link, streams), deque(models)
    fleet = [Worker(env, store, queue) for _ in range(workers)]
    for worker in fleet:
        env.process(worker.run())
    env.run()
    wall = max(worker.ended for worker in fleet)
    used = store.moved / (link * streams * wall)
    return Night(wall, sum(worker.ended for worker in fleet), store.moved, used)


def asked_for(seen: Measured, count: int, changed: float) -> list[Model]:
    """So many models, like those measured by turns; of those that didn't change since the last
    night, only that is found.

    Args:
        seen: What was measured.
        count: How many models.
        changed: The share of them that changed since the last night.
    """
    look = Work("look", [], seen.again / len(seen.models), False, True, False)
    made = [*itertools.islice(itertools.cycle(seen.models), count)]
    for at in random.Random(0).sample(range(count), round(count * (1 - changed))):
        made[at] = Model(made[at].name, [look], 0.0, 0.0, 0.0)
    return made


def rows(nights: Mapping[int, Night], price: float) -> str:
    """A table."""
    lines = [
        "| workers | hours | machine-hours | cost | of perfect scaling | store's bandwidth used |",
        "|---|---|---|---|---|---|",
    ]
    for count, night in nights.items():
        hours, perfect = night.machines / 3600, nights[FLEET[0]].wall / count
        lines.append(
            f"| {count} | {night.wall / 3600:.2f} | {hours:.1f} | {hours * price:.2f} "
            f"| {perfect / night.wall:.0%} | {night.store:.1%} |"
        )
    return "\n".join(lines)


def page(seen: Measured, asked: argparse.Namespace) -> str:
    """docs/scale.md."""
    store = asked.link * GIGABIT, max(1, round(asked.store / asked.link))
    first, later = (
        {count: simulate(asked_for(seen, asked.models, changed), count, *store) for count in FLEET}
        for changed in (1.0, asked.changed)
    )
    here, most = simulate(seen.models, 1, *store), FLEET[-1]
    full, steps = first[most].store, seen.mean(lambda model: len(model.steps))
    source, results, outputs = (
        words.size(round(seen.mean(lambda model, name=name: getattr(model, name))))
        for name in ("source", "results", "outputs")
    )
    stored = asked.models * seen.mean(lambda model: model.results + model.outputs)
    models = "\n".join(
        f"| {model.name} | {len(model.steps)} | {model.compute:.0f} | {model.chain:.0f} "
        f"| {words.size(round(model.outputs))} |"
        for model in seen.models
    )
    missed = f"These missed a gate, which takes as long: {', '.join(seen.missed)}."
    missed = missed if seen.missed else ""
    by = "The workers' cores" if full < 0.8 else "The store's bandwidth"
    return f"""# Many models on many machines

This page says how long it takes to convert {asked.models:,} models to {len(AXES["to"])} \
targets in {len(AXES["precision"])} precisions each, on 1 to {most} workers, and what it costs. \
The numbers
come from a simulation with measured step times. No such night has run.

```
python -m bench scale --price 0.20     # the price of a machine-hour, in your currency
python -m bench scale --measure        # measure the steps on your machine
```

## What was measured

One sweep of {len(seen.models)} zoo models ({", ".join(AXES["to"])}; \
{", ".join(AXES["precision"])}), with a cold cache, with all checks
and latency runs, took {seen.wall:.0f} s. The simulation of this sweep on one worker gives \
{here.wall:.0f} s ({here.wall / seen.wall - 1:+.0%}).
The same sweep again, with all outputs there, took {seen.again:.1f} s. {missed}

| model | steps | seconds of all steps | longest chain, s | artifacts and reports |
|---|---|---|---|---|
{models}

{seen.machine}

## What was assumed

- A worker is a machine like the one above. It has {OPEN} models open and runs {WORKERS} steps
  side by side, by the rules of the local executor. Latency runs alone.
- A model stays on one worker. The worker fetches the source from the store. At the end, it puts
  the results of all steps and the artifacts into the store.
- A worker's link has {asked.link:g} Gbit/s (`--link`). The store has {asked.store:g} Gbit/s
  for all (`--store`).
- No worker fails. Starting a machine takes no time. A worker is handed back once it has no model.
- The {asked.models:,} models (`--models`) are the {len(seen.models)} above, by turns.
  The mean model has a source of {source}, {results} of step results, and {outputs} of
  artifacts and reports.

## The first night

The cache is empty. A machine-hour costs {asked.price:g} (`--price`).

{rows(first, asked.price)}

## A later night

{asked.changed:.0%} of the models have changed (`--changed`). For the others, Modelyard finds that
all is there.

{rows(later, asked.price)}

## What saturates first

{by}. With {most} workers, the first night uses {full:.1%} of the store's bandwidth. About
{round(most / full):,} workers would use all of it.

A model has {steps:.0f} steps. {most} workers end {steps * asked.models / first[most].wall:.1f} \
steps a second.
The longest chain of steps takes {max(model.chain for model in seen.models):.0f} s. A night can't \
be shorter than that.

## What is moved and stored

The first night moves {words.size(round(first[1].moved))}, a later night \
{words.size(round(later[1].moved))}. The first night stores {words.size(round(stored))}: step
results and artifacts. At {asked.storage:g} for a GB-month (`--storage`), that costs \
{stored / 1e9 * asked.storage:.2f} a month.
`modelyard cache limit` bounds the results.
"""


def main(arguments: Sequence[str]) -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(prog="python -m bench scale", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the steps again")
    parser.add_argument("--zoo", default=",".join(MODELS), help="models to measure [%(default)s]")
    parser.add_argument("--dry", action="store_true", help="print the page, write nothing")
    for flag, kind, default, what in (
        ("--price", float, 1.0, "of a machine-hour"),
        ("--storage", float, 0.02, "price of a GB-month"),
        ("--models", int, 1000, "how many"),
        ("--changed", float, 0.1, "share of the models that changed before a later night"),
        ("--link", float, 1.0, "a worker's bandwidth, in Gbit/s"),
        ("--store", float, 10.0, "the store's bandwidth, in Gbit/s"),
    ):
        parser.add_argument(flag, type=kind, default=default, help=f"{what} [%(default)s]")
    asked = parser.parse_args(arguments)
    if asked.measure:
        KEPT.write_text(json.dumps(asdict(measure(asked.zoo.split(","))), indent=1) + "\n")
    seen = Measured.read()
    text = page(seen, asked)
    print(text) if asked.dry else PAGE.write_text(text)
