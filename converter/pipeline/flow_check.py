"""Whether joined artifacts answer as their joined sources do, from a user's file to the answer.

Each part is checked by itself; this is about what lies between: a box that is a pixel off is
another picture for the next part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

from converter import plugins
from converter.check.agreements import agreements
from converter.check.feeding import Fed, takes_integers
from converter.check.gate_result import GateResult, judged, unjudged
from converter.check.gates import Limits
from converter.errors import UsageError
from converter.options.parts import Whole
from converter.pipeline.declaring import declaration_of
from converter.pipeline.outcome import Outcome
from converter.preparation.flow import combinations, flow_of
from converter.preparation.flows import Flow, Part
from converter.preparation.prepared import run_rows, stages_of, told
from converter.preparation.staged.base import Item
from converter.protocols.emitter import Artifact
from converter.protocols.flow import Example
from converter.runtime.session import Session

FLOW = "flow"
"""The gate's name."""

FILES = 4
"""Files that are asked about, at most."""

Kind = tuple[str, str]
"""A target and a precision."""

Together = dict[str, Kind]
"""What runs together, by the parts' names."""


def examples_of(outcomes: Sequence[Outcome], whole: Whole) -> list[Example]:
    """The files that a flow is asked about: those that its first part's samples were made of."""
    first = flow_of(whole.request.flow, [o.part for o in outcomes])[0].part
    outcome = next(outcome for outcome in outcomes if outcome.part == first)
    samples = outcome.run.result("samples")
    return [Example(path, name, kind=samples.kind) for path, name in samples.files[:FILES]]


def check_flow(
    outcomes: Sequence[Outcome], whole: Whole
) -> tuple[list[tuple[Together, GateResult]], list[Example]]:
    """A gate for the artifacts that run together, for each target and precision that all parts
    have; and the files, with what the sources say of each.

    Args:
        outcomes: The run of each part, done; its source can still be opened.
        whole: The flow that joins them.

    Raises:
        ModelError: An artifact or a source doesn't run.
        UsageError: A file can't be prepared.
    """
    steps = [item.model_dump() for item in flow_of(whole.request.flow, [o.part for o in outcomes])]
    made = {outcome.part: _artifacts(outcome) for outcome in outcomes}
    found = combinations(made)
    examples = examples_of(outcomes, whole)
    if whole.wanted:
        return [(of, _chained(steps, outcomes, made, of, whole)) for of in found], examples
    if not examples:
        why = f"{steps[0]['part']} has no files as samples, which its flow would take"
        return [(together, unjudged(FLOW, why)) for together in found], []
    items = [Item(example.kind, example.path, example.name) for example in examples]
    sources = {outcome.part: _session(outcome) for outcome in outcomes}
    told = _answers(steps, outcomes, sources, items)
    gates = []
    for together in found:
        artifacts = {part: made[part][kind] for part, kind in together.items()}
        answers = _of_artifacts(steps, outcomes, artifacts, items)
        limit = min(Limits.of(o.request, together[o.part][1]).cosine for o in outcomes)
        gates.append((together, _judged(limit, answers, told)))
    known = zip(examples, told, strict=True)
    return gates, [replace(example, answer=answer) for example, answer in known]


def _artifacts(outcome: Outcome) -> dict[Kind, Artifact]:
    return {(made.target, made.precision): made for _, made in outcome.artifacts()}


def _session(outcome: Outcome) -> Session:
    return outcome.work.opened.session(outcome.run.result("parse").model)


def _of_artifacts(
    steps: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Outcome],
    made: Mapping[str, Artifact],
    items: Sequence[Item],
) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        return _answers(steps, outcomes, _opened(outcomes, made, stack), items)


def _opened(
    outcomes: Sequence[Outcome], made: Mapping[str, Artifact], stack: ExitStack
) -> dict[str, Session]:
    """A session on each part's artifact."""
    sessions: dict[str, Session] = {}
    for outcome in outcomes:
        artifact, request = made[outcome.part], outcome.request
        opened = plugins.load("emitters", artifact.target).open(artifact, request, frugal=True)
        real = takes_integers(request, artifact.precision)
        sessions[outcome.part] = stack.enter_context(closing(Fed(opened, real=real)))
    return sessions


def _chained(
    steps: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Outcome],
    made: Mapping[str, Mapping[Kind, Artifact]],
    of: Together,
    whole: Whole,
) -> GateResult:
    """What comes out of the last part, beside what the source of all gives."""
    from converter.check.accuracy import AccuracyResult
    from converter.check.metrics import Comparer
    from converter.check.output_gates import judge_outputs

    comparer = Comparer()
    samples = next(o for o in outcomes if o.part == steps[0]["part"]).run.result("samples")
    with ExitStack() as stack:
        sessions = _opened(outcomes, {part: made[part][kind] for part, kind in of.items()}, stack)
        for sample, right in zip(samples, whole.wanted, strict=True):
            given: dict[str, Mapping[str, Any]] = {"": sample.feeds}
            for step in steps:
                outputs = sessions[step["part"]].run(dict(given[step["takes"]]))
                given[step["name"]] = outputs
            comparer.add(right, outputs, sample.name)
    limits = min(
        (Limits.of(o.request, of[o.part][1]) for o in outcomes), key=lambda one: one.cosine
    )
    gates = judge_outputs(limits, AccuracyResult(comparer.result()))
    missed = next((gate for gate in gates if gate.status == "failed"), None)
    shown = missed or next((g for g in gates if g.name in ("cosine", "agreement")), gates[0])
    why = f"the whole against its source: {shown.name}: {shown.why}"
    return replace(shown, name=FLOW, why=why)


def require_joined(outcomes: Sequence[Outcome], whole: Whole) -> None:
    """Refuses parts of which one takes what the other doesn't give.

    Raises:
        UsageError: Names or types differ; all that do.
    """
    models = {outcome.part: outcome.run.result("simplify").model for outcome in outcomes}
    steps = {item.name: item for item in flow_of(whole.request.flow, list(models))}
    problems = []
    for step in steps.values():
        if not step.takes:
            continue
        given = {s.name: s.describe() for s in models[steps[step.takes].part].outputs}
        for spec in models[step.part].inputs:
            if spec.name not in given:
                named = ", ".join(given)
                problems.append(f"{step.name} takes {spec.name}, and {step.takes} gives {named}")
            elif given[spec.name].partition("[")[0] != spec.dtype:
                told = f"{step.takes} gives it as {given[spec.name]}"
                problems.append(f"{step.name} takes {spec.name} as {spec.describe()}, and {told}")
    if problems:
        raise UsageError(
            "the flow joins parts that don't fit", code="recipe-parts", details=problems
        )


def _answers(
    steps: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Outcome],
    sessions: Mapping[str, Session],
    items: Sequence[Item],
) -> list[dict[str, Any]]:
    """What the flow says of each file, its parts run by these sessions."""
    parts = {}
    for outcome in outcomes:
        model = outcome.run.result("simplify").model
        samples, assets = outcome.run.result("samples"), outcome.work.identity.assets
        known = declaration_of(outcome.request, samples, model, assets)
        declared = known.model_dump() if known else {"prepare": (), "answer": ()}
        session = sessions[outcome.part]
        stored = [{"name": spec.name, "dtype": spec.dtype} for spec in session.inputs]
        stages = stages_of({**declared, "stored": stored}, outcome.work.output)
        parts[outcome.part] = Part(stages, partial(run_rows, session.run, session.inputs))
    flow = Flow(steps, parts)
    with told():
        return [flow.ask(item) for item in items]


def _judged(
    limit: float, found: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]
) -> GateResult:
    alike = [same for a, b in zip(found, right, strict=True) for same in agreements(a, b)]
    share = sum(alike) / max(len(alike), 1)
    files = f"{len(right)} file{'s' * (len(right) != 1)}"
    why = f"{sum(alike)} of {len(alike)} answers to {files} are those of the sources"
    return judged(FLOW, limit, share, share >= limit, why)
