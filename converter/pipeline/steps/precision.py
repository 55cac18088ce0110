"""The steps of lower precisions: clamping masks, measuring ranges, and bringing the model to fp16,
bf16 or int8."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from converter import plugins
from converter.check.feeding import Fed, takes_integers
from converter.errors import UsageError
from converter.files.digest import digest_of
from converter.ir.fingerprint import model_digest
from converter.ir.model import Model
from converter.machine import describe_machine
from converter.options.request import Request
from converter.passes.base import ModelPass
from converter.pipeline.plan import Step, require_calibration_samples
from converter.pipeline.steps import Emit, Made, Results, Simplify, StepAction
from converter.pipeline.work import sizes_of
from converter.precision.budget.cost_table import CostTable, based_on
from converter.precision.budget.sensitivity import SAMPLES, Judge, cosine_of, spread
from converter.precision.calibrate.ranges import Ranges, collect
from converter.precision.quantized import Kept, Quantized
from converter.precision.task import Task
from converter.protocols.emitter import Emitter
from converter.runtime.session import Progress, Session
from converter.samples import Samples, Tokenize, load_samples
from converter.verify import Verifier, build_probes, run_passes


def calibration_samples(
    request: Request, done: Results, tokenize: Tokenize | None = None
) -> Samples:
    """The samples to measure on: the user's own, never made up unasked.

    Args:
        request: What was asked for.
        done: The steps before.
        tokenize: The source's tokenizer.

    Raises:
        UsageError: int8 is asked for, and there are none.
    """
    if request.calibration_samples:
        asked = replace(
            request,
            samples=request.calibration_samples,
            samples_limit=request.calibration_limit,
            samples_pattern=None,
            labels=None,
        )
        model: Model = done.result("simplify").model
        sizes = sizes_of(request, model.symbols)
        return load_samples(asked, model.inputs, sizes, tokenize=tokenize)
    require_calibration_samples(request)
    samples: Samples = done.result("samples")
    return samples


class Masks(Simplify):
    """The model with the numbers that masks hide behind brought to a size that float16 holds, and
    that integers can have beside others: one that reaches -3.4e38 has nothing else left in int8."""

    def run(self, step: Step, progress: Progress) -> Made:
        """Runs the pass on a copy; rolled back where it changes results."""
        before: Model = self.done.result("simplify").model
        samples: Samples = self.done.result("samples")
        verifier = Verifier(before, build_probes(before, samples, self.request.dims))
        clamp: ModelPass = plugins.load("passes", "clamp-masks")
        model = run_passes(before, [clamp], verifier, progress)
        return Made(model, records=model.history[len(before.history) :])

    def is_kept(self, result: Made) -> bool:
        """A model that has masks; another is the simplified one."""
        changed = any(record.status == "changed" for record in result.records)
        return changed and super().is_kept(result)


class RangesCodec:
    """What was tallied of every tensor."""

    def save(self, folder: Path, result: Ranges, own: Path) -> None:
        result.save(folder)

    def load(self, folder: Path) -> Ranges | None:
        return Ranges.load(folder)


class Calibrate(StepAction):
    """The values that every tensor takes on the samples."""

    codec = RangesCodec()

    def run(self, step: Step, progress: Progress) -> Ranges:
        """Runs every sample once."""
        made: Made = self.done.result(step.needs[0])
        few = self.request.few_samples
        return collect(made.model, self._samples(), few=few, progress=progress, strict=False)

    def _samples(self) -> Samples:
        samples = calibration_samples(self.request, self.done, self.work.opened.tokenize)
        if samples.states:
            raise UsageError(
                f"integers need the range of {', '.join(samples.states)}, and samples of "
                "sounds only have the states of the start",
                code="samples-missing",
                hint="Give samples with later states: --calibration-samples FILE.py:FUNCTION.",
            )
        return samples

    def known(self, step: Step, needs: list[str]) -> str:
        """With the contents of the samples."""
        return digest_of([super().known(step, needs), self._samples().digest])


def task_of(step: Step, request: Request, done: Results, tokenize: Tokenize | None = None) -> Task:
    """The model that a step brings to a precision, and what is known of it.

    Args:
        step: Says the precision, its scheme and calibration.
        request: The options; the step's calibration counts more.
        done: Results: the model, the samples, and the ranges where the step needs them.
        tokenize: The source's tokenizer, for calibration samples that are texts; None without one.
    """
    made: Made = done.result(step.needs[0])
    said = [f"{r.name}: {r.detail or r.status}" for r in made.records if r.status != "unchanged"]
    decisions = said if step.needs[0] == "masks" else []
    task = Task(
        made.model,
        replace(request, calibration=step.params["calibration"]),
        done.result("samples"),
        step.precision,
        step.scheme,
        decisions=decisions,
    )
    if "calibrate" in step.needs:
        task.ranges = done.result("calibrate")
        task.calibration = calibration_samples(request, done, tokenize)
    elif step.params.get("learns"):
        task.calibration = calibration_samples(request, done, tokenize)
    return task


class QuantizedCodec:
    """A model, and what was decided."""

    def save(self, folder: Path, result: Quantized, own: Path) -> None:
        """Writes both."""
        result.model.copy().save(folder / "model.onnx", own=own)
        said = {k: v for k, v in vars(result).items() if k not in ("model", "kept", "judged")}
        said["kept"] = [asdict(item) for item in result.kept]
        (folder / "said.json").write_text(json.dumps(said))

    def load(self, folder: Path) -> Quantized:
        """Maps the weights from the folder."""
        said = json.loads((folder / "said.json").read_text())
        kept = [Kept(**item) for item in said.pop("kept")]
        return Quantized(Model.load(folder / "model.onnx", linked=True), kept=kept, **said)


class Quantize(StepAction):
    """The model at a lower precision."""

    codec = QuantizedCodec()

    def run(self, step: Step, progress: Progress) -> Quantized:
        """Lowers it; where the user's budget is missed, finds what has to stay in float32."""
        task = task_of(step, self.request, self.done, self.work.opened.tokenize)
        made = task.carry_out(progress, partial(self._runtimes, step, progress))
        made.model.write_converted(self.work.scratch / f"{step.id.replace(':', '-')}.data")
        return made

    def _runtimes(self, step: Step, progress: Progress, lowered: Quantized) -> Iterator[Session]:
        """The model as its targets' artifacts, where those are checked, on all their kernels."""
        for target in step.params.get("runtimes", ()):
            emitter: Emitter = plugins.load("emitters", target)
            progress(f"trying it as {target}")
            with TemporaryDirectory(dir=self.work.scratch) as folder:
                emit = Emit(self.work, self.done, self.versions)
                step = replace(step, target=target)
                artifact = emit.written(step, lowered.model, Path(folder), progress)
                openers: list[Callable[[], Session]] = [
                    partial(emitter.open, artifact, self.request, frugal=True),
                    *emitter.others(artifact, self.request).values(),
                ]
                for opener in openers:
                    session = opener()
                    try:
                        yield Fed(session, real=takes_integers(self.request, step.precision))
                    finally:
                        session.close()

    def key(self, step: Step, needs: list[str], result: Quantized) -> str:
        """What code of the user's decided is known by the model that came out."""
        key = self.known(step, needs)
        return key if step.kept else digest_of([key, model_digest(result.model)])

    def known(self, step: Step, needs: list[str]) -> str:
        """With the contents of the samples that weights alone are fitted to."""
        own = super().known(step, needs)
        if step.params.get("runtimes"):  # their kernels are chosen by the CPU
            own = digest_of([own, describe_machine().flags])
        if not step.params.get("learns"):
            return own
        samples = calibration_samples(self.request, self.done, self.work.opened.tokenize)
        return digest_of([own, samples.digest])


class MeasureLayers(StepAction):
    """What each layer's lower precision costs."""

    def run(self, step: Step, progress: Progress) -> CostTable:
        """Measures; see :meth:`converter.precision.task.Task.costs`."""
        task = task_of(step, self.request, self.done, self.work.opened.tokenize)
        plain, costs, effort = task.costs(progress)
        judge = Judge(task.model, spread(task.samples, SAMPLES))
        return CostTable(
            self.work.name,
            plain.precision,
            plain.scheme,
            based_on(task.samples, SAMPLES),
            costs,
            plain.macs,
            cosine_of(judge.compare(plain.model)),
            effort.ended,
            plain.decisions,
        )


ACTIONS: dict[str, type[StepAction]] = {
    "masks": Masks,
    "calibrate": Calibrate,
    "quantize": Quantize,
    "sensitivity": MeasureLayers,
}
