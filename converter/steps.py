"""What each kind of step does: parse, samples, simplify, reference, emit, check, bench, package.

:mod:`converter.run` decides when; what they gave is put together in :mod:`converter.results`.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from converter import plugins
from converter.cache import Cache
from converter.check.accuracy import AccuracyResult, StepError, check_accuracy, compare_steps
from converter.check.feeding import Fed, takes_integers
from converter.check.latency import LatencyResult, batch_feeds, measure
from converter.check.metric_drop import require_metric
from converter.check.reference import ReferenceOutputs
from converter.check.task_metrics import Metric, default_metrics, load_metric
from converter.digest import digest_of, file_digest
from converter.errors import ModelError, ModelyardError, UnsupportedError
from converter.graph.batch import check_batch, fix_batch
from converter.graph.value_ranges import output_ranges
from converter.ir import BATCH, OPSET, Model, PassRecord, TensorSpec
from converter.layout import KEPT
from converter.ort import OrtSession
from converter.passes.base import ModelPass
from converter.passes.patterns import FusePass
from converter.passes.repair_shapes import RepairShapes
from converter.plan import Step
from converter.plugins import Artifact, Emitter, Packaged, Progress, Server
from converter.request import Request
from converter.samples import Samples, load_samples
from converter.verify import Verifier, build_probes, run_passes
from converter.work import Work, sizes_of

KEPT_BELOW = 1_000_000_000
"""Bytes of weights from which a model isn't copied into the cache."""


class Results(Protocol):
    """The results of the steps that are done."""

    def result(self, id: str) -> Any: ...


@dataclass
class Made:
    """A model between two steps, with what the report has to say of it.

    Attributes:
        model: The model.
        warnings: Loud lines for the report.
        records: What the passes of this step did.
        seen: Contents of the files that reading it turned out to depend on, by name.
        misses: What its fusing passes left alone: pass, rule, node, reason.
    """

    model: Model
    warnings: list[str] = field(default_factory=list)
    records: list[PassRecord] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    misses: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class CheckedArtifact:
    """An artifact's accuracy, and what each step before it lost; ``others``: on other kernels."""

    accuracy: AccuracyResult
    steps: list[StepError]
    runtime: dict[str, Any]
    others: dict[str, AccuracyResult] = field(default_factory=dict)


class StepAction(ABC):
    """A step whose result is kept nowhere."""

    def __init__(self, work: Work, done: Results, versions: Mapping[str, str]) -> None:
        self.work = work
        self.done = done
        self.versions = versions

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.work.request

    @abstractmethod
    def run(self, step: Step, progress: Progress) -> Any:
        """Does it; gives its result."""

    def key(self, step: Step, needs: list[str], result: Any) -> str:
        """The step's own key."""
        return step.key(needs, self.versions)

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """Nothing is kept."""
        return None

    def keep(self, key: str, result: Any, cache: Cache) -> None:  # noqa: B027 - most keep nothing
        """Nothing is kept."""


# -- the model ---------------------------------------------------------------------------


def _keep_model(key: str, made: Made, cache: Cache) -> None:
    """Puts a model and what was said of it into the cache, unless it is very large."""
    if made.model.weight_bytes() > KEPT_BELOW:
        return
    with cache.adding(key) as folder:
        if folder is not None:
            made.model.copy().save(folder / "model.onnx")
            said = {
                "warnings": made.warnings,
                "records": [asdict(record) for record in made.records],
                "history": [asdict(record) for record in made.model.history],
                "seen": made.seen,
                "misses": made.misses,
            }
            (folder / "said.json").write_text(json.dumps(said))


def _find_model(key: str, cache: Cache) -> Made | None:
    """The model kept under ``key``; an entry that was damaged counts as none."""
    folder = cache.find(key)
    if folder is None:
        return None
    try:
        said = json.loads((folder / "said.json").read_text())
        model = Model.load(folder / "model.onnx")
        model.history = [PassRecord(**item) for item in said["history"]]
        records = [PassRecord(**item) for item in said["records"]]
        return Made(model, said["warnings"], records, said["seen"], said["misses"])
    except (ModelyardError, OSError, ValueError, KeyError, TypeError):
        cache.drop(key)
        return None


class Parse(StepAction):
    """The source becomes a Model; what it depends on is only known once it has been read."""

    def run(self, step: Step, progress: Progress) -> Made:
        """Reads the source in its framework and gives every part of it a name."""
        self.work.progress = progress
        progress(f"reading {self.work.name}")
        source = self.work.source()
        model = source.parse()
        model.graph = plugins.load("passes", "normalize")(model.graph).model
        model.source = {**self.work.source_facts(), **model.source}
        self._refuse_early(model)
        modules = source.dependencies()
        self.work.remember_parsed(step, modules)
        seen = {name: file_digest(path) for name, path in modules.items()}
        return Made(model, list(source.warnings), seen=seen)

    def _refuse_early(self, model: Model) -> None:
        refuse_unsupported(model, self.request, simplified=False)
        for name in self.request.serve:
            server: Server = plugins.load("servers", name)
            server.check(model, self.request)

    def key(self, step: Step, needs: list[str], result: Made) -> str:
        """The key of everything, the imported modules included."""
        return self.work.parsed_key(step, result.seen)

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """The model of an earlier run, where every file it depended on is still the same."""
        key = self.work.find_parsed(step)
        found = _find_model(key, cache) if key else None
        if key is None or found is None:
            return None
        self._refuse_early(found.model)
        self.work.layout_changes = found.model.source.get(KEPT)
        return key, found

    def keep(self, key: str, result: Made, cache: Cache) -> None:
        """Keeps what a framework exported; a file that is read as it is isn't worth it."""
        if self.work.parser.extra is not None:
            _keep_model(key, result, cache)


def refuse_unsupported(model: Model, request: Request, *, simplified: bool) -> None:
    """Raises UnsupportedError with all that a target asked for can't take of the model."""
    for target in request.to:
        emitter: Emitter = plugins.load("emitters", target)
        items = emitter.unsupported(model, request, simplified=simplified)
        if items:
            raise UnsupportedError(f"{target} can't take {len(items)} nodes of this model", items)


class ReadSamples(StepAction):
    """The samples, checked against the model's interface."""

    def run(self, step: Step, progress: Progress) -> Samples:
        """Reads every sample once: what doesn't fit is said before anything takes long."""
        model: Model = self.done.result("parse").model
        sizes = sizes_of(self.request, model.symbols)
        samples = load_samples(self.request, model.inputs, sizes)
        samples.validate()
        if self.request.max_drop is not None:
            require_metric(self.request.metric, model.outputs, samples)
        return samples

    def key(self, step: Step, needs: list[str], result: Samples) -> str:
        """The digest of their contents, and the versions of what prepared them."""
        tools = [self.versions.get(name) for name in ("numpy", "pillow")]
        return digest_of([result.digest, result.label_names, tools])


class Simplify(StepAction):
    """The model at the pipeline's opset, simplified; every pass verified."""

    def run(self, step: Step, progress: Progress) -> Made:
        """Runs the passes on a copy; a pass that changes results is rolled back."""
        samples: Samples = self.done.result("samples")
        before = self.done.result("parse").model.copy()
        warnings = self._settle_batch(before, samples)
        verifier = Verifier(before, build_probes(before, samples, self.request.dims))
        passes = [self._load(name) for name in step.params["passes"]]
        model = run_passes(before, passes, verifier, progress)
        _require_opset(model)
        refuse_unsupported(model, self.request, simplified=True)
        _describe(model, samples)
        records = model.history[len(before.history) :]
        return Made(model, warnings, records, misses=_misses(passes))

    def _load(self, name: str) -> ModelPass:
        made: ModelPass = plugins.load("passes", name)
        if isinstance(made, RepairShapes):
            made = RepairShapes(self.request.dims)
        return made

    def _settle_batch(self, model: Model, samples: Samples) -> list[str]:
        """Runs a symbolic batch at 1 and 2; one that doesn't hold is fixed to 1, or refused."""
        if not any(BATCH in (spec.shape or ()) for spec in model.inputs):
            return []
        finding = check_batch(model, next(iter(samples)).feeds)
        if finding.works_at_2:
            return []
        if self.request.batch == "dynamic":
            raise ModelError(
                f"the model declares a free batch, but fails at 2: {finding.reason}",
                hint="Leave --batch dynamic out to fix the batch to 1.",
            )
        fix_batch(model, 1)
        return [f"THE BATCH IS FIXED TO 1: the model declares it free, but at 2 {finding.reason}"]

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """The model of an earlier run."""
        key = step.key(needs, self.versions)
        found = _find_model(key, cache)
        if found is None:
            return None
        refuse_unsupported(found.model, self.request, simplified=True)
        return key, found

    def keep(self, key: str, result: Made, cache: Cache) -> None:
        """Keeps the model, and what its passes did."""
        _keep_model(key, result, cache)


def _misses(passes: Sequence[ModelPass]) -> list[dict[str, str]]:
    """The near matches that the passes' last runs left alone."""
    return [
        {"name": item.name, "rule": miss.rule, "node": miss.node, "reason": miss.reason}
        for item in passes
        if isinstance(item, FusePass)
        for miss in item.misses
    ]


def _describe(model: Model, samples: Samples) -> None:
    """Keeps in the model what its samples and its graph tell of inputs and outputs."""
    for name, meaning in samples.meanings.items():
        model.describe(name, **meaning)
    for name, known in output_ranges(model.graph).items():
        model.describe(name, value_range=known)
    names = samples.label_names
    for spec in model.outputs:
        if names and spec.is_float and spec.shape and spec.shape[-1] == len(names):
            model.describe(spec.name, meaning="scores", labels=list(names))
            break


def _require_opset(model: Model) -> None:
    if model.opset == OPSET:
        return
    reasons = [r.detail for r in model.history if r.status in ("failed", "rolled-back")]
    raise ModelError(
        f"the model can't be brought from opset {model.opset} to {OPSET} without changing what "
        "it computes",
        details=reasons,
    )


# -- the reference -----------------------------------------------------------------------


class Reference(StepAction):
    """The source framework's own outputs on every sample."""

    def run(self, step: Step, progress: Progress) -> ReferenceOutputs:
        """Runs the samples through the source, in its own process where it has one."""
        samples: Samples = self.done.result("samples")
        folder = self.work.scratch / "reference"
        return ReferenceOutputs.compute(self.work.reference(), samples, folder, progress)

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """The outputs of an earlier run, intact."""
        key = step.key(needs, self.versions)
        folder = cache.find(key)
        outputs = ReferenceOutputs.load(folder) if folder else None
        if folder and outputs is None:
            cache.drop(key)
        return (key, outputs) if outputs else None

    def keep(self, key: str, result: ReferenceOutputs, cache: Cache) -> None:
        """Keeps them."""
        with cache.adding(key) as folder:
            if folder is not None:
                shutil.copytree(result.folder, folder, dirs_exist_ok=True)


# -- artifacts ---------------------------------------------------------------------------


class Emit(StepAction):
    """The model as the target's file."""

    def run(self, step: Step, progress: Progress) -> Artifact:
        """Writes ``<target>/<precision>/`` in the output."""
        _, target, precision = step.id.split(":")
        emitter: Emitter = plugins.load("emitters", target)
        model: Model = self.done.result(step.model).model
        if isinstance(emitter, plugins.Observing):
            emitter.observe(self.done.result("samples"), model)
        folder = self.work.folder / target / precision
        return emitter.emit(model, folder, precision, self.request)


class Check(StepAction):
    """An artifact, opened from disk, against the source framework's outputs."""

    def run(self, step: Step, progress: Progress) -> CheckedArtifact:
        """Compares every output on every sample, and every step on the way."""
        samples: Samples = self.done.result("samples")
        reference: ReferenceOutputs = self.done.result("reference")
        artifact: Artifact = self.done.result(f"emit:{step.id.split(':', 1)[1]}")
        emitter: Emitter = plugins.load("emitters", artifact.target)
        real = takes_integers(self.request, artifact.precision)
        session = Fed(emitter.open(artifact, self.request, frugal=True), real=real)
        metrics = choose_metrics(self.request, session, samples)
        folder = self.work.scratch / f"check-{artifact.target}-{artifact.precision}"
        try:
            found = ReferenceOutputs.compute(session, samples, folder / "artifact", progress)
            runtime = session.runtime  # after a run, which may have told more
            session.close()
            accuracy = check_accuracy(
                reference,
                found,
                samples,
                metrics=metrics,
                outputs=self._outputs(),
                progress=progress,
            )
        finally:
            for metric in metrics:
                metric.close()
        openers = [*self._models(), (f"{artifact.target} {artifact.precision}", found)]
        steps = compare_steps(reference, samples, openers, folder, self._outputs(), progress)
        return CheckedArtifact(accuracy, steps, runtime, self._others(emitter, artifact, progress))

    def _others(
        self, emitter: Emitter, artifact: Artifact, progress: Progress
    ) -> dict[str, AccuracyResult]:
        """The artifact on the other kernels that it may meet, by what they are."""
        if not isinstance(emitter, plugins.Varied):
            return {}
        found: dict[str, AccuracyResult] = {}
        for name, opener in emitter.others(artifact, self.request).items():
            session = Fed(opener(), real=takes_integers(self.request, artifact.precision))
            try:
                found[name] = check_accuracy(
                    self.done.result("reference"),
                    session,
                    self.done.result("samples"),
                    outputs=self._outputs(),
                    progress=progress,
                )
            finally:
                session.close()
        return found

    def _outputs(self) -> tuple[TensorSpec, ...]:
        model: Model = self.done.result("simplify").model
        return model.outputs

    def _models(self) -> list[tuple[str, Callable[[], plugins.Session] | ReferenceOutputs | None]]:
        """The models before the artifact; None for one that is the same as the one before it."""
        read: Made = self.done.result("parse")
        simplified: Made = self.done.result("simplify")
        changed = simplified.warnings or any(r.status == "changed" for r in simplified.records)
        return [
            ("read", partial(OrtSession, read.model.graph, plain=True)),
            (
                "simplified",
                partial(OrtSession, simplified.model.graph, plain=True) if changed else None,
            ),
        ]


def choose_metrics(request: Request, session: plugins.Session, samples: Samples) -> list[Metric]:
    """The task metrics that were asked for, or that suit the labels."""
    names = request.metric
    if not names and samples.labelled:
        labels = [sample.label for sample, _ in zip(samples, range(4), strict=False)]
        names = default_metrics(session.outputs, labels)
    return [load_metric(name, samples.label_names) for name in names]


class Bench(StepAction):
    """Latency of an artifact and of its source, in turns."""

    def run(self, step: Step, progress: Progress) -> LatencyResult:
        """Measures every batch size and number of callers."""
        artifact: Artifact = self.done.result(f"emit:{step.id.split(':', 1)[1]}")
        opened = plugins.load("emitters", artifact.target).open(artifact, self.request)
        session = Fed(opened, real=takes_integers(self.request, artifact.precision))
        samples: Samples = self.done.result("samples")
        try:
            if session.runtime.get("stands_for"):  # its latency would be another's
                return LatencyResult()
            return measure_session(session, self.work.reference(), samples, self.request, progress)
        finally:
            session.close()


def measure_session(
    session: plugins.Session,
    source: plugins.Session | None,
    samples: Samples,
    request: Request,
    progress: Progress,
) -> LatencyResult:
    """Latency of ``session``, and of ``source`` in turns with it, as the request asks.

    A source in whose place something else runs isn't measured.
    """
    if source is not None and source.runtime.get("stands_for"):
        source = None
    feeds = batch_feeds(samples, session.inputs, request.bench_batches)
    return measure(
        Fed(session),
        feeds,
        request.bench_concurrency,
        request.bench_seconds,
        source=Fed(source) if source is not None else None,
        progress=progress,
    )


class Package(StepAction):
    """An artifact as a server's folder."""

    def run(self, step: Step, progress: Progress) -> Packaged:
        """Writes ``serving/<server>/<name>/``."""
        _, name, target, precision = step.id.split(":")
        server: Server = plugins.load("servers", name)
        artifact: Artifact = self.done.result(f"emit:{target}:{precision}")
        model: Model = self.done.result(step.model).model
        folder = self.work.folder / "serving" / name
        folder.mkdir(parents=True, exist_ok=True)
        named = _named(self.request, self.work.name, precision)
        if "reference" in step.needs and isinstance(server, plugins.Comparing):
            server.compare_with(self.done.result("reference"))
        return server.package(artifact, model, self.done.result("samples"), named, folder)


def _named(request: Request, name: str, precision: str) -> Request:
    """The request with the name that the served model gets: one for each precision."""
    several = len(request.precision) > 1
    return replace(request, name=f"{name}_{precision}" if several else name)


ACTIONS: dict[str, type[StepAction]] = {
    "parse": Parse,
    "samples": ReadSamples,
    "simplify": Simplify,
    "reference": Reference,
    "emit": Emit,
    "check": Check,
    "bench": Bench,
    "package": Package,
}
