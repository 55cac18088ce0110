"""Converts a model: convert() and run_recipe()."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.commands.opened import closing, resolve
from converter.commands.shown import Written, artifacts_table, table, written
from converter.errors import MachineError, PartlyError, UsageError, from_os_error
from converter.options.recipe import find_recipe, load_recipe
from converter.options.request import Request
from converter.options.unused_options import without_effect
from converter.options.values import require_known
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan, plan, require_calibration_samples
from converter.pipeline.plan import require_known as require_plannable
from converter.pipeline.reads import paths_read
from converter.pipeline.refusals import impossible
from converter.pipeline.run import Listener, Run, Silent
from converter.pipeline.staging import Staging
from converter.pipeline.work import Work, describe_versions, find_parser
from converter.protocols.server import Server
from converter.runtime.interpreter import none_runs

if TYPE_CHECKING:
    from converter.report.model import Report


@dataclass(frozen=True, repr=False)
class Converted:
    """What a conversion gave.

    Attributes:
        name: The model's name.
        out: The output folder.
        plan: The steps.
        report: The report; None for a dry run.
        idle: Of a dry run: options without effect, each with why.
    """

    name: str
    out: Path
    plan: Plan
    report: Report | None = None
    idle: Sequence[str] = ()

    @property
    def artifacts(self) -> dict[str, Written]:
        """What was made, by ``TARGET:PRECISION``: ``artifacts["onnx:int8"].path``."""
        return written(self.report, self.out) if self.report else {}

    def __repr__(self) -> str:
        if self.report is None:
            return f"<Converted {self.name}: {len(self.plan.steps)} steps, not run>"
        made = ", ".join(self.artifacts)
        return f"<Converted {self.name}: {self.report.verdict}, {made}, in {self.out}>"

    def _repr_html_(self) -> str:
        if self.report is None:
            return table(("step", "does"), [(step.id, step.title) for step in self.plan.steps])
        return artifacts_table(self.report, self.out)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        if self.report is None:
            steps = [
                {"id": step.id, "title": step.title, "needs": step.needs}
                for step in self.plan.steps
            ]
            more = {"skipped": dict(self.plan.skipped), "without_effect": list(self.idle)}
            return {"name": self.name, "out": str(self.out), "steps": steps, **more}
        return {
            "name": self.name,
            "out": str(self.out),
            "report": self.report.model_dump(mode="json"),
        }


def convert(source: str, *, listener: Listener | None = None, **options: Any) -> Converted:
    """Turns a model into checked, deployable files; the output appears whole or not at all.

    Args:
        source: A model's file or folder, ``FILE.py:CLASS``, ``package.module:factory`` or
            ``zoo:NAME``.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.options.request.Request`.

    Raises:
        UsageError: The request, the samples or the output folder aren't right.
        ModelError: The model can't be read or converted.
        GateError: It was converted, and missed a gate; only ``OUT.failed/`` was left.
        PartlyError: With ``keep_going``, some of it missed a gate; the rest is in the output.
        DependencyError, MachineError: Something is missing, or gave out.
    """
    request = resolve({"source": source, **options})
    with none_runs() if request.dry_run else nullcontext():
        parser, identity = find_parser(request)
    name = request.name or identity.name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise UsageError(
            f"{name!r} can't be a model's name",
            hint="Pass --name with letters, digits, '.', '_' and '-'.",
        )
    out = Path(request.out or f"build/{name}")
    the_plan = plan_of(request)
    had = {step.precision for step in the_plan.steps if step.kind == "emit"}
    request = replace(request, precision=[item for item in request.precision if item in had])
    if request.dry_run:
        from converter.samples import require_there

        require_there(request)
        # whether samples are images shows when they are read
        idle = without_effect(request, options, images=True, source=identity.format)
        return Converted(name, out, the_plan, None, idle)
    reads = paths_read(request, identity)
    staging = Staging(out, overwrite=request.overwrite, reads=reads)
    if request.repository:
        staging.require_apart(Path(request.repository))
    with staging:
        scratch = staging.folder / ".scratch"
        scratch.mkdir()
        kept, given = Cache(request.cache), frozenset(options)
        work = Work(request, parser, identity, staging.folder, scratch, kept, given)
        with closing(work):
            try:
                report = _carry_out(work, the_plan, staging, listener or Silent())
            except PartlyError as error:
                error.converted = Converted(name, out, the_plan, error.report)
                raise
    return Converted(name, out, the_plan, report)


def run_recipe(
    recipe: str,
    *,
    listener: Listener | None = None,
    trust_recipe: bool = False,
    **options: Any,
) -> Converted:
    """Carries out a recipe: a file, or the name of one that comes with modelyard.

    Args:
        recipe: See :func:`converter.options.recipe.find_recipe`.
        listener: Told how it goes on.
        trust_recipe: Whether code and interpreters that the recipe names may run.
        **options: Fields that override the recipe's.

    Raises:
        UsageError: It names code or an interpreter, isn't trusted, and this is no dry run.
        Others: As :func:`convert`.
    """
    path = find_recipe(recipe)
    found = load_recipe(path)
    values = {**found, **options}
    if not (trust_recipe or values.get("dry_run")):
        from converter.options.trust import require_trusted

        require_trusted(path, found)
    if "source" not in values:
        raise UsageError(f"the recipe {path} names no source", hint="Add: source: net.py:Net")
    return convert(values.pop("source"), listener=listener, **values)


def plan_of(request: Request) -> Plan:
    """The steps of a request, its plug-ins asked for what they take.

    Raises:
        UsageError: The request contradicts itself, or names what there isn't.
    """
    require_known(request)
    for target in request.to:
        _require("emitters", target)
    for server in request.serve:
        _require("servers", server)
    servers: dict[str, Server] = {n: plugins.load("servers", n) for n in request.serve}
    serves = {name: server.accepts for name, server in servers.items()}
    if request.repository and servers and sum(item.publishes for item in servers.values()) != 1:
        able = [n for n in plugins.working("servers") if plugins.load("servers", n).publishes]
        raise UsageError(
            f"--repository {request.repository} is for packages of one server that has model "
            f"repositories, and --serve asks for {', '.join(servers)}",
            hint=f"Have one of them in --serve: {', '.join(able)}.",
        )
    schemes = {name: plugins.load("emitters", name).int8(request) for name in request.to}
    require_plannable(request)
    made = plan(request, serves, schemes, impossible(request))
    if any(step.kind == "calibrate" for step in made.steps):
        require_calibration_samples(request)
    return made


def _require(kind: str, name: str) -> None:
    if name not in plugins.available(kind):
        plugins.load(kind, name)  # raises, with the names that there are


def _carry_out(work: Work, the_plan: Plan, staging: Staging, listener: Listener) -> Report:
    with _machine_errors(work):
        run, versions = prepare(work, the_plan, listener)  # the framework starts before these load
        from converter.errors import BudgetError
        from converter.pipeline.outcome import Outcome
        from converter.pipeline.results import write_outcome

        outcome = Outcome(work, run, versions)
        if any(step.otherwise for step in the_plan.steps):
            run.revise = import_module("converter.pipeline.recalibrating").Recalibration(outcome)
        with suppress(BudgetError):  # told with the report
            run.carry_out()
        return write_outcome(outcome, staging)


def run_steps(work: Work, the_plan: Plan, listener: Listener) -> Run:
    """Carries out a plan's steps; gives what they gave.

    Args:
        work: Closed by whoever opened it.
        the_plan: The steps.
        listener: Told how it goes on.
    """
    with _machine_errors(work):
        run, _ = prepare(work, the_plan, listener)
        run.carry_out()
    return run


def prepare(work: Work, the_plan: Plan, listener: Listener) -> tuple[Run, Mapping[str, str]]:
    """A run that is ready to be carried out, and the versions of what will do it.

    Args:
        work: Closed by whoever opened it.
        the_plan: The steps.
        listener: Told how it goes on.
    """
    work.start(the_plan)
    from converter.pipeline.steps import ACTIONS
    from converter.samples import require_there

    require_there(work.request)
    versions = describe_versions()
    actions, kinds = dict(ACTIONS), {step.kind for step in the_plan.steps}
    if kinds - {*ACTIONS, "trace"}:  # each is imported where it is needed
        actions |= import_module("converter.pipeline.steps.precision").ACTIONS
    if "trace" in kinds:
        actions |= import_module("converter.pipeline.tracing").ACTIONS
    keep_going = work.request.keep_going
    run = Run(the_plan, {}, work.cache, listener, partial(_abort, work), keep_going=keep_going)
    run.actions.update({kind: action(work, run, versions) for kind, action in actions.items()})
    return run, versions


@contextmanager
def _machine_errors(work: Work) -> Iterator[None]:
    """Says of memory and files that give out what was being done."""
    try:
        yield
    except MemoryError as error:
        raise MachineError("the machine ran out of memory") from error
    except OSError as error:
        raise from_os_error(error, f"converting {work.name}") from error


def _abort(work: Work) -> None:
    """Ends every child, so that steps that wait for one end too."""
    from converter.passes.libraries.tools import stop_tools

    work.opened.close()
    stop_tools()
