"""Finds the settings at which a package serves best: tune()."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from converter.commands.load import REQUESTS, LoadPoint, bench_server, measure
from converter.commands.opened import told
from converter.commands.remote import check_server
from converter.commands.serve import Served, find_package, packages_in, serve
from converter.commands.tuning import (
    GOALS,
    Goal,
    Search,
    Trial,
    Values,
    best,
    compare,
    latency_of,
    search,
)
from converter.errors import (
    DependencyError,
    GateError,
    MachineError,
    ModelError,
    ModelyardError,
    UsageError,
)
from converter.pipeline.folders import output_above
from converter.pipeline.retuned import Place, place_of, write_over
from converter.pipeline.run import Listener
from converter.plugins import extras
from converter.protocols.server import Knob, Server, Turned
from converter.report.model import TuningPoint, TuningReport, TuningTrial
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

_BESIDE = 1.0
"""Seconds that a load takes besides those it lasts: its process starts."""


@dataclass(frozen=True)
class Tuning:
    """What came of tuning.

    Attributes:
        server: The server's name.
        package: The package that is better, or the one as it is.
        goal, limit_ms: What was looked for, within which p95.
        knobs: What was turned.
        trials: All that was measured, the package as it is first.
        before, after: The figure of each round at the end, as it is and of the best trial.
        values: The settings of ``package`` now.
        changed: Whether its configuration was written.
        why: In words.
        written: The files that were.
    """

    server: str
    package: Path
    goal: Goal
    limit_ms: float | None
    knobs: Sequence[Knob]
    trials: Sequence[Trial] = ()
    before: Sequence[float | None] = ()
    after: Sequence[float | None] = ()
    values: Values = field(default_factory=dict)
    changed: bool = False
    why: str = ""
    written: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "server": self.server,
            "package": str(self.package),
            "goal": self.goal.name,
            "unit": self.goal.unit,
            "p95_limit_ms": self.limit_ms,
            "space": [asdict(knob) for knob in self.knobs],
            "trials": [_as_dict(trial) for trial in self.trials],
            "before": list(self.before),
            "after": list(self.after),
            "values": dict(self.values),
            "changed": self.changed,
            "why": self.why,
            "written": list(self.written),
        }


def _as_dict(trial: Trial) -> dict[str, Any]:
    points = [asdict(point) for point in trial.points]
    return {"package": trial.package, "values": dict(trial.values), "failed": trial.failed,
            "points": points}  # fmt: skip


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


def tune(
    path: str,
    *,
    goal: str = "throughput",
    p95: float | None = None,
    minutes: float = 5.0,
    trials: int | None = None,
    callers: Sequence[int] = (),
    seconds: float = 2.0,
    seed: int = 0,
    files: str | None = None,
    dry_run: bool = False,
    offline: bool = False,
    agree: Agree = lambda download: True,
    listener: Listener | None = None,
) -> Tuning:
    """Finds the settings at which a package serves best, and writes them into it.

    Each trial is a copy of the package at other settings, on its real server: its answers are held
    to the package's expected ones, then it is under load. At the end the package as it is and the
    best trial are measured in turns, and unless that is better by more than noise, all stays.

    Args:
        path: A package, or an output folder that holds one; where it holds the same model at
            several precisions, which of them is tried as well.
        goal: Of :data:`converter.commands.tuning.GOALS`.
        p95: Milliseconds that p95 has to stay below.
        minutes: How long it may take, all in all.
        trials: How many are made at most, besides the package as it is.
        callers: At once, of each load; without any, the goal's.
        seconds: Of each load.
        seed: Of the search.
        files: A folder of files, as users send them, where the server prepares files: they are sent
            in the place of the package's samples, and what prepares them is turned as well.
        dry_run: Measure nothing: what would be turned is in the result.
        offline, agree: As for ``serve``.
        listener: Told how it goes on.

    Raises:
        UsageError: There is no such package, it can't be tuned, or its output was edited.
        DependencyError: Optuna isn't there, or what the server needs.
        GateError: The package answers wrong as it is.
        MachineError: The server didn't start.
    """
    if goal not in GOALS:
        raise UsageError(f"--for {goal}: there is no such goal", hint=", ".join(GOALS))
    wanted = GOALS[goal]
    server, packages = _packages(path)
    sent = _files(server, packages, files) if files else ()
    load = Load(callers or wanted.callers, seconds, seed, offline, agree, sent)
    knobs = [knob for knob in _knobs(server, packages) if sent or not knob.of_files]
    made = Tuning(server.name, packages[0], wanted, p95, knobs, values=_defaults(knobs))
    if dry_run:
        return made
    require_optuna()
    end = time.monotonic() + 60 * minutes
    with place_of(packages) as place, _Bench(server, packages, load, listener) as bench:
        return _tuned(made, bench, place, end, trials)


def require_optuna() -> None:
    """Raises DependencyError where Optuna isn't there."""
    if find_spec("optuna") is None:
        raise DependencyError("tune needs Optuna", hint=extras.install_line(_EXTRA))


_EXTRA = "tune"


def _packages(path: str) -> tuple[Server, list[Path]]:
    """The packages that are tuned: one, or those of a model at several precisions, float32 first.

    Raises:
        UsageError: They are of several servers, or models.
    """
    found = packages_in(path) if Path(path).is_dir() else []
    if len(found) < 2:
        found = [find_package(path)]
    server = found[0][0]
    facts = [(_facts(server, folder), folder) for _, folder in found]
    ports = {tuple((s.name, s.dtype, s.shape) for s in (*f.inputs, *f.outputs)) for f, _ in facts}
    apart = len({item.precision for item, _ in facts}) == len(facts)
    if len({one.name for one, _ in found}) > 1 or len(ports) > 1 or not apart:
        names = ", ".join(str(folder) for _, folder in found)
        raise UsageError(
            f"{path} holds {len(found)} packages, of several servers or models",
            hint=f"Name one, or the folder of one server: {names}.",
        )
    return server, [folder for _, folder in sorted(facts, key=lambda x: x[0].precision != "fp32")]


def _facts(server: Server, folder: Path) -> Facts:
    known = map(read_facts, (folder, *server.calls(folder)))
    facts = next((item for item in known if item is not None), None)
    if facts is None or not any(facts.expected):
        raise UsageError(
            f"{folder.name} holds no samples and expected outputs: what is faster couldn't be told "
            "from what is wrong",
            hint="Convert the model with samples, and with the check.",
        )
    return facts


def _knobs(server: Server, packages: Sequence[Path]) -> list[Knob]:
    """What can be turned of all of the packages."""
    first, *others = [server.knobs(folder) for folder in packages]
    if not first:
        raise UsageError(f"{server.name}: tune knows no settings of its packages")
    found = [Knob(PACKAGE, [p.name for p in packages], packages[0].name)] if others else []
    for knob in first:
        same = [item for knobs in others for item in knobs if item.name == knob.name]
        values = [v for v in knob.values if all(v in item.values for item in same)]
        if len(same) == len(others) and knob.value in values:
            found.append(replace(knob, values=values))
    return found


def _files(server: Server, packages: Sequence[Path], folder: str) -> list[bytes]:
    """What users send: the files of a folder, :data:`REQUESTS` at most."""
    if any(server.files_at(package) is None for package in packages):
        raise UsageError(
            f"{packages[0].name} takes no files here",
            hint="--prepare server makes packages that do; of which servers, docs/serving.md says.",
        )
    place = Path(folder)
    found = sorted(item for item in place.iterdir() if item.is_file()) if place.is_dir() else []
    if not found:
        raise UsageError(f"--files {folder}: there are no files in such a folder")
    return [item.read_bytes() for item in found[:REQUESTS]]


def _defaults(knobs: Sequence[Knob]) -> Values:
    return {knob.name: knob.value for knob in knobs}


class _Bench:
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

    def __enter__(self) -> _Bench:
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
        """A served copy under load."""
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
            raise GateError("it answers files otherwise than the package as it is")

    def _posted(self, copy: Path, served: Served) -> Posted:
        """Where files are posted to."""
        at = self.server.files_at(copy)
        assert at is not None
        where = urlsplit(next(w for w in served.addresses.values() if w.startswith("http://")))
        address = Address(PROTOCOL, where.hostname or "", where.port or 0, False, at.model)
        return Posted(address, at.headers)

    def _address(self, copy: Path, served: Served) -> tuple[str, str | None]:
        """Where the model that takes tensors is asked."""
        model = _facts(self.server, copy).model
        known = {name.split()[-1]: where for name, where in served.addresses.items()
                 if " " not in name or name.split()[0] == model}  # fmt: skip
        known.pop("metrics", None)
        protocol = "v2" if "v2" in known else next(iter(known))
        return known[protocol], "json" if protocol == "json" else None

    def trial(self, values: Values | None, knobs: Sequence[Knob]) -> Trial:
        """Settings under every load; the package as it is has to work."""
        shown = values if values is not None else _defaults(knobs)
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
        """The figures of the package as it is and of a trial, both being served, in turns."""
        figures: tuple[list[float | None], list[float | None]] = ([], [])
        title = f"as it is beside {in_words(pair[1].values)}"
        with told(self._listener, "turns", title), ExitStack() as stack:
            both = [stack.enter_context(self.served(v)) for v in (None, pair[1].values)]
            for _ in range(ROUNDS):
                for trial, place, found in zip(pair, both, figures, strict=True):
                    points = self.points(*place, callers_of(trial, goal, limit))
                    found.append(goal.value(replace(trial, points=points), limit))
        return figures


def callers_of(trial: Trial, goal: Goal, limit: float | None) -> list[int]:
    """The loads of a trial that its figure is of: where any counts, the one of the best; of one
    that keeps to the limit at none, the lightest."""
    every = [point.concurrency or 1 for point in trial.points]
    if not goal.any_load:
        return every
    point = goal.point(trial, limit)
    return [min(every) if point is None else point.concurrency or 1]


def in_words(values: Values) -> str:
    """``instances 2, threads 1``."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _linked(source: str, target: str) -> str:
    """Of a file in a copy: a link where it can be one, for servers only read it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _why(error: ModelyardError) -> str:
    kind = "answers wrong: " if isinstance(error, GateError) else ""
    return kind + " ".join([error.message, *map(str, error.details[-1:])])


def _tuned(made: Tuning, bench: _Bench, place: Place, end: float, most: int | None) -> Tuning:
    start = time.monotonic()
    first = bench.trial(None, made.knobs)
    took = time.monotonic() - start
    goal, limit = made.goal, made.limit_ms

    def loss(trial: Trial) -> float | None:
        return goal.loss(trial, limit)

    searching = Search(made.knobs, bench.load.seed, bench.same)
    searching.start(made.values, loss(first))
    last = end - _at_the_end(bench.load, goal, took) - took
    left = None if most is None else iter(range(most))

    def more() -> bool:
        return time.monotonic() < last and (left is None or next(left, None) is not None)

    trials = [first, *search(searching, lambda v: bench.trial(v, made.knobs), loss, more)]
    made = replace(made, trials=trials)
    winner = best(trials, goal, limit)
    if winner is None or winner is first:
        return _recorded(replace(made, why=_nothing_better(made, winner)), place, None)
    before, after = bench.in_turns(goal, limit, (first, winner))
    better, why = compare(goal, before, after)
    made = replace(made, before=before, after=after, why=why)
    if not better:
        return _recorded(made, place, None)
    package = bench.package_of(winner.values)
    made = replace(made, package=package, values=winner.values, changed=True)
    return _recorded(made, place, bench.server.turned(package, winner.values))


def _recorded(made: Tuning, place: Place, turned: Turned | None) -> Tuning:
    """With the files that were written."""
    root = output_above(made.package)
    path = made.package.relative_to(root).as_posix() if root else made.package.name
    return replace(made, written=place.record(made.package, _report(made, path), turned))


def _report(made: Tuning, path: str) -> TuningReport:
    """For the output's report."""
    return TuningReport(
        server=made.server,
        package=path,
        goal=made.goal.name,
        unit=made.goal.unit,
        limit_ms=made.limit_ms,
        trials=[_trial(trial, made) for trial in made.trials],
        before=list(made.before),
        after=list(made.after),
        values=dict(made.values),
        changed=made.changed,
        why=made.why,
    )


def _trial(trial: Trial, made: Tuning) -> TuningTrial:
    point = made.goal.point(trial, made.limit_ms)
    return TuningTrial(
        package=trial.package,
        values={name: value for name, value in trial.values.items() if name != PACKAGE},
        points=[
            TuningPoint(
                callers=item.concurrency or 1,
                throughput=item.throughput,
                p95_ms=latency_of(item),
                memory_mb=None if item.memory is None else item.memory / 1e6,
                wrong=item.errors + item.wrong,
            )
            for item in trial.points
        ],
        best=None if point is None else list(trial.points).index(point),
        failed=trial.failed,
    )


def _at_the_end(load: Load, goal: Goal, took: float) -> float:
    """Seconds that the rounds at the end take, about."""
    each = load.seconds + _BESIDE
    starts = max(0.0, took - len(load.callers) * each)
    return 2 * starts + 2 * ROUNDS * each * (1 if goal.any_load else len(load.callers))


def _nothing_better(made: Tuning, winner: Trial | None) -> str:
    if len(made.trials) == 1:
        return "there was no time for a trial: --minutes gives more"
    if winner is None:
        kept = (
            "keeps to the limit" if made.limit_ms is None else f"has a p95 of {made.limit_ms:g} ms"
        )
        return f"nothing that was measured {kept}, the package as it is included"
    return f"none of {len(made.trials) - 1} trials was better than the package as it is"
