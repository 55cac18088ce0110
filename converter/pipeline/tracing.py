"""The step trace: a step's model beside the one before it, tensor by tensor.

It says where in the graph a step lost what, cheaply: on two samples, by bisection in large
graphs, and not at all where the weights take more than :data:`LARGEST`.
"""

from __future__ import annotations

from pathlib import Path

from converter.errors import ModelError, UsageError
from converter.ir.model import Model
from converter.pipeline.plan import SIMPLIFY, Step
from converter.pipeline.steps import Made, StepAction
from converter.precision.quantized import Quantized
from converter.report.layerwise_error import AlongReport
from converter.runtime.session import Progress
from converter.samples import Samples

LARGEST = 500_000_000
"""Bytes of weights from which a step isn't traced: two models are open at once, each with its
weights in memory, which takes some seven times as much."""

SAMPLES = 2
_FILE = "along.json"


class AlongCodec:
    """What a report says of it."""

    def save(self, folder: Path, result: AlongReport, own: Path) -> None:
        (folder / _FILE).write_text(result.model_dump_json(), encoding="utf-8")

    def load(self, folder: Path) -> AlongReport:
        return AlongReport.model_validate_json((folder / _FILE).read_bytes())


class Trace(StepAction):
    """Where a step's model parts from the one before it."""

    codec = AlongCodec()

    def run(self, step: Step, progress: Progress) -> AlongReport:
        """Compares the two; what can't be compared is said in the result."""
        simplified: Made = self.done.result(SIMPLIFY)
        if step.model == SIMPLIFY:
            read: Made = self.done.result("parse")
            names = ("read", "simplified")
            if not simplified.warnings and all(r.status != "changed" for r in simplified.records):
                return AlongReport(before=names[0], after=names[1], unchanged=True)
            return self._compared(read.model, simplified.model, names, progress)
        lowered: Quantized = self.done.result(step.model)
        names = ("simplified", " for ".join(step.model.split(":")[1:]))
        return self._compared(simplified.model, lowered.model, names, progress)

    def _compared(
        self, a: Model, b: Model, names: tuple[str, str], progress: Progress
    ) -> AlongReport:
        samples: Samples = self.done.result("samples")
        size = a.weight_bytes()
        if size > LARGEST:
            why = f"the weights take {size / 1e9:.1f} GB: modelyard diff compares such models"
            return AlongReport(before=names[0], after=names[1], skipped=why)
        from converter.diff.difference import compare_models

        try:
            found = compare_models(a, b, samples, most=SAMPLES, progress=progress)
        except (ModelError, UsageError) as error:  # the artifact itself is judged by its check
            return AlongReport(before=names[0], after=names[1], skipped=error.message)
        return AlongReport.of(found, *names)


ACTIONS: dict[str, type[StepAction]] = {"trace": Trace}
