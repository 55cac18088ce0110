"""The steps that make the model: parse, samples, simplify."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from converter import plugins
from converter.analysis.batch import Ran, check_batch
from converter.errors import ModelError, UnsupportedError, UsageError
from converter.files.digest import digest_of
from converter.ir.batch import fix_batch
from converter.ir.constant_size import require_modest_constants
from converter.ir.exported import exporters_mistake
from converter.ir.external import allow_links
from converter.ir.fingerprint import model_digest
from converter.ir.model import BATCH, OPSET, Model, PassRecord
from converter.ir.possible import require_possible
from converter.ir.randomness import fold_random, require_no_random
from converter.ir.texts import without_texts
from converter.ir.value_ranges import output_ranges
from converter.options.request import Request
from converter.passes.base import ModelPass
from converter.passes.fuse.patterns import FusePass
from converter.passes.libraries.tools import depends_on_machine, stop_tools
from converter.passes.opset.repair_shapes import RepairShapes
from converter.pipeline.cache import Cache
from converter.pipeline.declaring import declaration_of
from converter.pipeline.live_models import is_live
from converter.pipeline.plan import Step
from converter.pipeline.readings import Reading
from converter.pipeline.refusals import refuse
from converter.pipeline.steps.base import Results, StepAction
from converter.pipeline.work import sizes_of
from converter.preparation.written import require_declared
from converter.protocols.emitter import Emitter
from converter.protocols.server import Server
from converter.runtime.ort import RefusedModel
from converter.runtime.session import Progress
from converter.runtime.supervised import settle
from converter.samples import Samples, load_samples
from converter.samples.labels import classes_in
from converter.verify import Verifier, build_probes, run_passes

KEPT_BELOW = 1_000_000_000
"""Bytes of weights from which a model isn't copied into the cache."""


RAN_BELOW = 64_000_000
"""Bytes of inputs and outputs below which runs of the simplified model are held."""


@dataclass
class Made:
    """A model between two steps, with what the report has to say of it.

    Attributes:
        model: The model.
        warnings: Loud lines for the report.
        records: What the passes of this step did.
        misses: What its fusing passes left alone: pass, rule, node, reason.
        ran: What the model gave when it was compared; not kept.
        ran_before: What the model that it was made of gave then.
        reading: Which reading of the source it is, where it is as it was read.
    """

    model: Model
    warnings: list[str] = field(default_factory=list)
    records: list[PassRecord] = field(default_factory=list)
    misses: list[dict[str, str]] = field(default_factory=list)
    ran: Sequence[Ran] = ()
    ran_before: Sequence[Ran] = ()
    reading: Reading | None = None

    @property
    def of(self) -> Reading:
        """The reading that it is."""
        assert self.reading is not None
        return self.reading


class MadeCodec:
    """A model, and what was said of it."""

    def save(self, folder: Path, result: Made, own: Path) -> None:
        """Writes both."""
        result.model.copy().save(folder / "model.onnx", own=own)
        said = {
            "warnings": result.warnings,
            "records": [asdict(record) for record in result.records],
            "history": [asdict(record) for record in result.model.history],
            "misses": result.misses,
        }
        (folder / "said.json").write_text(json.dumps(said))

    def load(self, folder: Path) -> Made:
        """Maps the weights from the folder."""
        said = json.loads((folder / "said.json").read_text())
        model = Model.load(folder / "model.onnx", linked=True)
        model.history = [PassRecord(**item) for item in said["history"]]
        records = [PassRecord(**item) for item in said["records"]]
        return Made(model, said["warnings"], records, said["misses"])


class ModelAction(StepAction):
    """A step that gives a model."""

    codec = MadeCodec()

    def is_kept(self, result: Made) -> bool:
        """Unless it is very large."""
        return result.model.weight_bytes() <= KEPT_BELOW


class Parse(ModelAction):
    """The source becomes a Model; what it depends on is only known once it has been read."""

    @property
    def request(self) -> Request:
        """What was asked for: nobody knows of sizes yet."""
        return self.work.request

    def run(self, step: Step, progress: Progress) -> Made:
        """Reads the source in its framework and gives every part of it a name."""
        opened = self.work.opened
        opened.progress = progress
        progress(f"reading {self.work.name}")
        source, read = opened.source(), threading.Event()
        if self.work.parser.framework is not None and not is_live(self.request.source):
            threading.Thread(target=self._ready, args=(step, read), daemon=True).start()
        model = source.parse()
        read.set()
        allow_links(model.graph, self.work.scratch)
        with opened.while_reading():
            model.graph = plugins.load("passes", "normalize")(model.graph).model
            require_modest_constants(model.graph)
            fold_random(model.graph)
            require_no_random(model.graph)
            require_possible(model)
        model.source = {**self.work.source_facts(), **model.source}
        self._refuse_early(model)
        warnings = list(source.warnings)
        reading = self.work.readings.remember(step, model, warnings, source.dependencies())
        self.work.start_tools(step)
        return Made(model, warnings, reading=reading)

    def _ready(self, step: Step, read: threading.Event) -> None:
        """Has the targets import what they need, and then the simplifiers, here and in their own
        process, while the framework traces in its own, on one core."""
        with suppress(Exception):  # whatever is wrong, the step that needs it says it too
            for target in self.request.to:
                plugins.load("emitters", target).ready()
            self.work.start_tools(step)
            if self.request.simplify:
                importlib.import_module("onnxscript.optimizer")
            if not read.is_set():  # no graph is here yet
                settle()

    def _refuse_early(self, model: Model) -> None:
        refuse_unsupported(model, self.request, self.done, simplified=False)
        for name in self.request.serve:
            server: Server = plugins.load("servers", name)
            server.check(model, self.request)
        if self.request.deploy:
            from converter.pipeline.deployments import check_early

            check_early(self.request, self.work.name)

    def known(self, step: Step, needs: list[str]) -> str:
        """What is known of the source before it is read."""
        return self.work.readings.slot(step)

    def key(self, step: Step, needs: list[str], result: Made) -> str:
        """The key of the reading; see :meth:`converter.pipeline.readings.Readings.remember`."""
        return result.of.key

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """The model of an earlier run, where every file it depended on is still the same; of
        code, which may depend on others, only where the user asks for it."""
        readings = self.work.readings
        reading = readings.find(step) if readings.reusable else None
        found = cache.load(reading.key, self.codec.load) if reading else None
        if reading is None or found is None:
            return None
        self.found(found)
        return reading.key, replace(found, reading=reading)

    def found(self, result: Made) -> None:
        """Refuses early, as where it is read."""
        self._refuse_early(result.model)

    def is_kept(self, result: Made) -> bool:
        """What a framework exported; a file that is read as it is isn't worth it."""
        return self.work.parser.extra is not None and super().is_kept(result)


def refuse_unsupported(
    model: Model, request: Request, done: Results, *, simplified: bool, failed: bool = False
) -> None:
    """Raises the error of all that the targets asked for can't take of the model; with
    ``--keep-going``, leaves such targets out, unless it is all of them.

    Args:
        model: As it was read, or simplified.
        request: What was asked for.
        done: Where targets are left out.
        simplified: Whether it is.
        failed: Whether an emission did. Before, targets that :attr:`Emitter.lowers` aren't asked
            where what can't be shows next (:func:`emitted_next`).
    """
    asked = {target: done.plan.asked_of(request, target) for target in request.to}
    possible = {target: wanted for target, wanted in asked.items() if wanted.precision}
    later = simplified and not failed and emitted_next(request)
    found = {
        target: error
        for target, wanted in possible.items()
        if not (later and plugins.load("emitters", target).lowers)
        and (error := _refusal(target, model, wanted, simplified)) is not None
    }
    if len(found) == len(possible) or not request.keep_going:
        refuse(found, others=len(found) < len(possible))
    for target, error in found.items():
        done.leave_out(target, error)


def emitted_next(request: Request) -> bool:
    """Whether artifacts are made of the simplified model, and one that can't be ends the run."""
    return request.precision == ["fp32"] and not request.keep_going


def _refusal(
    target: str, model: Model, request: Request, simplified: bool
) -> ModelError | UsageError | None:
    """Why a target can't take the model; None where it can."""
    emitter: Emitter = plugins.load("emitters", target)
    model, _ = taken_by(emitter, model)
    try:
        items = emitter.unsupported(model, request, simplified=simplified)
    except (ModelError, UsageError) as error:
        return error
    if not items:
        return None
    return UnsupportedError(f"{target} can't take {len(items)} nodes of this model", items)


def taken_by(emitter: Emitter, model: Model) -> tuple[Model, Mapping[str, str]]:
    """What a target is given of a model, and what to say of each output that it isn't."""
    return (model, {}) if emitter.texts else without_texts(model, emitter.name)


class ReadSamples(StepAction):
    """The samples, checked against the model's interface."""

    def run(self, step: Step, progress: Progress) -> Samples:
        """Reads every sample once: what doesn't fit is said before anything takes long."""
        model: Model = self.done.result("parse").model
        sizes = sizes_of(self.request, model.symbols)
        samples = load_samples(
            self.request,
            model.inputs,
            sizes,
            classes=classes_in(model.outputs),
            tokenize=self.work.opened.tokenize,
        )
        samples.validate()
        declared = declaration_of(self.request, samples, model, self.work.identity.assets)
        if self.request.prepare == "server" and self.request.serve:
            require_declared(declared)
        for name in self.request.serve:
            server: Server = plugins.load("servers", name)
            if declared and (items := server.unprepared(declared)):
                raise UnsupportedError(
                    f"{name} can't do what the model's declaration asks for", items
                )
        if self.work.joins is not None:
            from converter.preparation.joins import Ends

            said = declared.model_dump() if declared else {"prepare": (), "answer": ()}
            self.work.joins.declare(self.work.part, Ends.of(said["prepare"], said["answer"]))
        if self.request.max_drop is not None:
            from converter.check.metric_drop import require_metric

            limits = self.request.max_drop
            require_metric(self.request.metric, limits, model.outputs, samples)
        return samples

    def key(self, step: Step, needs: list[str], result: Samples) -> str:
        """The digest of their contents, and the versions of what prepared them."""
        tools = [self.versions.get(name) for name in ("numpy", "pillow")]
        return digest_of([result.digest, result.label_names, tools])


class Simplify(ModelAction):
    """The model at the pipeline's opset, simplified; what the passes did verified."""

    def run(self, step: Step, progress: Progress) -> Made:
        """Runs the passes on a copy; a pass that changes results is rolled back."""
        samples: Samples = self.done.result("samples")
        before = self.done.result("parse").model.copy()
        try:
            warnings, known = self._settle_batch(before, samples)
            probes = build_probes(before, samples, self.request.dims)
            verifier = Verifier(before, probes, known=known)
            passes = [self._load(name, known) for name in step.params["passes"]]
            model = run_passes(before, passes, verifier, progress, singly=self.request.keep_steps)
        except RefusedModel as error:
            raise exporters_mistake(before, error) from error
        stop_tools()
        _require_opset(model)
        refuse_unsupported(model, self.request, self.done, simplified=True)
        _describe(model, samples, "--label-names" if self.request.label_names else samples.origin)
        records = model.history[len(before.history) :]
        ran = _modest(verifier.ran), _modest(verifier.ran_before)
        return Made(model, warnings, records, _misses(passes), *ran)

    def _load(self, name: str, ran: Sequence[Ran]) -> ModelPass:
        made: ModelPass = plugins.load("passes", name)
        return RepairShapes(self.request.dims, ran) if isinstance(made, RepairShapes) else made

    def _settle_batch(self, model: Model, samples: Samples) -> tuple[list[str], Sequence[Ran]]:
        """Runs a symbolic batch at 1 and 2; one that doesn't hold is fixed to 1, or refused. Gives
        warnings, and the model's runs where it stays as it is."""
        if not any(BATCH in (spec.shape or ()) for spec in model.inputs):
            return [], ()
        finding = check_batch(model, next(iter(samples)).feeds)
        if finding.works_at_2:
            return [], finding.runs
        if self.request.batch == "dynamic":
            raise ModelError(
                f"the model declares a free batch, but fails with a batch of 2: {finding.reason}",
                code="batch-fixed",
                hint="Leave --batch dynamic out to fix the batch to 1.",
            )
        fix_batch(model, 1)
        why = f"the model declares it free, but at 2 {finding.reason}"
        return [f"THE BATCH IS FIXED TO 1: {why}"], ()

    def key(self, step: Step, needs: list[str], result: Made) -> str:
        """The step's own, unless a library had no time or was killed: that is no other run's."""
        key = self.known(step, needs)
        gave_out = any(depends_on_machine(record.detail) for record in result.records)
        return digest_of([key, model_digest(result.model)]) if gave_out else key

    def found(self, result: Made) -> None:
        """The simplifiers aren't needed, and targets see the model."""
        stop_tools()
        refuse_unsupported(result.model, self.request, self.done, simplified=True)


def _modest(ran: Sequence[Ran]) -> Sequence[Ran]:
    """The runs, unless they take much memory for as long as the conversion goes on."""
    arrays = (array for run in ran for part in run for array in part.values())
    return ran if sum(array.nbytes for array in arrays) < RAN_BELOW else ()


def _misses(passes: Sequence[ModelPass]) -> list[dict[str, str]]:
    """The near matches that the passes' last runs left alone."""
    return [
        {"name": item.name, "rule": miss.rule, "node": miss.node, "reason": miss.reason}
        for item in passes
        if isinstance(item, FusePass)
        for miss in item.misses
    ]


def _describe(model: Model, samples: Samples, who: str) -> None:
    """Keeps in the model what its samples and its graph tell of inputs and outputs; ``who`` names
    the classes."""
    for name, meaning in samples.meanings.items():
        model.describe(name, **meaning)
    for name, known in output_ranges(model.graph).items():
        model.describe(name, value_range=known)
    if samples.label_names:
        _describe_labels(model, samples.label_names, who)


def _describe_labels(model: Model, names: Sequence[str], who: str) -> None:
    """Gives the first output of as many values its classes' names.

    Raises:
        UsageError: No output has so many: its names would be another class's.
    """
    floats = [spec for spec in model.outputs if spec.is_float and spec.shape]
    for spec in floats:
        if spec.shape and spec.shape[-1] == len(names):
            model.describe(spec.name, meaning="scores", labels=list(names))
            return
    if floats and all(spec.shape and isinstance(spec.shape[-1], int) for spec in floats):
        raise UsageError(
            f"{who} has {len(names)} class names, and no output has that many values",
            code="labels",
            details=[f"{spec.name}: {spec.describe()}" for spec in floats],
            hint="--label-names takes a line for each class, in the order of the model's outputs.",
        )


def _require_opset(model: Model) -> None:
    if model.opset == OPSET:
        return
    reasons = [r.detail for r in model.history if r.status in ("failed", "rolled-back")]
    raise ModelError(
        f"the model can't be converted from opset {model.opset} to {OPSET} without a change "
        "of what it computes",
        code="opset",
        details=reasons,
    )
