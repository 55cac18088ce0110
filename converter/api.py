"""The Python twin of the command line: convert, run_recipe, check, bench, diff, inspect, doctor.

    from converter import api

    result = api.convert("net.py:Net", weights="net.pth", inputs=["x:batchx3x224x224"],
                         serve=["triton"], samples="photos/", out="build/net")
    print(result.out, result.report.verdict)

Options are the fields of :class:`converter.request.Request`. Errors are
:class:`converter.errors.ModelyardError`.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.cache import Cache
from converter.errors import MachineError, UsageError, from_os_error
from converter.plan import Plan, Step, plan
from converter.plugins import Artifact, Session
from converter.recipe import find_recipe, load_recipe, make_request
from converter.request import Request
from converter.run import Listener, Run, Silent
from converter.staging import Staging
from converter.work import Work, describe_versions, find_parser, sizes_of

if TYPE_CHECKING:
    from converter.check.accuracy import AccuracyResult
    from converter.check.gates import GateResult
    from converter.check.latency import LatencyResult
    from converter.diff.result import Diffed
    from converter.doctor import Findings
    from converter.inspection import Inspection
    from converter.ir import Model, TensorSpec
    from converter.report.model import Report
    from converter.samples import Samples


# -- convert -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Converted:
    """What a conversion gave.

    Attributes:
        name: The model's name.
        out: The output folder.
        plan: The steps.
        report: The report; None for a dry run.
    """

    name: str
    out: Path
    plan: Plan
    report: Report | None = None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        if self.report is None:
            steps = [
                {"id": step.id, "title": step.title, "needs": step.needs}
                for step in self.plan.steps
            ]
            return {"name": self.name, "out": str(self.out), "steps": steps}
        return {
            "name": self.name,
            "out": str(self.out),
            "report": self.report.model_dump(mode="json"),
        }


def convert(source: str, *, listener: Listener | None = None, **options: Any) -> Converted:
    """Turns a model into checked, deployable files; the output appears whole or not at all.

    Args:
        source: A model's file (.onnx, .keras, .h5, .tflite, .pb, .meta, .pt2, .pt) or folder
            (SavedModel, Hugging Face), ``FILE.py:CLASS``, ``package.module:factory`` or
            ``zoo:NAME``.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.request.Request`.

    Raises:
        UsageError: The request, the samples or the output folder aren't right.
        ModelError: The model can't be read or converted.
        GateError: It was converted, and missed a gate; only ``OUT.failed/`` was left.
        DependencyError, MachineError: Something is missing, or gave out.
    """
    request = _resolve({"source": source, **options})
    parser, identity = find_parser(request)
    name = request.name or identity.name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise UsageError(
            f"{name!r} can't be a model's name",
            hint="Pass --name with letters, digits, '.', '_' and '-'.",
        )
    out = Path(request.out or f"build/{name}")
    the_plan = _plan(request)
    if request.dry_run:
        return Converted(name, out, the_plan)
    with Staging(out.absolute(), overwrite=request.overwrite) as staging:
        scratch = staging.folder / ".scratch"
        scratch.mkdir()
        work = Work(request, parser, identity, staging.folder, scratch, Cache(request.cache))
        with _closing(work):
            report = _carry_out(work, the_plan, staging, listener or Silent())
    return Converted(name, out, the_plan, report)


def run_recipe(recipe: str, *, listener: Listener | None = None, **options: Any) -> Converted:
    """Carries out a recipe: a file, or the name of one that comes with modelyard.

    Args:
        recipe: See :func:`converter.recipe.find_recipe`.
        listener: Told how it goes on.
        **options: Fields that override the recipe's.

    Raises:
        As :func:`convert`.
    """
    path = find_recipe(recipe)
    values = {**load_recipe(path), **options}
    if "source" not in values:
        raise UsageError(f"the recipe {path} names no source", hint="Add: source: net.py:Net")
    return convert(values.pop("source"), listener=listener, **values)


def _resolve(values: Mapping[str, Any]) -> Request:
    """The request with ``zoo:NAME`` replaced by what the catalogue says; options go on top."""
    source = str(values.get("source", ""))
    if not source.startswith("zoo:"):
        return make_request(values)
    make_request(values)
    from zoo import catalogue

    found = catalogue.resolve(source, offline=bool(values.get("offline")))
    return make_request({**found, **{k: v for k, v in values.items() if k != "source"}})


def _plan(request: Request) -> Plan:
    for target in request.to:
        _require("emitters", target)
    for server in request.serve:
        _require("servers", server)
    serves = {name: plugins.load("servers", name).accepts for name in request.serve}
    schemes = {name: plugins.load("emitters", name).scheme for name in request.to}
    return plan(request, serves, schemes)


def _require(kind: str, name: str) -> None:
    if name not in plugins.available(kind):
        plugins.load(kind, name)  # raises, with the names that there are


def _carry_out(work: Work, the_plan: Plan, staging: Staging, listener: Listener) -> Report:
    work.start(the_plan)
    from converter.lowering import ACTIONS as LOWERING
    from converter.results import Outcome, write_outcome
    from converter.samples import require_there
    from converter.steps import ACTIONS

    require_there(work.request)

    versions = describe_versions()
    actions = {**ACTIONS, **LOWERING}
    run = Run(the_plan, {}, work.cache, listener, partial(_abort, work))
    run.actions.update({kind: action(work, run, versions) for kind, action in actions.items()})
    try:
        run.carry_out()
        outcome = Outcome(work, the_plan, run, versions)
        return write_outcome(outcome, staging)
    except MemoryError as error:
        raise MachineError("the machine ran out of memory") from error
    except OSError as error:
        raise from_os_error(error, f"converting {work.name}") from error


def _abort(work: Work) -> None:
    """Ends every child, so that steps that wait for one end too."""
    from converter.passes.tools import stop_tools

    work.close()
    stop_tools()


@contextmanager
def _closing(work: Work) -> Iterator[None]:
    try:
        yield
    finally:
        work.close()


# -- check and bench ---------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """How an artifact compares with the model it came from."""

    based_on: str
    accuracy: AccuracyResult
    gates: Sequence[GateResult]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "based_on": self.based_on,
            "accuracy": asdict(self.accuracy),
            "gates": [asdict(gate) for gate in self.gates],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each output."""
        return [
            (
                output.name,
                _number(output.cosine, ".8f"),
                _number(output.max_abs, ".3g"),
                _number(output.sqnr_db, ".1f") + " dB",
                str(output.introduced + output.altered),
            )
            for output in self.accuracy.comparison.outputs
        ]

    def gate_rows(self) -> list[tuple[str, ...]]:
        """A line for each gate."""
        return [
            (gate.name, _number(gate.limit, "g"), _number(gate.value, ".6g"), gate.status)
            for gate in self.gates
        ]


@dataclass(frozen=True)
class Benchmark:
    """Latencies of an artifact, and of what it was measured against."""

    latency: LatencyResult
    machine: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"latency": asdict(self.latency), "machine": dict(self.machine)}

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each point."""
        from converter.report import words

        ratios = {(item.batch, item.concurrency): item for item in self.latency.ratios}
        return [
            (
                point.name,
                str(point.batch),
                str(point.concurrency),
                words.number(point.p50_ms),
                words.number(point.p95_ms),
                words.number(point.p99_ms),
                words.number(point.throughput),
                _ratio(ratios.get((point.batch, point.concurrency)), point.role),
            )
            for point in self.latency.points
        ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _ratio(ratio: Any, role: str) -> str:
    if ratio is None or role != "artifact":
        return ""
    return f"x{ratio.speedup:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def check(
    artifact: str, source: str, *, listener: Listener | None = None, **options: Any
) -> Checked:
    """Compares an artifact, opened from disk, with the model it came from.

    Args:
        artifact: A file that an emitter wrote.
        source: The model it came from, as for :func:`convert`.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.request.Request`.

    Raises:
        GateError: A gate was missed.
        Others: As :func:`convert`.
    """
    with _opened(artifact, source, options) as (work, session, samples):
        from converter.check.accuracy import check_accuracy
        from converter.check.gates import Limits, judge, require
        from converter.check.reference import ReferenceOutputs
        from converter.steps import choose_metrics

        request = work.request
        with _told(listener, "reference", "running the source model") as progress:
            work.progress = progress
            folder = work.scratch / "reference"
            reference = ReferenceOutputs.compute(work.reference(), samples, folder, progress)
        metrics = choose_metrics(request, session, samples)
        with _told(listener, "check", f"checking {Path(artifact).name}") as progress:
            accuracy = check_accuracy(
                reference, session, samples, metrics=metrics, progress=progress
            )
        arithmetic = str(reference.runtime.get("arithmetic", ""))
        limits = Limits.of(request, request.precision[0], arithmetic)
        gates = judge(limits, accuracy, metrics_asked=request.metric)
        checked = Checked(_based_on(samples), accuracy, gates)
        require(gates, Path(artifact).name)
        return checked


def bench(
    artifact: str,
    against: str | None = None,
    *,
    listener: Listener | None = None,
    **options: Any,
) -> Benchmark:
    """Measures an artifact's latency, and in turns with it that of the model it came from.

    Args:
        artifact: A file that an emitter wrote.
        against: The model to measure beside it; None for the artifact alone.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.request.Request`.

    Raises:
        As :func:`convert`.
    """
    with _opened(artifact, against or artifact, options) as (work, session, samples):
        from converter.check.gates import Limits, judge, require
        from converter.check.machine import describe_machine
        from converter.steps import measure_session

        with _told(listener, "source", "opening the source model") as progress:
            work.progress = progress
            source = work.reference() if against else None
        with _told(listener, "bench", f"measuring {Path(artifact).name}") as progress:
            latency = measure_session(session, source, samples, work.request, progress)
        gates = judge(Limits.of(work.request, "fp32"), None, latency.artifact)
        require([gate for gate in gates if gate.measured], Path(artifact).name)
        return Benchmark(latency, asdict(describe_machine()))


@contextmanager
def _told(listener: Listener | None, id: str, title: str) -> Iterator[plugins.Progress]:
    """Tells ``listener`` of one thing that is done; gives what it is to be told by meanwhile."""
    listening, step = listener or Silent(), Step(id, title)
    start = time.perf_counter()
    listening.started(step)
    yield lambda text: listening.progress(step, text)
    listening.finished(step, time.perf_counter() - start, False)


@contextmanager
def _opened(
    artifact: str, source: str, options: Mapping[str, Any]
) -> Iterator[tuple[Work, Session, Samples]]:
    """The source, a session on the artifact, and samples for the artifact's inputs."""
    path = Path(artifact)
    if not path.exists():
        raise UsageError(f"there is no {artifact}")
    with _working(source, options) as work:
        session, samples = _open_artifact(path, work)
        try:
            yield work, session, samples
        finally:
            session.close()


@contextmanager
def _working(source: str, options: Mapping[str, Any]) -> Iterator[Work]:
    """A source to look at, without an output: its folder goes again."""
    request = _resolve({"source": source, **options})
    parser, identity = find_parser(request)
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        scratch = Path(folder)
        work = Work(request, parser, identity, scratch, scratch, Cache(False))
        with _closing(work):
            yield work


def _open_artifact(path: Path, work: Work) -> tuple[Session, Samples]:
    from converter.samples import load_samples

    emitter = _emitter_of(path)
    request = work.request
    made = Artifact(emitter.name, request.precision[0], path, [path])
    session: Session = emitter.open(made, request)
    symbols = tuple(
        dict.fromkeys(
            dim for spec in session.inputs for dim in spec.shape or () if isinstance(dim, str)
        )
    )
    samples = load_samples(request, session.inputs, sizes_of(request, symbols))
    samples.validate()
    return session, samples


def _emitter_of(path: Path) -> Any:
    for name in plugins.available("emitters"):
        emitter = plugins.load("emitters", name)
        if emitter.sniff(path):
            return emitter
    known = ", ".join(plugins.available("emitters"))
    raise UsageError(f"{path.name} is no artifact that can be run", hint=f"Formats: {known}.")


def _based_on(samples: Samples) -> str:
    if samples.random:
        return f"Checked on RANDOM inputs only ({samples.origin}): give --samples for a real check."
    return f"Checked on {len(samples)} samples ({samples.origin})."


# -- diff --------------------------------------------------------------------------------


def diff(
    a: str,
    b: str,
    *,
    tolerance: float | None = None,
    out: str | None = None,
    listener: Listener | None = None,
    **options: Any,
) -> Diffed:
    """Finds the earliest tensor at which two models part.

    Args:
        a: An ONNX file, or a source as for :func:`convert`.
        b: The other; it has to take the same inputs.
        tolerance: Largest error of tensors that agree, as a share of a tensor's largest value;
            None for what rounding explains.
        out: A file for a page with the error along the graph.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.request.Request`; those of the source are for what
            isn't an ONNX file.

    Raises:
        UsageError: The models don't take the same inputs, or the samples don't fit.
        Others: As :func:`convert`.
    """
    from converter.diff import compare_models
    from converter.diff.result import Diffed
    from converter.samples import load_samples

    with ExitStack() as stack:
        with _told(listener, "parse", "reading the models") as progress:
            one = _model_of(a, options, stack, progress)
            other = _model_of(b, options, stack, progress)
        request = _resolve({"source": next((s for s in (a, b) if not _is_onnx(s)), a), **options})
        sizes = sizes_of(request, one.symbols)
        samples = load_samples(request, _known_inputs(one, other), sizes)
        samples.validate()
        with _told(listener, "diff", f"comparing {Path(a).name} and {Path(b).name}") as progress:
            found = compare_models(one, other, samples, tolerance=tolerance, progress=progress)
    page = Path(out) if out else None
    result = Diffed(Path(a).name, Path(b).name, _compared_on(samples, found.samples), found, page)
    if page:
        result.write(page)
    return result


def _is_onnx(source: str) -> bool:
    from converter.filetypes import onnx_outline

    path = Path(source)
    return path.is_file() and onnx_outline(path).is_onnx


def _model_of(
    source: str, options: Mapping[str, Any], stack: ExitStack, progress: plugins.Progress
) -> Model:
    """A model as it is; its names are the file's, and everything has one."""
    from converter.ir import Model

    if _is_onnx(source):
        model = Model.load(Path(source))
    else:
        work = stack.enter_context(_working(source, options))  # its files have to stay
        work.progress = progress
        model = work.source().parse()
    model.graph = plugins.load("passes", "normalize")(model.graph).model
    return model


def _known_inputs(a: Model, b: Model) -> tuple[TensorSpec, ...]:
    """The inputs of A, with what is known of them in either model."""
    from converter.ir import described

    return tuple(
        described(spec, {**b.meanings.get(spec.name, {}), **a.meanings.get(spec.name, {})})
        for spec in a.inputs
    )


def _compared_on(samples: Samples, used: int) -> str:
    if samples.random:
        return f"Compared on RANDOM inputs only ({samples.origin}): give --samples."
    many = f"the first {used} of {len(samples)}" if used < len(samples) else str(used)
    return f"Compared on {many} samples ({samples.origin})."


# -- inspect and doctor ------------------------------------------------------------------


def inspect(source: str, *, listener: Listener | None = None, **options: Any) -> Inspection:
    """What a model is made of.

    Args:
        source: As for :func:`convert`.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.request.Request`.

    Raises:
        As :func:`convert`.
    """
    with _working(source, options) as work:
        from converter.inspection import inspect_model

        with _told(listener, "parse", "reading the model") as progress:
            work.progress = progress
            model = work.source().parse()
        model.graph = plugins.load("passes", "normalize")(model.graph).model
        return inspect_model(model, work.name, sizes_of(work.request, model.symbols))


def doctor(
    python: str | None = None, *, progress: plugins.Progress = lambda text: None
) -> Findings:
    """What is installed and usable here, and what to do about what isn't.

    Args:
        python: Another interpreter to look at, for its frameworks.
        progress: Told what is being done.

    Raises:
        UsageError: There is no usable Python there.
    """
    from converter.doctor import examine

    return examine(python, progress)
