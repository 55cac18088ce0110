"""The steps of lower precisions: measuring ranges, and bringing the model to fp16, bf16 or int8.

The order for int8: weights are equalized between layers where asked for (exact in float), then
rounded so that each layer's output stays, then biases take up the mean error that is left. Where
the user gave a budget that the result misses, layers go back to float32, as few as it takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from converter.cache import Cache
from converter.digest import digest_of
from converter.errors import ModelyardError, UsageError
from converter.graph.macs import macs_by_node
from converter.ir import Model
from converter.plan import Step
from converter.plugins import Progress
from converter.quantize.lowered import Kept, Lowered
from converter.quantize.ranges import Ranges, collect
from converter.quantize.scheme import SCHEMES
from converter.quantize.sensitivity import Judge, cosine_of, measure, sizes_in
from converter.request import Request
from converter.samples import Samples, load_samples
from converter.steps import Made, Results, StepAction
from converter.work import sizes_of

WEIGHT_METHODS = ("equalize", "rounding", "bias", "none")

Lower = Callable[[Collection[str]], Lowered]
"""The model at a lower precision, with the named nodes left in float32."""


def calibration_samples(request: Request, done: Results) -> Samples:
    """The samples to measure on: the user's own, never made up unasked.

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
        return load_samples(asked, model.inputs, sizes_of(request, model.symbols))
    if "int8" in request.precision and not request.samples:
        raise UsageError(
            "int8 needs samples to measure value ranges on",
            hint="Give --samples or --calibration-samples; random:N if noise will do.",
        )
    samples: Samples = done.result("samples")
    return samples


class Calibrate(StepAction):
    """The values that every tensor takes on the samples."""

    def run(self, step: Step, progress: Progress) -> Ranges:
        """Runs every sample once."""
        model: Model = self.done.result("simplify").model
        few = self.request.few_samples
        return collect(model, self._samples(), few=few, progress=progress, strict=False)

    def _samples(self) -> Samples:
        return calibration_samples(self.request, self.done)

    def key(self, step: Step, needs: list[str], result: Ranges) -> str:
        """With the contents of the samples."""
        return digest_of([step.key(needs, self.versions), self._samples().digest])

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """The ranges of an earlier run."""
        key = digest_of([step.key(needs, self.versions), self._samples().digest])
        folder = cache.find(key)
        ranges = Ranges.load(folder) if folder else None
        if folder and ranges is None:
            cache.drop(key)
        return (key, ranges) if ranges else None

    def keep(self, key: str, result: Ranges, cache: Cache) -> None:
        """Keeps them."""
        with cache.adding(key) as folder:
            if folder is not None:
                result.save(folder)


class LowerPrecision(StepAction):
    """The model at a lower precision."""

    def run(self, step: Step, progress: Progress) -> Lowered:
        """Lowers it; where the user's budget is missed, finds what has to stay in float32."""
        made: Made = self.done.result("simplify")
        samples: Samples = self.done.result("samples")
        precision, _, scheme = step.id.removeprefix("lower:").partition(":")
        task = Task(made.model, self.request, samples, precision, scheme)
        if "calibrate" in step.needs:
            task.ranges = self.done.result("calibrate")
            task.calibration = calibration_samples(self.request, self.done)
        return task.carry_out(progress)

    def find(self, step: Step, needs: list[str], cache: Cache) -> tuple[str, Any] | None:
        """The model of an earlier run."""
        key = step.key(needs, self.versions)
        folder = cache.find(key)
        if folder is None:
            return None
        try:
            said = json.loads((folder / "said.json").read_text())
            kept = [Kept(**item) for item in said.pop("kept")]
            return key, Lowered(Model.load(folder / "model.onnx"), kept=kept, **said)
        except (ModelyardError, OSError, ValueError, KeyError, TypeError):
            cache.drop(key)
            return None

    def keep(self, key: str, result: Lowered, cache: Cache) -> None:
        """Keeps the model and what was decided."""
        with cache.adding(key) as folder:
            if folder is not None:
                result.model.copy().save(folder / "model.onnx")
                said = {k: v for k, v in vars(result).items() if k not in ("model", "kept")}
                said["kept"] = [asdict(item) for item in result.kept]
                (folder / "said.json").write_text(json.dumps(said))


@dataclass
class Task:
    """One model to be brought to one precision.

    Attributes:
        model: The simplified model.
        request: What was asked for.
        samples: What the budget is judged on.
        precision: ``fp16``, ``bf16``, ``int8``, ``int8-dynamic``.
        scheme: The name of the int8 scheme.
        ranges, calibration: What was measured, and on what; None for int8-dynamic.
    """

    model: Model
    request: Request
    samples: Samples
    precision: str
    scheme: str = ""
    ranges: Ranges | None = None
    calibration: Samples | None = None

    def carry_out(self, progress: Progress) -> Lowered:
        """Lowers the model, within the user's budget where there is one."""
        asked = self._asked_to_stay()
        wanted = self.request.min_cosine
        if wanted is None and self.precision in ("fp16", "bf16"):
            return self._half(asked, self.samples)
        lower = self._lower(progress)
        lowered = lower(asked)
        if wanted is None:
            return lowered
        judge = Judge(self.model, list(self.samples))

        def cosine(candidate: Lowered) -> float:
            return cosine_of(judge.compare(candidate.model))

        if cosine(lowered) >= wanted:
            return lowered
        return self._search(lambda keep: lower({*asked, *keep}), cosine, wanted, progress)

    def _lower(self, progress: Progress) -> Lower:
        if self.precision in ("fp16", "bf16"):
            return self._half
        if self.precision == "int8-dynamic":
            from converter.quantize.dynamic import quantize_dynamically

            return lambda keep: quantize_dynamically(self.model, keep)
        return self._int8(progress)

    def _half(self, keep: Collection[str], samples: Samples | None = None) -> Lowered:
        """With ``samples``, the layers whose rounding shows most stay in float32."""
        from converter.quantize.half import to_half

        if self.precision == "bf16":
            return to_half(self.model, self.ranges, dtype="bfloat16", keep=keep, samples=samples)
        return to_half(self.model, self.ranges, dtype="float16", keep=keep, samples=samples)

    def _int8(self, progress: Progress) -> Lower:
        from converter.quantize.bias_correction import correct_biases
        from converter.quantize.equalize import equalize
        from converter.quantize.insert import quantize
        from converter.quantize.placement import possible_tensors
        from converter.quantize.rounding import round_adaptively

        assert self.ranges is not None and self.calibration is not None
        samples = self.calibration
        methods, scheme = self._weight_methods(), SCHEMES[self.scheme]
        model, ranges, decisions = self.model, self.ranges, list[str]()
        if "equalize" in methods:
            progress("equalizing weights")
            model, decisions = equalize(self.model)
            if decisions:
                names = possible_tensors(model, scheme)
                ranges = collect(model, samples, names, few=True, progress=progress, strict=False)
        rounded: Mapping[str, Any] = {}
        if "rounding" in methods:
            progress("rounding weights")
            limit = self.request.search_seconds
            rounded = round_adaptively(model, ranges, scheme, samples, time_limit=limit)

        macs = macs_by_node(self.model, sizes_in(self.model, next(iter(self.samples))))

        def lower(keep: Collection[str]) -> Lowered:
            made = quantize(
                model,
                ranges,
                scheme,
                method=self.request.calibration,
                keep=keep,
                rounded=rounded,
                macs=macs,
            )
            if "bias" in methods:
                made = correct_biases(model, made, samples)
            made.decisions = [*decisions, *made.decisions]
            return made

        return lower

    def _weight_methods(self) -> list[str]:
        unknown = [name for name in self.request.weight_methods if name not in WEIGHT_METHODS]
        if unknown:
            raise UsageError(
                f"--weight-methods {', '.join(unknown)}: there is no such method",
                hint=f"There are: {', '.join(WEIGHT_METHODS)}.",
            )
        return self.request.weight_methods

    def _search(
        self, lower: Lower, cosine: Callable[[Lowered], float], wanted: float, progress: Progress
    ) -> Lowered:
        from converter.quantize.budget import meet

        half = self.request.search_seconds / 2
        progress("looking for what has to stay in float32")
        costs = measure(lower, self.model, self.samples, time_limit=half, progress=progress)
        return meet(lower, costs, cosine, wanted, time_limit=half, progress=progress)

    def _asked_to_stay(self) -> set[str]:
        """The nodes that ``--keep-float`` names.

        Raises:
            UsageError: A pattern names none.
        """
        found: set[str] = set()
        for pattern in self.request.keep_float:
            names = {
                node.name or ""
                for node in self.model.nodes()
                if fnmatchcase(node.name or "", pattern) or fnmatchcase(node.op_type, pattern)
            }
            if not names:
                raise UsageError(
                    f"--keep-float {pattern} names no node of the model",
                    hint="Patterns are compared with node names and operators: "
                    "modelyard inspect shows both.",
                )
            found |= names
        return found


ACTIONS: dict[str, type[StepAction]] = {"calibrate": Calibrate, "lower": LowerPrecision}
