"""The steps that make artifacts and look at them: reference, emit, check, bench, package."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.analysis.batch import Array, Ran
from converter.check.accuracy import AccuracyResult, StepError, check_accuracy, compare_steps
from converter.check.answers import Answers
from converter.check.feeding import Fed, takes_integers
from converter.check.gates import Limits
from converter.check.informative import untold
from converter.check.latency import LatencyResult, batch_feeds, measure
from converter.check.matching import Matching
from converter.check.metric import Metric
from converter.check.probes import BUDGET, Builder, Probes
from converter.check.probing import Prober, find_telling
from converter.check.reference import ReferenceOutputs, first_size
from converter.check.shipping import Chosen, Shipped, choose, ship
from converter.check.trying import Answered, Trier, magnitudes, parted, rows_in, run_probes
from converter.check.unsteady import Unsteady, run_shaken
from converter.errors import ModelError, UnsupportedError, from_os_error
from converter.files.digest import digest_of, file_digest
from converter.ir.dependence import constant_outputs, integral_outputs
from converter.ir.exported import require_types
from converter.ir.lists import Rows, lists_of
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.options.resolved import served_name
from converter.pipeline.cache import Cache
from converter.pipeline.declaring import declaration_of
from converter.pipeline.plan import MODELS, Step
from converter.pipeline.steps.base import StepAction
from converter.pipeline.steps.models import Made, emitted_next, refuse_unsupported, taken_by
from converter.pipeline.where import Missed, as_graph, where_it_parts
from converter.preparation.declared import IN_GRAPH
from converter.protocols.emitter import Artifact, Emitter
from converter.protocols.server import Evidence, Packaged, Server
from converter.runtime.ort import OrtSession
from converter.runtime.session import Progress, Session
from converter.samples import Sample, Samples
from converter.verify import Probe, build_probes, effort, verify_rewrites
from converter.verify.probes import BUDGET as FOLLOWED
from converter.verify.probes import contents

if TYPE_CHECKING:
    from converter.diff.stage import Stage
    from converter.diff.where import Outputs


@dataclass(frozen=True)
class CheckedArtifact:
    """An artifact's accuracy, what each step before it lost, and which samples may go along;
    ``others``: on other kernels; ``where``: where it parts from its source, where it missed."""

    accuracy: AccuracyResult
    steps: list[StepError]
    runtime: dict[str, Any]
    chosen: Chosen
    others: dict[str, AccuracyResult] = field(default_factory=dict)
    where: str = ""


_MADE_UP = "Random samples may hold values that the model doesn't take: give it --samples."

ANSWERS = "answers"
"""The folder, beside the reference's outputs, of what the source gives on probes."""


SLOWER = BUDGET // 100
"""Multiply-adds of a probe that other kernels run, which are slower."""


class Referenced(ReferenceOutputs):
    """The source's outputs on every sample; beside them lies what it gives on other inputs.

    Attributes:
        probes: What it was run on beside the samples, where it was in this run; not kept.
    """

    probes: Probes | None = None

    def answers(self, session: Callable[[], Session]) -> Answers:
        """What the source gives on an input, which it isn't run on twice.

        Args:
            session: The source's, opened where nobody knows what it gives.
        """
        known = Answers(lambda feeds: session().run(feeds))
        known.look_in(self.folder / ANSWERS)
        return known


class ReferenceCodec:
    """Outputs and answers."""

    def save(self, folder: Path, result: Referenced, own: Path) -> None:
        """Copies the files."""
        shutil.copytree(result.folder, folder, dirs_exist_ok=True)

    def load(self, folder: Path) -> Referenced | None:
        """They stay where they are."""
        return Referenced.load(folder)


class Reference(StepAction):
    """The source framework's own outputs on every sample."""

    codec = ReferenceCodec()

    def run(self, step: Step, progress: Progress) -> Referenced:
        """Runs the samples, and what artifacts will be asked beside them, through the source, in
        its own process where it has one."""
        samples: Samples = self.done.result("samples")
        model: Model = self.done.result("parse").model
        try:
            folder = self.work.scratch / "reference"
            found = Referenced.compute(self.session(), samples, folder, progress)
        except ModelError as error:
            if samples.random:
                error.hint = error.hint or _MADE_UP
            raise
        require_types(model, found[0])
        found.probes = probes_for(self.request, model, samples, found)
        if self._ask(found, model, samples, progress):
            self.work.opened.rest(lambda again: found.require_same(again, next(iter(samples))))
        return found

    def _ask(self, found: Referenced, model: Model, samples: Samples, progress: Progress) -> bool:
        """Asks the source what artifacts will be asked, and keeps the answers beside its outputs.
        Whether that is most likely all: nobody measures or serves it, and what it gave can be
        judged by itself, or by what it gives on other inputs, which it is asked too."""
        asked, answers = self.request, found.answers(self.session)
        answers.keep_in(found.folder / ANSWERS)
        for probe, _ in (found.probes or Probes()).answered(answers, model.outputs):
            progress(f"running {probe.name}")
        if asked.bench or asked.serve or lists_of(model.graph.graph):
            return False
        blind = _blind(found, model)
        arithmetic = str(found.runtime.get("arithmetic", ""))
        exact = all(Limits.of(asked, name, arithmetic).exact for name in asked.precision)
        if blind and exact:  # else which inputs an artifact is judged by depends on what it gives
            answers.know(next(iter(samples)).feeds, found[0])
            find_telling(answers, samples, blind, asked.seed)
        return exact or not blind

    def known(self, step: Step, needs: list[str]) -> str:
        """Of code, another one for every reading: a model that is exported alike may run another
        way."""
        read: Made = self.done.result("parse")
        return digest_of([super().known(step, needs), read.of.of_code])

    def keep(self, key: str, result: Referenced, cache: Cache) -> None:
        """Those of the last reading of the same code alone."""
        super().keep(key, result, cache)
        read: Made = self.done.result("parse")
        samples: Samples = self.done.result("samples")
        self.work.readings.keep_only(f"reference {samples.digest}", read.of, key)


def _blind(found: ReferenceOutputs, model: Model) -> set[str]:
    """The outputs that tell nothing on the samples, and that hang on the inputs."""
    floats = {name for name, array in found[0].items() if array.dtype.kind in "fV"}
    blind = untold(found).difference(constant_outputs(model.graph.graph))
    return blind & floats if floats else blind  # as AccuracyResult.blind


class Emit(StepAction):
    """The model as the target's file."""

    def run(self, step: Step, progress: Progress) -> Artifact:
        """Writes ``<target>/<precision>/`` in the output."""
        folder = self.work.folder / step.target / step.precision
        model = self.done.result(step.model).model
        try:
            return self.written(step, model, folder, progress)
        except UnsupportedError:
            if len(self.request.to) > 1 and emitted_next(self.request):  # what others can't, too
                refuse_unsupported(model, self.request, self.done, simplified=True, failed=True)
            raise

    def written(self, step: Step, model: Model, folder: Path, progress: Progress) -> Artifact:
        """A model as the file of a step's target and precision, its rewrites verified.

        Args:
            step: Says the target and the precision.
            model: The simplified graph in that precision.
            folder: Where the file goes.
            progress: Called with what happens.
        """
        emitter: Emitter = plugins.load("emitters", step.target)
        model, left_out = taken_by(emitter, model)
        seen = emitter.observe(self.done.result("samples"), model)
        if (rewrites := emitter.legalizing(model, self.request, seen)) is not None:
            progress(f"rewriting it for {step.target}")
            simplified: Made = self.done.result("simplify")
            known = simplified.ran if model is simplified.model else ()
            with MODELS:
                model = verify_rewrites(model, rewrites, partial(self._probes, progress), known)
        artifact = emitter.emit(model, folder, step.precision, self.request, seen)
        if artifact.path.exists():  # not an engine that is built where it runs
            file_digest(artifact.path)  # the report's, which isn't computed twice
        artifact.legalized, artifact.left_out = model.legalized, left_out
        if artifact.legalized is not None and not self.request.keep_steps:
            artifact.legalized = artifact.legalized.noted()
        return artifact

    def _probes(self, progress: Progress, model: Model) -> list[Probe]:
        probes = build_probes(model, self.done.result("samples"), self.request.dims)
        progress(f"comparing what was rewritten: {effort(probes)}")
        return probes


class Check(StepAction):
    """An artifact, opened from disk, against the source framework's outputs."""

    def run(self, step: Step, progress: Progress) -> CheckedArtifact:
        """Compares every output on every sample, and every step on the way."""
        with MODELS:
            return self._checked(step, progress)

    def _checked(self, step: Step, progress: Progress) -> CheckedArtifact:
        samples: Samples = self.done.result("samples")
        artifact: Artifact = self.done.result(step.needs[0])
        reference = self._reference(artifact)
        emitter: Emitter = plugins.load("emitters", artifact.target)
        session = self._fed(emitter.open(artifact, self.request, frugal=True), artifact)
        matching = Matching.of(self._lists(), self._limits(artifact).cosine)
        metrics: list[Metric] = []
        if self.request.metric or samples.labelled:
            from converter.check.task_metrics import choose_metrics

            metrics = choose_metrics(self.request, session, samples)
        folder = self.work.scratch / f"check-{artifact.target}-{artifact.precision}"
        try:
            found = ReferenceOutputs.compute(session, samples, folder / "artifact", progress)
            runtime = session.runtime  # after a run, which may have told more
            probed = self._on_probes(session, artifact, progress)
            accuracy = check_accuracy(
                reference,
                found,
                samples,
                metrics=metrics,
                outputs=self._outputs(),
                constant=self._constant(),
                integral=self._integral(),
                matching=matching,
                unsteady=self._unsteady(artifact, matching),
                rows=rows_in(probed, self._outputs(), self._lists()),
                progress=progress,
            )
            accuracy, beside = self._probed(accuracy, session, artifact, progress)
            accuracy = self._tried(accuracy, artifact, probed)
        finally:
            session.close()
            for metric in metrics:
                metric.close()
        chosen = self._chosen(artifact, found, accuracy.unsteady)
        progress("running the models before it")
        count = self._followed
        ran = [*self._before, (f"{artifact.target} {artifact.precision}", found.first(count))]
        steps = compare_steps(reference.first(count), ran, self._outputs(), matching, progress)
        missed = Missed(
            accuracy, self._limits(artifact), self._outputs(), matching, samples, reference, found,
            [*parted(accuracy.tried, probed, self._outputs()), *beside],
        )  # fmt: skip
        stages = partial(self._stages, step, artifact)
        where = where_it_parts(missed, stages, self.session, progress)
        shutil.rmtree(folder)
        others = self._others(emitter, artifact, progress)
        return CheckedArtifact(accuracy, steps, runtime, chosen, others, where)

    def _stages(self, step: Step, artifact: Artifact) -> list[Stage]:
        """What the steps before it made, and the artifact."""
        from converter.diff.stage import Stage

        read, simplified = (self.done.result(name).model for name in ("parse", "simplify"))
        lowered = self.done.result(step.model).model
        scratch = self.work.scratch / f"where-{artifact.target}-{artifact.precision}"
        stages = [Stage("read", read), Stage("simplify", simplified)]
        if lowered is not simplified:
            stages.append(Stage(f"quantize to {artifact.precision}", lowered))
        if artifact.details.get("takes"):  # files, where the others take pixels
            return stages
        return [*stages, Stage(f"write {artifact.target}", as_graph(artifact.path, scratch))]

    def _on_probes(
        self, session: Fed, artifact: Artifact, progress: Progress, most: float = math.inf
    ) -> list[Answered]:
        """What the artifact gives on the probes that the source takes, each of at most so many
        multiply-adds; edges in float32 alone."""
        exact = self._limits(artifact).exact
        asked = (
            (probe, {n: array for n, array in given.items() if n not in artifact.left_out})
            for probe, given in self._probes.answered(self._answers, self._outputs())
            if (exact or probe.kind not in ("edge", "wide")) and probe.macs <= most
        )
        return list(run_probes(asked, session, progress))

    def _tried(
        self, accuracy: AccuracyResult, artifact: Artifact, ran: Sequence[Answered]
    ) -> AccuracyResult:
        """With what probes told."""
        limits, lists = self._limits(artifact), self._lists()
        reference: ReferenceOutputs = self.done.result("reference")
        shaken = partial(run_shaken, self.session)
        trier = Trier(limits, shaken, self._outputs(), lists, magnitudes(reference))
        return trier.judge(accuracy, ran, self._probes.left_out)

    @cached_property
    def _probes(self) -> Probes:
        reference: Referenced = self.done.result("reference")
        if reference.probes is not None:
            return reference.probes
        model: Model = self.done.result("parse").model
        return probes_for(self.request, model, self.done.result("samples"), reference)

    @cached_property
    def _answers(self) -> Answers:
        reference: Referenced = self.done.result("reference")
        return reference.answers(self.session)

    def _chosen(
        self, artifact: Artifact, found: ReferenceOutputs, unsteady: Sequence[str]
    ) -> Chosen:
        """The samples that may go along, as long as what they gave is there."""
        samples, reference = self.done.result("samples"), self._reference(artifact)
        limits, outputs, lists = self._limits(artifact), self._outputs(), self._lists()
        return choose(samples, limits, outputs, lists, (reference, found), unsteady)

    def _others(
        self, emitter: Emitter, artifact: Artifact, progress: Progress
    ) -> dict[str, AccuracyResult]:
        """The artifact on the other kernels that it may meet, by what they are."""
        found: dict[str, AccuracyResult] = {}
        for name, opener in emitter.others(artifact, self.request).items():
            session = self._fed(opener(), artifact)
            matching = Matching.of(self._lists(), self._limits(artifact).cosine)
            try:
                probed = self._on_probes(session, artifact, progress, SLOWER)
                accuracy = check_accuracy(
                    self._reference(artifact),
                    session,
                    self.done.result("samples"),
                    outputs=self._outputs(),
                    constant=self._constant(),
                    matching=matching,
                    integral=self._integral(),
                    unsteady=self._unsteady(artifact, matching),
                    rows=rows_in(probed, self._outputs(), self._lists()),
                    progress=progress,
                )
                accuracy, _ = self._probed(accuracy, session, artifact, progress)
                found[name] = self._tried(accuracy, artifact, probed)
            finally:
                session.close()
        return found

    def _fed(self, session: Session, artifact: Artifact) -> Fed:
        read = self.done.result("parse").model
        if IN_GRAPH in read.source:
            from converter.pipeline.staged import followed, know_files

            know_files(session, self.done.result("samples"))
            session = followed(session, read)
        return Fed(session, real=takes_integers(self.request, artifact.precision))

    def _probed(
        self,
        accuracy: AccuracyResult,
        session: Fed,
        artifact: Artifact,
        progress: Progress,
    ) -> tuple[AccuracyResult, list[tuple[Sample, Outputs, Outputs]]]:
        """With other inputs tried, where the samples' outputs say nothing; and those by which the
        artifact is missed, as :attr:`Prober.parting` has them."""
        if not accuracy.blind:
            return accuracy, []
        prober = Prober(
            self._answers,
            session,
            self.done.result("samples"),
            self._limits(artifact),
            self._outputs(),
            self._lists(),
        )
        return prober.probe(accuracy, self.request.seed, progress), prober.parting

    def _unsteady(self, artifact: Artifact, matching: Matching) -> Unsteady:
        return Unsteady(self.session, self._limits(artifact), self._outputs(), matching)

    def _reference(self, artifact: Artifact) -> ReferenceOutputs:
        """What the source gave, of what the artifact is to give."""
        reference: ReferenceOutputs = self.done.result("reference")
        return reference.without(artifact.left_out)

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

    def _integral(self) -> list[str]:
        """Outputs that no float leads to, as the model was read."""
        read: Made = self.done.result("parse")
        return integral_outputs(read.model.graph.graph)

    def _outputs(self) -> tuple[TensorSpec, ...]:
        model: Model = self.done.result("simplify").model
        return model.outputs

    @cached_property
    def _followed(self) -> int:
        """On how many samples steps are compared: the first ones, as many as the budget of a
        model's probes has room for."""
        samples: Samples = self.done.result("samples")
        return max(1, min(len(samples), FOLLOWED // (self._probes.macs or 1)))

    @cached_property
    def _before(self) -> list[tuple[str, ReferenceOutputs | None]]:
        """What the models before the artifacts give, run once for all of these; None for one that
        is the same as the one before it."""
        read: Made = self.done.result("parse")
        simplified: Made = self.done.result("simplify")
        changed = simplified.warnings or any(r.status == "changed" for r in simplified.records)
        return [
            ("read", self._plain("read", read.model, simplified.ran_before)),
            (
                "simplified",
                self._plain("simplified", simplified.model, simplified.ran) if changed else None,
            ),
        ]

    def _plain(self, name: str, model: Model, known: Sequence[Ran]) -> ReferenceOutputs:
        """What a model gives in ONNX Runtime without its optimization."""
        session = Remembering(model, known)
        try:
            samples: Samples = self.done.result("samples")
            few = islice(samples, self._followed)
            return ReferenceOutputs.compute(session, few, self.work.scratch / f"check-{name}")
        finally:
            session.close()


class Remembering(OrtSession):
    """A model in ONNX Runtime without its optimization, which isn't run again on what is known."""

    def __init__(self, model: Model, known: Sequence[Ran]) -> None:
        super().__init__(model.graph, plain=True)
        self._known = {contents(feeds): outputs for feeds, outputs in known}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        found = self._known.get(contents(feeds))
        return super().run(feeds) if found is None else found


def probes_for(
    request: Request, model: Model, samples: Samples, reference: ReferenceOutputs
) -> Probes:
    """What the source and artifacts run on beside the samples.

    Args:
        request: Its precisions: with those that have float32's limits, edges are probes too.
        model: The graph as it was read.
        samples: Probes are mixes of them.
        reference: The source's outputs on the samples, which say how large a run is.
    """
    arithmetic = str(reference.runtime.get("arithmetic", ""))
    exact = any(Limits.of(request, name, arithmetic).exact for name in request.precision)
    size = first_size(reference, samples)
    builder = Builder.of(model, samples, exact=exact, seed=request.seed, size=size)
    return builder.build() if request.probes else Probes(macs=builder.macs)


class Bench(StepAction):
    """Latency of an artifact and of its source, in turns."""

    def run(self, step: Step, progress: Progress) -> LatencyResult:
        """Measures every batch size and number of callers."""
        from converter.pipeline.steps.costs import with_costs

        artifact: Artifact = self.done.result(step.needs[0])
        opened = plugins.load("emitters", artifact.target).open(artifact, self.request)
        session = Fed(opened, real=takes_integers(self.request, artifact.precision))
        samples: Samples = self.done.result("samples")
        if artifact.details.get("takes"):
            from converter.pipeline.staged import know_files

            know_files(opened, samples)
        found = LatencyResult()
        try:
            another = session.runtime.get("stands_for")  # whose latency it would be
            if self.request.bench and not another:
                found = measure_session(session, self.session(), samples, self.request, progress)
            feeds = session.cast(batch_feeds(samples, session.inputs, [1])[1])
        finally:
            session.close()
        return with_costs(found, artifact, self.request, feeds, progress)


def measure_session(
    session: Session,
    source: Session | None,
    samples: Samples,
    request: Request,
    progress: Progress,
) -> LatencyResult:
    """Latency of a session, in turns with that of the source.

    Args:
        session: What is measured.
        source: The source; None for the session alone. One in whose place something else runs isn't
            measured.
        samples: Batches are made of them.
        request: Batch sizes, numbers of callers, seconds of each measurement.
        progress: Called with what is measured.
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


class Shipping(StepAction):
    """Samples that go along with an artifact."""

    def shipped(self, step: Step) -> Shipped:
        """Those of the step's artifact, chosen by its check."""
        samples: Samples = self.done.result("samples")
        simplified: Model = self.done.result("simplify").model
        artifact: Artifact = self.done.result(step.needs[0])
        arithmetic, reference, chosen = "", None, None
        if "reference" in step.needs:
            reference = self.done.result("reference").without(artifact.left_out)
            arithmetic = str(reference.runtime.get("arithmetic", ""))
            checked: CheckedArtifact = self.done.result(_check_of(step))
            chosen = checked.chosen
        limits = Limits.of(self.request, artifact.precision, arithmetic)
        lists = lists_of(simplified.graph.graph)
        outputs = [spec for spec in simplified.outputs if spec.name not in artifact.left_out]
        shipped = ship(samples, limits, outputs, lists, reference, chosen)
        assets = self.work.identity.assets
        texts = simplified.source.get("texts", {})
        known = declaration_of(self.request, samples, simplified, assets)
        texts = texts if texts.get("file") in assets else {}
        return replace(shipped, texts=texts, declared=known)


def _check_of(step: Step) -> str:
    return Step("check", "", target=step.target, precision=step.precision).id


class Pack(Shipping):
    """An artifact as a package by itself, which a device runs."""

    def run(self, step: Step, progress: Progress) -> list[str]:
        """Writes beside the artifact what goes along with it; gives what was decided."""
        emitter: Emitter = plugins.load("emitters", step.target)
        artifact: Artifact = self.done.result(step.needs[0])
        model, _ = taken_by(emitter, self.done.result(step.model).model)
        named = replace(self.request, name=self.work.name)
        try:
            return list(emitter.pack(artifact, model, self.shipped(step), named))
        except OSError as error:
            raise from_os_error(error, "writing what goes along with an artifact") from error


class Package(Shipping):
    """An artifact as a server's folder."""

    def run(self, step: Step, progress: Progress) -> Packaged:
        """Writes ``serving/<server>/<name>/``; of one name, in a folder for each precision."""
        server: Server = plugins.load("servers", step.server)
        artifact: Artifact = self.done.result(step.needs[0])
        emitter: Emitter = plugins.load("emitters", artifact.target)
        model, _ = taken_by(emitter, self.done.result(step.model).model)
        folder = self.work.output / "serving" / step.server
        if self.request.one_name:
            folder /= step.precision
        folder.mkdir(parents=True, exist_ok=True)
        name = served_name(self.request, self.work.name, step.precision)
        named = replace(self.request, name=name)
        evidence = Evidence(self.shipped(step), assets=self.work.identity.assets)
        if "reference" in step.needs:
            reference = self.done.result("reference").without(artifact.left_out)
            evidence = replace(evidence, reference=reference, source=self.session)
        samples: Samples = self.done.result("samples")
        packaged = server.package(artifact, model, samples, named, folder, evidence)
        for place in packaged.assets or [packaged.path]:
            self.work.copy_assets(place)
        return packaged
