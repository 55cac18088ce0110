"""Converts a model: convert() and run_recipe()."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.commands.opened import closing, resolve
from converter.commands.shown import Written, artifacts_table, table, written
from converter.errors import (
    MachineError,
    ModelError,
    ModelyardError,
    PartlyError,
    UsageError,
    from_os_error,
)
from converter.files.object_store import ObjectStore, local_path
from converter.options.parts import (
    OF_ALL,
    Whole,
    of_part,
    require_name,
    require_of_all,
    require_parts,
)
from converter.options.recipe import find_recipe, make_request
from converter.options.request import Request
from converter.options.resolved import served_name
from converter.options.unused_options import without_effect
from converter.options.values import require_known
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan, plan, require_calibration_samples
from converter.pipeline.plan import require_known as require_plannable
from converter.pipeline.reads import paths_read
from converter.pipeline.refusals import impossible
from converter.pipeline.run import WORKERS, Listener, Run, Silent, carry_out
from converter.pipeline.staging import SCRATCH, Staging
from converter.pipeline.work import Work, describe_versions, find_parser
from converter.preparation.flow import flow_of
from converter.protocols.parser import Identity, Parser
from converter.protocols.server import Server
from converter.runtime.interpreter import none_runs

if TYPE_CHECKING:
    from converter.options.recipe_files import Recipe
    from converter.pipeline.flow_packages import FlowPackage
    from converter.pipeline.outcome import Outcome
    from converter.preparation.joins import Joins
    from converter.report.model import Report
    from zoo.entry import Joined


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
        """What was made, by ``TARGET:PRECISION``: ``artifacts["onnx:int8"].path``; of a part
        ``PART/TARGET:PRECISION``."""
        return written(self.report, self.out) if self.report else {}

    @property
    def parts(self) -> dict[str, dict[str, Written]]:
        """What was made of each part, by ``TARGET:PRECISION``: ``parts["detect"]["onnx:int8"]``."""
        found: dict[str, dict[str, Written]] = (
            {n: {} for n in self.report.parts} if self.report else {}
        )
        for name, item in self.artifacts.items():
            if item.part:
                found[item.part][name.removeprefix(f"{item.part}/")] = item
        return found

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


@dataclass(frozen=True)
class Part:
    """A part of a request, and its plan.

    Attributes:
        name: Empty where there are no parts.
        request: What is asked for.
        parser, identity: What reads the source, and what the source is.
        plan: The steps.
        given: The fields that the user gave.
    """

    name: str
    request: Request
    parser: Parser
    identity: Identity
    plan: Plan
    given: frozenset[str]

    @property
    def model(self) -> str:
        """The model's name."""
        return self.request.name or self.identity.name


def convert(
    source: str,
    *,
    listener: Listener | None = None,
    taken: Mapping[Path, str] | None = None,
    **options: Any,
) -> Converted:
    """Turns a model into checked, deployable files; the output appears whole or not at all.

    Args:
        source: A model's file or folder, ``FILE.py:CLASS``, ``package.module:factory`` or
            ``zoo:NAME``.
        listener: Told how it goes on.
        taken: Outputs of the same command, each with what gave it: none of them is replaced.
        **options: Fields of :class:`converter.options.request.Request`.

    Raises:
        UsageError: The request, the samples or the output folder aren't right.
        ModelError: The model can't be read or converted.
        GateError: It was converted, and missed a gate; only ``OUT.failed/`` was left.
        PartlyError: With ``keep_going``, some of it missed a gate; the rest is in the output.
        DependencyError, MachineError: Something is missing, or gave out.
    """
    if source.startswith("zoo:") and (entry := _several(source)):
        require_of_all(options, source, entry.told())
        return run_recipe(entry.recipe, listener=listener, taken=taken, **options)
    if options.get("flow"):
        raise UsageError(
            "a flow joins parts, and this recipe has only one model",
            code="recipe-parts",
            hint="Write the models under parts: in the recipe.",
        )
    part = planned_part("", {"source": source, **options})
    return converted(part, listener or Silent(), taken or {})


def converted(part: Part, listener: Listener, taken: Mapping[Path, str] | None = None) -> Converted:
    """Carries out the plan of a request that has no parts; see :func:`convert`.

    Args:
        part: The request's one model.
        listener: Called as the run goes on.
        taken: Outputs of the same command, each with what gave it: none of them is replaced.
    """
    return _converted([part], Whole(part.model, part.request), listener, taken or {})


def _several(source: str) -> Joined | None:
    """What ``zoo:NAME`` says of several models; None where it is one."""
    from zoo import catalogue

    return catalogue.joined().get(source.removeprefix(catalogue.PREFIX))


def convert_parts(
    parts: Mapping[str, Mapping[str, Any]],
    *,
    listener: Listener | None = None,
    taken: Mapping[Path, str] | None = None,
    flow_places: Sequence[str] = (),
    wanted: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> Converted:
    """Turns several models into one output, as :func:`convert` does with one.

    Args:
        parts: The options of each, its ``source`` among them, by the part's name.
        listener: Told how it goes on.
        taken: As for :func:`convert`.
        flow_places: Where a recipe has each step of the flow, for messages.
        wanted: See :class:`Whole`.
        **options: Of all parts; what a part says itself counts more.

    Raises:
        As :func:`convert`. With ``keep_going``, a part that can't be converted fails alone.
    """
    from converter.preparation.joins import Ends, Joins

    require_parts(parts, options)
    whole = make_request({"source": ", ".join(parts), **options})
    joins = None
    if whole.flow:
        joins = Joins(flow_of(whole.flow, parts, places=flow_places), flow_places)
    options = {name: value for name, value in options.items() if name != "flow"}
    planned: list[Part] = []
    unread: dict[str, ModelyardError] = {}
    for name, own in parts.items():
        try:
            with of_part(name):
                planned.append(planned_part(name, {**options, "name": name, **own}))
            if joins is not None:
                asked = planned[-1].request
                joins.declare(name, Ends.of(asked.preparation or None, asked.answer or None))
        except ModelError as error:
            unread[name] = error
            if not whole.keep_going or len(unread) == len(parts):
                raise
    _require_apart(planned)
    together = Whole(whole.name or "-".join(parts), whole, unread, wanted)
    return _converted(planned, together, listener or Silent(), taken or {}, joins)


def planned_part(name: str, options: Mapping[str, Any]) -> Part:
    """A part of a request: what reads it, and the steps."""
    return part_of(name, resolve(options), frozenset(options) - {"source"})


def part_of(name: str, request: Request, given: frozenset[str]) -> Part:
    """The same of a request that is resolved; ``given`` are the fields that the user gave.

    Args:
        name: The part's; empty where there are no parts.
        request: A request that is resolved.
        given: Fields that the user gave.
    """
    if request.deploy:
        from converter.pipeline.deployments import require_here

        require_here(request)
    with none_runs() if request.dry_run else nullcontext():
        parser, identity = find_parser(request)
    the_plan = plan_of(request)
    had = {step.precision for step in the_plan.steps if step.kind == "emit"}
    request = replace(request, precision=[item for item in request.precision if item in had])
    part = Part(name, request, parser, identity, the_plan, given)
    require_name(part.model)
    return part


def _require_apart(parts: Sequence[Part]) -> None:
    """Refuses parts whose models one server would have under one name."""
    seen: dict[tuple[str, str], str] = {}
    for part in parts:
        asked = part.request
        names = {served_name(asked, part.model, precision) for precision in asked.precision}
        for server, name in product(asked.serve, sorted(names)):
            other = seen.setdefault((server, name.lower()), part.name)
            if other != part.name:
                raise UsageError(
                    f"the parts {other} and {part.name} would both be called {name} on {server}",
                    code="recipe-parts",
                    hint="Give one of the parts another name in the recipe: name: other.",
                )


def _converted(
    parts: Sequence[Part],
    whole: Whole,
    listener: Listener,
    taken: Mapping[Path, str],
    joins: Joins | None = None,
) -> Converted:
    """Carries out the plans of all parts; the output is one, and none that is taken."""
    title, request = whole.title, whole.request
    require_name(title)
    out = Path(request.out or f"build/{title}")
    if other := taken.get(out.resolve()):
        raise UsageError(
            f"the output {out} is already the output of {other}",
            code="output-in-the-way",
            hint="Give each recipe its own out: FOLDER or its own name: NAME.",
        )
    steps = tuple(step.of(part.name) for part in parts for step in part.plan.steps)
    skipped = {f"{p.name} {k}".strip(): v for p in parts for k, v in p.plan.skipped.items()}
    the_plan = Plan(steps, skipped)
    if request.dry_run:
        return Converted(title, out, the_plan, None, _idle(parts))
    staging = staging_of(parts, out, request)
    with staging, ExitStack() as stack:
        (staging.folder / SCRATCH).mkdir()
        cache = Cache.of(request)
        works = [work_of(part, staging, cache, joins) for part in parts]
        for work in works:
            stack.enter_context(closing(work))
        try:
            report = _carry_out(works, parts, staging, listener, whole)
        except PartlyError as error:
            error.converted = Converted(title, out, the_plan, error.report)
            raise
    return Converted(title, out, the_plan, report)


def _idle(parts: Sequence[Part]) -> list[str]:
    """The options of a dry run that are without effect, each with why."""
    from converter.samples import require_there

    found = []
    for part in parts:
        with of_part(part.name):
            require_there(part.request)
        # whether samples are images shows when they are read
        idle = without_effect(part.request, part.given, images=True, source=part.identity.format)
        found += [f"{part.name}: {text}" if part.name else text for text in idle]
    return found


def staging_of(parts: Sequence[Part], out: Path, request: Request) -> Staging:
    """Where the output is made.

    Args:
        parts: The models of the run; what they read may not lie in the output.
        out: The output folder, which appears at the end.
        request: Says whether an earlier output may be overwritten.

    Raises:
        UsageError: The output lies in a repository that a part publishes to, or the repository in
            it.
    """
    reads = {
        f"{part.name}: {what}" if part.name else what: path
        for part in parts
        for what, path in paths_read(part.request, part.identity).items()
    }
    staging = Staging(out, overwrite=request.overwrite, reads=reads)
    for repository in {part.request.repository for part in parts} - {None}:
        if folder := local_path(str(repository)):
            staging.require_apart(folder)
    return staging


def work_of(
    part: Part, staging: Staging, cache: Cache, joins: Joins | None, scratch: Path | None = None
) -> Work:
    """What the steps of a part share, with folders of its own.

    Args:
        part: One of the run's models.
        staging: Where the output is made; the part's folder is in it.
        cache: Where results of steps are kept.
        joins: What joins the part to others in a flow; None without a flow.
        scratch: For files that go again; None for a folder in the staging folder.
    """
    folder, scratch = staging.folder / part.name, scratch or staging.folder / SCRATCH / part.name
    for made in (folder, scratch):
        made.mkdir(exist_ok=True)
    return Work(
        part.request, part.parser, part.identity, folder, scratch, cache, part.given,
        part=part.name, joins=joins,
    )  # fmt: skip


def run_recipe(
    recipe: str | Recipe,
    *,
    listener: Listener | None = None,
    trust_recipe: bool = False,
    set: Mapping[str, Any] | None = None,
    document: int | None = None,
    taken: Mapping[Path, str] | None = None,
    **options: Any,
) -> Converted:
    """Carries out a recipe: a file, the name of one that comes with modelyard, or one that is read.

    Args:
        recipe: See :func:`converter.options.recipe.find_recipe`.
        listener: Told how it goes on.
        trust_recipe: Whether code and interpreters that the recipe names may run.
        set: Its variables, by name.
        document: Which one of a file of several, counted from 1.
        taken: As for :func:`convert`.
        **options: Fields that override the recipe's.

    Raises:
        UsageError: It names code or an interpreter, isn't trusted, and this is no dry run.
        Others: As :func:`convert`.
    """
    from converter.options.recipe_files import open_recipe
    from converter.pipeline.layers import overruled

    found = open_recipe(find_recipe(recipe), set, document) if isinstance(recipe, str) else recipe
    values = overruled(found.values, options)
    if not (trust_recipe or values.get("dry_run")):
        from converter.options.trust import require_trusted

        require_trusted(found)
    if "sweep" in values:
        raise UsageError(
            f"{found.where} is a sweep",
            code="sweep",
            hint=f"Run it with: modelyard sweep {found.path}",
        )
    if "parts" in values:
        of_all = {name: value for name, value in values.items() if name != "parts"}
        over = {n: value for n, value in options.items() if n not in (*OF_ALL, "name")}
        parts = {name: overruled(own, over) for name, own in values["parts"].items()}
        places = () if "flow" in options else found.flow_places
        return convert_parts(parts, listener=listener, taken=taken, flow_places=places, **of_all)
    if "source" not in values:
        raise UsageError(
            f"{found.where} names no source", code="recipe-invalid", hint="Add: source: net.py:Net"
        )
    return convert(values.pop("source"), listener=listener, taken=taken, **values)


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
    for place in request.deploy:
        _require("deployments", place)
    servers: dict[str, Server] = {n: plugins.load("servers", n) for n in request.serve}
    if request.deploy:
        from converter.pipeline.deployments import require_deployable

        require_deployable(servers)
    serves = {name: server.accepts for name, server in servers.items()}
    if request.repository and local_path(request.repository) is None:
        if request.offline:
            raise UsageError(
                f"--offline and --repository {request.repository} contradict each other",
                code="option-conflict",
            )
        ObjectStore(request.repository)  # refuses what can't be opened, before time is spent
    if request.repository and servers and sum(item.publishes for item in servers.values()) != 1:
        able = [n for n in plugins.working("servers") if plugins.load("servers", n).publishes]
        raise UsageError(
            f"--repository {request.repository} needs exactly one server with model "
            f"repositories in --serve, which asks for {', '.join(servers)}",
            code="option-conflict",
            hint=f"Servers with model repositories: {', '.join(able)}.",
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


def _carry_out(
    works: Sequence[Work],
    parts: Sequence[Part],
    staging: Staging,
    listener: Listener,
    whole: Whole,
) -> Report:
    with _machine_errors(whole.title):
        prepared = [  # frameworks start before these load
            prepare(work, part.plan, listener, early=early)
            for work, part, early in zip(works, parts, _early(parts), strict=True)
        ]
        from converter.errors import BudgetError
        from converter.pipeline.results import write_outcome

        outcomes = [
            outcome_of(work, run, versions)
            for work, (run, versions) in zip(works, prepared, strict=True)
        ]
        for outcome in outcomes:
            if not whole.request.flow:  # whose check asks all sources together
                outcome.run.end = outcome.work.opened.close
        with suppress(BudgetError):  # told with the report
            carry_out([outcome.run for outcome in outcomes])
        flows: tuple[list[FlowPackage], list[str]] = [], []
        if whole.request.flow and all(outcome.is_told for outcome in outcomes):
            flows = _joined(outcomes, whole)
        return write_outcome(outcomes, staging, whole, flows)


def _joined(outcomes: Sequence[Outcome], whole: Whole) -> tuple[list[FlowPackage], list[str]]:
    """Checks the flow that joins the parts, and writes its packages; see
    :func:`converter.pipeline.flow_packages.join_packages`."""
    checks = import_module("converter.pipeline.flow_check")
    checks.require_joined(outcomes, whole)
    examples = checks.examples_of(outcomes, whole)
    if whole.request.check:
        gates, examples = checks.check_flow(outcomes, whole)
        for together, gate in gates:
            for outcome in outcomes:
                outcome.joined[together[outcome.part]] = gate
    join_packages = import_module("converter.pipeline.flow_packages").join_packages
    made: tuple[list[FlowPackage], list[str]] = join_packages(outcomes, whole, examples)
    return made


def _early(parts: Sequence[Part]) -> Iterator[bool]:
    """Of which parts the framework is started before their steps begin: as many as run at once, and
    each source once."""
    sources: list[tuple[str, str | None]] = []
    for part in parts:
        source = part.request.source, part.request.weights
        yield source not in sources and len(sources) < WORKERS
        sources.append(source)


def outcome_of(work: Work, run: Run, versions: Mapping[str, str]) -> Outcome:
    """A run that will be carried out, as what is made of it sees it.

    Where the plan has a second method of calibration, that is tried after a missed gate.

    Args:
        work: What its steps share.
        run: The run; its ``revise`` is set for that second method.
        versions: Of the packages that take part, by name, for the manifest.
    """
    from converter.pipeline.outcome import Outcome

    outcome = Outcome(work, run, versions)
    if any(step.otherwise for step in outcome.plan.steps):
        run.revise = import_module("converter.pipeline.recalibrating").Recalibration(outcome)
    return outcome


def run_steps(work: Work, the_plan: Plan, listener: Listener) -> Run:
    """Carries out a plan's steps; gives what they gave.

    Args:
        work: Closed by whoever opened it.
        the_plan: The steps.
        listener: Told how it goes on.
    """
    with _machine_errors(work.name):
        run, _ = prepare(work, the_plan, listener)
        run.carry_out()
    return run


def prepare(
    work: Work, the_plan: Plan, listener: Listener, *, early: bool = True, apart: str = ""
) -> tuple[Run, Mapping[str, str]]:
    """A run that is ready to be carried out, and the versions of what will do it.

    Args:
        work: Closed by whoever opened it.
        the_plan: The steps.
        listener: Told how it goes on.
        early: Whether what reads the source is started now, and not when its step begins.
        apart: What a run is called that others go on without, whatever it fails with.
    """
    if early:
        work.start(the_plan)
    from converter.pipeline.steps import ACTIONS
    from converter.samples import path_of, require_there

    require_there(work.request)
    path_of("--calibration-samples", work.request.calibration_samples)
    versions = describe_versions()
    actions, kinds = dict(ACTIONS), {step.kind for step in the_plan.steps}
    if kinds - {*ACTIONS, "trace"}:  # each is imported where it is needed
        actions |= import_module("converter.pipeline.steps.precision").ACTIONS
    if "trace" in kinds:
        actions |= import_module("converter.pipeline.tracing").ACTIONS
    run = Run(
        the_plan, {}, work.cache, listener, partial(_abort, work),
        keep_going=work.request.keep_going, part=work.part or apart, apart=bool(apart),
    )  # fmt: skip
    run.actions.update({kind: action(work, run, versions) for kind, action in actions.items()})
    return run, versions


@contextmanager
def _machine_errors(name: str) -> Iterator[None]:
    """Says of memory and files that give out what was being done."""
    try:
        yield
    except MemoryError as error:
        raise MachineError("the machine ran out of memory", code="out-of-memory") from error
    except OSError as error:
        raise from_os_error(error, f"converting {name}") from error


def _abort(work: Work) -> None:
    """Ends every child, so that steps that wait for one end too."""
    from converter.passes.libraries.tools import stop_tools

    work.opened.close()
    stop_tools()
