"""Finds the settings at which a package serves best: tune()."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from converter.commands.load import REQUESTS
from converter.commands.opened import told
from converter.commands.serve import find_package, packages_in
from converter.commands.trials import PACKAGE, ROUNDS, Bench, Load, defaults, package_facts
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
    UsageError,
    from_os_error,
)
from converter.pipeline.folders import output_above
from converter.pipeline.retuned import Place, place_of
from converter.pipeline.run import Listener
from converter.plugins import extras
from converter.protocols.server import Knob, Server, Turned
from converter.report.model import TuningPoint, TuningReport, TuningTrial
from converter.serving import homes
from converter.serving.homes import Agree

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
        offline: Whether nothing is downloaded.
        agree: Asked before an environment or an image is downloaded.
        listener: Told how it goes on.

    Returns:
        The settings, what each trial gave, and whether the package was changed.

    Raises:
        UsageError: There is no such package, it can't be tuned, or its output was edited.
        DependencyError: Optuna isn't there, or what the server needs.
        GateError: The package answers wrong as it is.
        MachineError: The server didn't start.

    Example:
        >>> tuned = modelyard.tune("build/other", p95=20, minutes=5, dry_run=True)
        >>> [knob.name for knob in tuned.knobs]
        ['instances', 'preferred batch', 'queue delay us', 'threads']
    """
    if goal not in GOALS:
        raise UsageError(
            f"--for {goal}: there is no such goal", code="unknown-name", hint=", ".join(GOALS)
        )
    wanted = GOALS[goal]
    server, packages = _packages(path)
    sent = _files(server, packages, files) if files else ()
    load = Load(callers or wanted.callers, seconds, seed, offline, agree, sent)
    knobs = [knob for knob in _knobs(server, packages) if sent or not knob.of_files]
    made = Tuning(server.name, packages[0], wanted, p95, knobs, values=defaults(knobs))
    if dry_run:
        return made
    require_optuna()
    _set_up(server, packages, load, listener)
    end = time.monotonic() + 60 * minutes
    with place_of(packages) as place, Bench(server, packages, load, listener) as bench:
        return _tuned(made, bench, place, end, trials)


def require_optuna() -> None:
    """Raises DependencyError where Optuna isn't there."""
    if find_spec("optuna") is None:
        raise DependencyError(
            "tune needs Optuna",
            code="package-missing",
            hint=extras.pip_line([extras.in_range("optuna", _EXTRA)]),
        )


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
    facts = [(package_facts(server, folder), folder) for _, folder in found]
    ports = {tuple((s.name, s.dtype, s.shape) for s in (*f.inputs, *f.outputs)) for f, _ in facts}
    apart = len({item.precision for item, _ in facts}) == len(facts)
    if len({one.name for one, _ in found}) > 1 or len(ports) > 1 or not apart:
        names = ", ".join(str(folder) for _, folder in found)
        raise UsageError(
            f"{path} holds {len(found)} packages, of several servers or models",
            code="choose-one",
            hint=f"Name one, or the folder of one server: {names}.",
        )
    return server, [folder for _, folder in sorted(facts, key=lambda x: x[0].precision != "fp32")]


def _knobs(server: Server, packages: Sequence[Path]) -> list[Knob]:
    """What can be turned of all of the packages."""
    first, *others = [server.knobs(folder) for folder in packages]
    if not first:
        raise UsageError(
            f"{server.name}: tune knows no settings of this server's packages",
            code="option-not-applicable",
        )
    found = [Knob(PACKAGE, [p.name for p in packages], packages[0].name)] if others else []
    for knob in first:
        same = [item for knobs in others for item in knobs if item.name == knob.name]
        values = [v for v in knob.values if all(v in item.values for item in same)]
        if len(same) == len(others) and knob.value in values:
            found.append(replace(knob, values=values))
    return found


def _set_up(
    server: Server, packages: Sequence[Path], load: Load, listener: Listener | None
) -> None:
    """What the packages' server needs, fetched where it isn't there: before time counts."""
    for package in packages:
        home = homes.choose(server, package, False, None)
        home.require(load.offline, load.agree)
        with told(listener, f"set-up:{package.name}", f"what {server.name} needs") as state:
            home.set_up(state)


def _files(server: Server, packages: Sequence[Path], folder: str) -> list[bytes]:
    """What users send: the files of a folder, :data:`REQUESTS` at most."""
    if any(server.files_at(package) is None for package in packages):
        raise UsageError(
            f"{packages[0].name} doesn't take files",
            code="option-not-applicable",
            hint="Packages made with --prepare server take files. docs/serving.md lists the "
            "servers.",
        )
    place = Path(folder)
    found = sorted(item for item in place.iterdir() if item.is_file()) if place.is_dir() else []
    if not found:
        raise UsageError(f"--files {folder}: that folder holds no files", code="file-not-found")
    return [item.read_bytes() for item in found[:REQUESTS]]


def _tuned(made: Tuning, bench: Bench, place: Place, end: float, most: int | None) -> Tuning:
    start = time.monotonic()
    first = bench.trial(None, made.knobs)
    took = time.monotonic() - start
    goal, limit = made.goal, made.limit_ms
    if all(goal.of(point) is None for point in first.points):
        raise UsageError(
            f"the server's {goal.what} can't be measured on this system",
            code="option-not-applicable",
        )

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
    try:
        written = place.record(made.package, _report(made, path), turned)
    except OSError as error:
        raise from_os_error(error, f"writing the settings of {made.package.name}") from error
    return replace(made, written=written)


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
        return f"no trial {kept}, and neither did the unchanged package"
    tried = len(made.trials) - 1
    return f"none of {tried} trial{'s' * (tried > 1)} was better than the unchanged package"
