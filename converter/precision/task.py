"""One model brought to one lower precision, within the user's budget where there is one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from converter.analysis.macs import macs_by_node
from converter.check.task_metrics import choose_metrics
from converter.errors import ModelError, UsageError
from converter.ir.model import Model
from converter.options.precisions import stores_weights
from converter.options.request import Request
from converter.options.resolved import has_grouped_tables, has_own_samples, io_dtype_of
from converter.precision.budget.effort import MEASURING, USUAL, Effort, reckoned, usual_evaluations
from converter.precision.budget.goal import HARD, Goal
from converter.precision.budget.sensitivity import Cost, Quantize, measure
from converter.precision.calibrate.ranges import Ranges
from converter.precision.int8.scheme import scheme_of
from converter.precision.quantized import Quantized
from converter.precision.walk import MOST
from converter.preparation.declared import IN_GRAPH, NAMES
from converter.runtime.ort import OrtSession
from converter.runtime.session import Progress, Session
from converter.samples import Samples
from converter.samples.base import sizes_in

if TYPE_CHECKING:
    from converter.precision.weights.storage import WeightStorage

ELSEWHERE = 0.15
"""Share of what a cosine may lack that is kept back for int8 on other runtimes than the one that a
budget is searched with: their sums differ in the last bit (in MiniLM the steps of int8 that flip by
that take up to a tenth of it), and some round what stays in float beside int8 weights."""

Runtimes = Callable[[Quantized], Iterable[Session]]
"""A lowered model in the runtimes that its target's artifact may meet, one after the other."""


@dataclass
class Ways:
    """How a model is lowered.

    Attributes:
        lower: With more nodes left in float than those that always are.
        settle: The same, with what is fitted to that set fitted anew; None where nothing is.
        settling: How many evaluations that counts for.
    """

    lower: Quantize
    settle: Quantize | None = None
    settling: float = 1.0

    def plain(self) -> Quantized:
        """With nothing more in float."""
        return (self.settle or self.lower)(())


@dataclass
class Task:
    """One model to be brought to one precision.

    Attributes:
        model: The simplified model; with its masks clamped where ranges were measured.
        request: What was asked for.
        samples: What the budget is judged on.
        precision: ``fp16``, ``bf16``, ``int8``, ``int8-dynamic``.
        scheme: The name of the int8 scheme.
        ranges, calibration: What was measured, and on what; None for int8-dynamic.
        decisions: What was done to the model for the precision's sake.
    """

    model: Model
    request: Request
    samples: Samples
    precision: str
    scheme: str = ""
    ranges: Ranges | None = None
    calibration: Samples | None = None
    decisions: list[str] = field(default_factory=list)
    _efforts: list[Effort] = field(default_factory=list, repr=False)

    def carry_out(self, progress: Progress, runtimes: Runtimes = lambda lowered: ()) -> Quantized:
        """Lowers the model; where the user's budget is missed, finds what has to stay in float32.

        Args:
            progress: Told what is being done.
            runtimes: Runs the lowered model where the target's artifact will run; what is judged
                there of a budget is held back in a second search, where it is missed there.

        Raises:
            BudgetError: No set of layers in float32 meets the budget.
        """
        budget = self._has_budget()
        made = self._within_budget(progress, runtimes) if budget else self._plain(progress)
        made.decisions = [*self.decisions, *made.decisions]
        made.hurried = any(effort.cut for effort in self._efforts)
        return made

    def costs(self, progress: Progress) -> tuple[Quantized, list[Cost], Effort]:
        """The model lowered, what each layer's lower precision costs, and what was spent on it: as
        much as on a search."""
        ways = self._ways(progress)
        plain, effort = ways.plain(), self._effort()
        costs = measure(ways.lower, self.model, self.samples, effort=effort, progress=progress)
        plain.decisions = [*self.decisions, *plain.decisions]
        return plain, costs, effort

    def _effort(self, *, strict: bool = False) -> Effort:
        """What a search may spend, from now on.

        Args:
            strict: One for nodes whose rounding shows most in float16: half as long.
        """
        asked, few = self.request.search_evaluations, min(len(self.samples), HARD)
        if asked is None:
            once = reckoned(self.model, self._macs, few, plain=strict)
            asked = usual_evaluations(once, USUAL / 2 if strict else USUAL)
        self._efforts.append(Effort(asked, self.request.search_seconds))
        return self._efforts[-1]

    def _has_budget(self) -> bool:
        return self.request.min_cosine is not None or self.request.max_drop is not None

    def _plain(self, progress: Progress) -> Quantized:
        if self.precision in ("fp16", "bf16"):
            return self._half(self._asked_to_stay(), self.samples)
        return self._ways(progress).plain()

    def _within_budget(self, progress: Progress, runtimes: Runtimes) -> Quantized:
        from converter.errors import BudgetError

        if stores_weights(self.precision):
            return self._stored_within_budget(progress)
        ways = self._ways(progress)
        with self._goal() as goal:
            made = self._met(goal, ways, progress)
            try:
                narrowed = goal.narrowed(made, runtimes(made))
            except ModelError:  # writing or running it will say so in a step of its own
                return made
            if narrowed is None:
                return made
            progress(f"the target's runtime misses {goal}: searching again")
            try:
                again = self._met(narrowed, ways, progress)
            except BudgetError:
                made.decisions.append(f"{narrowed.in_full} is not met by any set that was found")
                return made
            again.decisions.append(f"searched twice: the target's runtime here missed {goal}")
            return again

    def _met(self, goal: Goal, ways: Ways, progress: Progress) -> Quantized:
        from converter.precision.budget.budget import Budget, met_at_once

        plain = ways.plain()
        score = goal.score(plain)
        if goal.meets(score):
            plain.decisions.append(met_at_once(goal, score))
            return plain
        progress("looking for what has to stay in float32")
        effort = self._effort()
        costs = measure(
            ways.lower,
            self.model,
            self.samples,
            effort=effort.part(MEASURING),
            progress=progress,
        )
        return Budget(
            ways.lower,
            costs,
            goal,
            effort,
            settle=ways.settle,
            settling=ways.settling,
            progress=progress,
            plain=(plain, score),
        ).meet()

    @contextmanager
    def _goal(self) -> Iterator[Goal]:
        """What the user wants; its metrics are those that the check will judge."""
        request, session = self.request, OrtSession(self.model.graph)
        asked = request.max_drop is not None
        metrics = choose_metrics(request, session, self.samples) if asked else []
        session.close()
        try:
            yield Goal(
                self.model,
                self.samples,
                min_cosine=request.min_cosine,
                max_drop=request.max_drop,
                metrics=metrics,
                held_back=ELSEWHERE if self._runs_elsewhere() else 0.0,
            )
        finally:
            for metric in metrics:
                metric.close()

    def _runs_elsewhere(self) -> bool:
        return bool(self.scheme) and scheme_of(self.scheme).elsewhere

    def _ways(self, progress: Progress) -> Ways:
        asked = self._asked_to_stay()
        if self.precision in ("fp16", "bf16"):
            return Ways(lambda keep: self._half(asked.union(keep)))
        if self.precision == "int8-dynamic" and self.scheme:
            from converter.precision.int8.weight_only import quantize_weights

            scheme = scheme_of(self.scheme)
            return Ways(
                lambda keep: quantize_weights(self.model, scheme, asked.union(keep), self._sizes)
            )
        if stores_weights(self.precision):
            storage = self._storage(progress)
            return Ways(lambda keep: storage.lower(asked.union(keep)))
        if self.precision == "int8-dynamic":
            from converter.precision.int8.dynamic import quantize_dynamically

            return Ways(
                lambda keep: quantize_dynamically(self.model, asked.union(keep), self._sizes)
            )
        return self._int8(asked, progress)

    def _storage(self, progress: Progress) -> WeightStorage:
        """The model's weights, fitted to the user's samples where there are any."""
        from converter.precision.weights.learning import learn
        from converter.precision.weights.storage import WeightStorage

        half, _, weights = self.precision.rpartition("+")
        asked = self._asked_to_stay()
        storage = WeightStorage(
            self.model,
            weights,
            bits=self.request.palette_bits,
            grouped=has_grouped_tables(self.request),
            sizes=self._sizes,
            half=self._half(asked, self.samples) if half else None,
        )
        methods = self.request.weight_methods
        if self.calibration is not None and has_own_samples(self.request):
            effort = self._effort()
            learn(storage, self.model, self.calibration, methods, effort=effort, progress=progress)
        return storage

    def _stored_within_budget(self, progress: Progress) -> Quantized:
        from converter.precision.budget.weights import WeightBudget

        budget = WeightBudget(
            self._storage(progress),
            self.model,
            self.samples,
            self._asked_to_stay(),
            effort=self._effort(),
            progress=progress,
        )
        with self._goal() as goal:
            return budget.meet(goal)

    def _half(self, keep: Collection[str], samples: Samples | None = None) -> Quantized:
        """With ``samples``, the layers whose rounding shows most stay in float32."""
        from converter.precision.fp16.half import to_half

        narrow = io_dtype_of(self.request, self.precision) != "float32"
        return to_half(
            self.model,
            self.ranges,
            dtype="bfloat16" if self.precision == "bf16" else "float16",
            io_dtype="float16" if narrow else "float32",
            keep=keep,
            samples=samples,
            effort=self._effort(strict=True) if samples is not None else None,
            sizes=self._sizes,
        )

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Of free dimensions, as the first sample has them."""
        return sizes_in(self.model, next(iter(self.samples)))

    @cached_property
    def _macs(self) -> int:
        """Multiply-adds of one sample."""
        return sum(macs_by_node(self.model, self._sizes).values())

    def _int8(self, keep: Collection[str], progress: Progress) -> Ways:
        from converter.precision.int8.quantize import Int8

        assert self.ranges is not None and self.calibration is not None
        made = Int8(
            self.model,
            self.ranges,
            scheme_of(self.scheme),
            self.calibration,
            keep=keep,
            methods=self.request.weight_methods,
            calibration=self.request.calibration,
            sizes=self._sizes,
            effort=self._effort(),
            progress=progress,
        )
        if made.quick or not made.fits:
            return Ways(made.settle)
        walked = reckoned(self.model, self._macs, min(len(self.calibration), MOST), plain=True)
        once = reckoned(self.model, self._macs, min(len(self.samples), HARD))
        return Ways(made.lower, made.settle, 1 + walked / once)

    def _asked_to_stay(self) -> frozenset[str]:
        """The nodes that ``--keep-float`` names, and those that prepare and answer in the graph.

        Raises:
            UsageError: A pattern names none.
        """
        found: set[str] = set()
        if IN_GRAPH in self.model.source:
            own = (node.name or "" for node in self.model.nodes())
            found |= {name for name in own if any(part in name for part in NAMES)}
        for pattern in self.request.keep_float:
            names = {
                node.name or ""
                for node in self.model.nodes()
                if fnmatchcase(node.name or "", pattern) or fnmatchcase(node.op_type, pattern)
            }
            if not names:
                raise UsageError(
                    f"--keep-float {pattern} names no node of the model",
                    code="unknown-name",
                    hint="A pattern is compared with the operators that modelyard inspect "
                    "lists, and with the node names that modelyard sensitivity lists.",
                )
            found |= names
        return frozenset(found)
