"""Measures what each layer's lower precision costs: sensitivity()."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.commands.convert import plan_of, run_steps
from converter.commands.opened import closing, resolve
from converter.errors import UsageError
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan
from converter.pipeline.run import Listener, Silent
from converter.pipeline.work import Work, find_parser

if TYPE_CHECKING:
    from converter.precision.budget.cost_table import CostTable

MEASURE = "sensitivity"
"""The kind of the step that measures."""


def sensitivity(source: str, *, listener: Listener | None = None, **options: Any) -> CostTable:
    """Measures what each layer's lower precision costs, one layer at a time.

    Args:
        source: As for :func:`converter.commands.convert.convert`.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.options.request.Request`: one ``precision`` below
            fp32, one target in ``to``, whose int8 scheme is taken; ``search_evaluations`` is how
            many layers are measured at most.

    Raises:
        UsageError: The request or the samples aren't right.
        ModelError: The model can't be read, or has nothing to lower.
        DependencyError, MachineError: Something is missing, or gave out.
    """
    request = replace(resolve({"source": source, **options}), check=False, bench=False, serve=[])
    _require_one(request)
    the_plan = _measuring(plan_of(request))
    parser, identity = find_parser(request)
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        scratch = Path(folder)
        work = Work(request, parser, identity, scratch, scratch, Cache.of(request))
        with closing(work):
            run = run_steps(work, the_plan, listener or Silent())
            found: CostTable = run.result(the_plan.steps[-1].id)
            return found


def _require_one(request: Request) -> None:
    if len(request.precision) != 1 or request.precision == ["fp32"]:
        raise UsageError(
            f"sensitivity measures one lower precision, not {', '.join(request.precision)}",
            code="option-value",
            hint="Pass a lower precision: --precision int8, int8-dynamic, int8-weights, fp16...",
        )
    if len(request.to) != 1:
        raise UsageError(
            f"sensitivity measures one target, not {', '.join(request.to)}",
            code="option-value",
            hint="Pass one --to, because each target places int8 in its own way.",
        )


def _measuring(planned: Plan) -> Plan:
    """A conversion's plan up to where the model is lowered; there it is measured instead."""
    steps = []
    for step in planned.steps:
        if step.kind == "quantize":
            steps.append(replace(step, kind=MEASURE, title="measuring layers", kept=False))
            break
        steps.append(step)
    return Plan(tuple(steps))
