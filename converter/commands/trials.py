"""Packages at settings, served and measured: the trials of ``tune``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from converter.commands.load import LoadPoint, bench_server, measure
from converter.commands.opened import told
from converter.commands.remote import check_server
from converter.commands.serve import Served, serve
from converter.commands.tuning import Goal, Trial, Values
from converter.errors import GateError, MachineError, ModelError, ModelyardError, UsageError
from converter.pipeline.retuned import write_over
from converter.pipeline.run import Listener
from converter.protocols.server import Knob, Server
from converter.serving.address import Address
from converter.serving.generator import alike
from converter.serving.homes import Agree
from converter.serving.packaged import Facts, read_facts
from converter.serving.posted import PROTOCOL, Posted
from converter.serving.remote import reaching

PACKAGE = "package"
"""The knob that says which of several packages, of one model at several precisions."""


ROUNDS = 3
"""How often, at the end, the package as it is and the best one are measured in turns."""


LARGE = 1 << 20
"""Bytes from which on a file isn't copied for each trial."""


@dataclass(frozen=True)
class Load:
    """What every trial is measured by.

    Attributes:
        callers: At once, of each point.
        seconds: Of each point.
        seed: Of the requests, and of the search.
        offline, agree: As :func:`converter.commands.serve.serve` takes them.
        files: What is sent, in the place of the package's samples.
    """

    callers: Sequence[int]
    seconds: float
    seed: int
    offline: bool
    agree: Agree
    files: Sequence[bytes] = ()


def package_facts(server: Server, folder: Path) -> Facts:
    known = map(read_facts, (folder, *server.calls(folder)))
    facts = next((item for item in known if item is not None), None)
    if facts is None or not any(facts.expected):
        raise UsageError(
            f"{folder.name} holds no samples and expected outputs, so tune couldn't see "
            "whether faster settings give wrong answers",
            code="package-incomplete",
            hint="Convert the model with samples and with the check.",
        )
    return facts


def defaults(knobs: Sequence[Knob]) -> Values:
    return {knob.name: knob.value for knob in knobs}


class Bench:
    """Serves and measures packages at settings; a context manager.

    Args:
        server: Their plug-in.
        packages: The first is the one that is compared with.
        load: What they are measured by.
        listener: Told how it goes on.
    """

    def __init__(
        self, server: Server, packages: Sequence[Path], load: Load, listener: Listener | None
    ) -> None:
        self.server, self.load, self._listener = server, load, listener
        self.packages = {folder.name: folder for folder in packages}
        self.first = packages[0].name
        self._number = 0
        self._said: list[bytes] = []

    def __enter__(self) -> Bench:
        self._scratch = tempfile.TemporaryDirectory(prefix="modelyard-tune-")
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def package_of(self, values: Values) -> Path:
        """The package that settings are of."""
        return self.packages[str(values.get(PACKAGE, self.first))]

    def same(self, values: Values) -> tuple[str, ...]:
        """What the package is at settings: the same for two that make one."""
        package = self.package_of(values)
        files = self.server.turned(package, values).files
        return (package.name, *(f"{path}\0{text}" for path, text in sorted(files.items())))

    @contextmanager
    def served(self, values: Values | None) -> Iterator[tuple[Path, Served]]:
        """A copy of a package at settings on its server; without any, of the first one as it is."""
        self._number += 1
        source = self.package_of(values or {})
        folder = Path(self._scratch.name, str(self._number))
        for item in (source, *self.server.calls(source)):
            shutil.copytree(item, folder / item.name, copy_function=_linked)
        copy = folder / source.name
        if values is not None:
            for path, text in self.server.turned(copy, values).files.items():
                write_over(path, text)
        load = self.load
        try:
            with serve(str(copy), port=0, offline=load.offline, agree=load.agree) as running:
                yield copy, running
        finally:
            shutil.rmtree(folder)

    def points(self, copy: Path, served: Served, callers: Sequence[int]) -> Sequence[LoadPoint]:
        """Measures a served copy under load.

        Args:
            copy: The copy's folder, whose samples are sent where the load has no files.
            served: The server's process, and where it listens.
            callers: For each point, how many requests are under way at once.

        Returns:
            A point for each of ``callers``, in that order.
        """
        if self.load.files:
            wire = self._posted(copy, served)
            files = [wire.post(file) for file in self.load.files]
            job = {"rate": None, "seconds": self.load.seconds, "count": None,
                   "seed": self.load.seed}  # fmt: skip
            return [measure(wire, ("", ""), 1, files, {**job, "connections": count})
                    for count in callers]  # fmt: skip
        where, protocol = self._address(copy, served)
        return bench_server(
            str(copy), where, protocol=protocol, bench_batches=[1], bench_concurrency=[*callers],
            bench_seconds=self.load.seconds, seed=self.load.seed,
        ).points  # fmt: skip

    def check(self, copy: Path, served: Served) -> None:
        """Holds a served copy to the package's expected outputs; raises GateError."""
        where, protocol = self._address(copy, served)
        check_server(str(copy), where, protocol=protocol, probes=False)
        if self.load.files and copy.name == self.first:
            self._check_files(self._posted(copy, served))

    def _check_files(self, wire: Posted) -> None:
        """Holds answers to files to those of the package as it is, which come first."""
        asker = wire.connect()
        with reaching(wire.address):
            said = [asker.ask(wire.post(file)) for file in self.load.files]
        asker.close()
        self._said = self._said or said
        if not all(alike(wire, *pair) for pair in zip(said, self._said, strict=True)):
            raise GateError("it gives other answers to files than the package does unchanged")

    def _posted(self, copy: Path, served: Served) -> Posted:
        """Where files are posted to."""
        at = self.server.files_at(copy)
        assert at is not None
        where = urlsplit(next(w for w in served.addresses.values() if w.startswith("http://")))
        address = Address(PROTOCOL, where.hostname or "", where.port or 0, False, at.model)
        return Posted(address, at.headers)

    def _address(self, copy: Path, served: Served) -> tuple[str, str | None]:
        """Where the model that takes tensors is asked."""
        model = package_facts(self.server, copy).model
        known = {name.split()[-1]: where for name, where in served.addresses.items()
                 if " " not in name or name.split()[0] == model}  # fmt: skip
        known.pop("metrics", None)
        protocol = "v2" if "v2" in known else next(iter(known))
        return known[protocol], "json" if protocol == "json" else None

    def trial(self, values: Values | None, knobs: Sequence[Knob]) -> Trial:
        """Settings under every load; the package as it is has to work."""
        shown = values if values is not None else defaults(knobs)
        name = self.package_of(shown).name
        title = "as it is" if values is None else in_words(values)
        with told(self._listener, f"trial:{self._number}", f"{name}: {title}"):
            try:
                with self.served(values) as (copy, served):
                    self.check(copy, served)
                    points = self.points(copy, served, self.load.callers)
                    return Trial(name, shown, points)
            except (GateError, MachineError, ModelError, UsageError) as error:
                if values is None:
                    raise
                return Trial(name, shown, failed=_why(error))

    def in_turns(
        self, goal: Goal, limit: float | None, pair: tuple[Trial, Trial]
    ) -> tuple[list[float | None], list[float | None]]:
        """Measures the package as it is and a trial in turns, both being served.

        Args:
            goal: What a figure is: throughput, latency...
            limit: Milliseconds that p95 has to stay below; None for no limit.
            pair: The package as it is, and the trial.

        Returns:
            The figures of each, one a round; None for a round with errors or above the limit.
        """
        figures: tuple[list[float | None], list[float | None]] = ([], [])
        title = f"the package unchanged, beside {in_words(pair[1].values)}"
        with told(self._listener, "turns", title), ExitStack() as stack:
            both = [stack.enter_context(self.served(v)) for v in (None, pair[1].values)]
            for _ in range(ROUNDS):
                for trial, place, found in zip(pair, both, figures, strict=True):
                    points = self.points(*place, callers_of(trial, goal, limit))
                    found.append(goal.value(replace(trial, points=points), limit))
        return figures


def callers_of(trial: Trial, goal: Goal, limit: float | None) -> list[int]:
    """The loads that a trial's figure is of.

    Where any load counts, that is the best one's; the lightest where the trial keeps to the limit
    at none.

    Args:
        trial: What was measured, by load.
        goal: Says which loads count.
        limit: Milliseconds that p95 has to stay below; None for no limit.

    Returns:
        Numbers of requests under way at once.
    """
    every = [point.concurrency or 1 for point in trial.points]
    if not goal.any_load:
        return every
    point = goal.point(trial, limit)
    return [min(every) if point is None else point.concurrency or 1]


def in_words(values: Values) -> str:
    """``instances 2, threads 1``."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _linked(source: str, target: str) -> str:
    """Of a large file in a copy: a link where it can be one, for servers only read it."""
    place = Path(source)
    try:
        if place.stat().st_size < LARGE:
            return str(shutil.copy2(source, target))
        Path(target).hardlink_to(place)
    except OSError:
        shutil.copy2(source, target)
    return target


def _why(error: ModelyardError) -> str:
    kind = "answers wrong: " if isinstance(error, GateError) else ""
    return kind + " ".join([error.message, *map(str, error.details[-1:])])
