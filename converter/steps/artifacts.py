"""The steps that make artifacts and look at them: reference, emit, check, bench, package."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from converter import plugins
from converter.cache import Cache
from converter.check.accuracy import AccuracyResult, StepError, check_accuracy, compare_steps
from converter.check.feeding import Fed, takes_integers
from converter.check.gates import Limits
from converter.check.latency import LatencyResult, batch_feeds, measure
from converter.check.matching import Matching
from converter.check.probing import Prober
from converter.check.reference import ReferenceOutputs
from converter.check.task_metrics import Metric, default_metrics, load_metric
from converter.check.unsteady import Unsteady
from converter.digest import digest_of
from converter.graph.dependence import constant_outputs
from converter.graph.lists import Rows, lists_of
from converter.ir import Model, TensorSpec
from converter.ort import OrtSession
from converter.plan import Step
from converter.plugins import Artifact, Emitter, Packaged, Progress, Server
from converter.request import Request
from converter.samples import Samples
from converter.steps.base import StepAction
from converter.steps.models import Made


@dataclass(frozen=True)
class CheckedArtifact:
    """An artifact's accuracy, and what each step before it lost; ``others``: on other kernels."""

    accuracy: AccuracyResult
    steps: list[StepError]
    runtime: dict[str, Any]
    others: dict[str, AccuracyResult] = field(default_factory=dict)


class Reference(StepAction):
    """The source framework's own outputs on every sample."""

    def run(self, step: Step, progress: Progress) -> ReferenceOutputs:
        """Runs the samples through the source, in its own process where it has one."""
        samples: Samples = self.done.result("samples")
        folder = self.work.scratch / "reference"
        return ReferenceOutputs.compute(self.work.reference(), samples, folder, progress)

    def key(self, step: Step, needs: list[str], result: ReferenceOutputs) -> str:
        """Of code, another one for every reading: a model that is exported alike may run another
        way."""
        return self._key(step, needs)

    def _key(self, step: Step, needs: list[str]) -> str:
        reading = self.work.reading
        assert reading is not None
        return digest_of([step.key(needs, self.versions), reading.of_code])

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """The outputs of an earlier run, intact."""
        key = self._key(step, needs)
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
        assert self.work.reading is not None
        samples: Samples = self.done.result("samples")
        self.work.keep_only(f"reference {samples.digest}", self.work.reading, key)


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
        opener = partial(emitter.open, artifact, self.request, frugal=True)
        session = self._fed(opener, artifact)
        matching = Matching.of(self._lists(), self._limits(artifact).cosine)
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
                constant=self._constant(),
                matching=matching,
                unsteady=self._unsteady(artifact, matching),
                progress=progress,
            )
            accuracy = self._probed(accuracy, opener, artifact, progress)
        finally:
            for metric in metrics:
                metric.close()
        openers = [*self._models(), (f"{artifact.target} {artifact.precision}", found)]
        known = self._outputs()
        steps = compare_steps(reference, samples, openers, folder, known, matching, progress)
        return CheckedArtifact(accuracy, steps, runtime, self._others(emitter, artifact, progress))

    def _others(
        self, emitter: Emitter, artifact: Artifact, progress: Progress
    ) -> dict[str, AccuracyResult]:
        """The artifact on the other kernels that it may meet, by what they are."""
        if not isinstance(emitter, plugins.Varied):
            return {}
        found: dict[str, AccuracyResult] = {}
        for name, opener in emitter.others(artifact, self.request).items():
            session = self._fed(opener, artifact)
            matching = Matching.of(self._lists(), self._limits(artifact).cosine)
            try:
                accuracy = check_accuracy(
                    self.done.result("reference"),
                    session,
                    self.done.result("samples"),
                    outputs=self._outputs(),
                    constant=self._constant(),
                    matching=matching,
                    unsteady=self._unsteady(artifact, matching),
                    progress=progress,
                )
            finally:
                session.close()
            found[name] = self._probed(accuracy, opener, artifact, progress)
        return found

    def _fed(self, opener: Callable[[], plugins.Session], artifact: Artifact) -> Fed:
        return Fed(opener(), real=takes_integers(self.request, artifact.precision))

    def _probed(
        self,
        accuracy: AccuracyResult,
        opener: Callable[[], plugins.Session],
        artifact: Artifact,
        progress: Progress,
    ) -> AccuracyResult:
        """With other inputs tried, where the samples' outputs say nothing."""
        if not accuracy.blind:
            return accuracy
        session = self._fed(opener, artifact)
        try:
            prober = Prober(
                self.work.reference(),
                session,
                self.done.result("samples"),
                self._limits(artifact),
                self._outputs(),
                self._lists(),
            )
            return prober.probe(accuracy, self.request.seed, progress)
        finally:
            session.close()

    def _unsteady(self, artifact: Artifact, matching: Matching) -> Unsteady:
        return Unsteady(self.work.reference, self._limits(artifact), self._outputs(), matching)

    def _limits(self, artifact: Artifact) -> Limits:
        reference: ReferenceOutputs = self.done.result("reference")
        arithmetic = str(reference.runtime.get("arithmetic", ""))
        return Limits.of(self.request, artifact.precision, arithmetic)

    def _lists(self) -> list[Rows]:
        """The outputs that are lists of found things."""
        simplified: Made = self.done.result("simplify")
        return lists_of(simplified.model.graph.graph)

    def _constant(self) -> list[str]:
        """Outputs that depend on no input, as the model was read."""
        read: Made = self.done.result("parse")
        return constant_outputs(read.model.graph.graph)

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
        packaged = server.package(artifact, model, self.done.result("samples"), named, folder)
        self.work.copy_assets(packaged.path)
        return packaged


def _named(request: Request, name: str, precision: str) -> Request:
    """The request with the name that the served model gets: one for each precision."""
    several = len(request.precision) > 1
    return replace(request, name=f"{name}_{precision}" if several else name)
