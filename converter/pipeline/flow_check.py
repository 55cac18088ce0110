"""Whether joined artifacts answer as their joined sources do, from a user's file to the answer.

Each part is checked by itself; this is about what lies between: a box that is a pixel off is
another picture for the next part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from converter import plugins
from converter.check.feeding import Fed, takes_integers
from converter.check.gate_result import GateResult, judged, unjudged
from converter.check.gates import Limits
from converter.options.parts import Whole
from converter.pipeline.declaring import declaration_of
from converter.pipeline.outcome import Outcome
from converter.preparation.flow import flow_of
from converter.preparation.flows import Flow, Part
from converter.preparation.stages import Item, Stages
from converter.protocols.emitter import Artifact
from converter.runtime.session import Session

FLOW = "flow"
"""The gate's name."""

FILES = 4
"""Files that are asked about, at most."""

OVERLAP, SCORES = 0.9, 0.02
"""Of boxes that are one: the least intersection over union; how far scores may differ."""

Kind = tuple[str, str]
"""A target and a precision."""


def check_flow(outcomes: Sequence[Outcome], whole: Whole) -> dict[Kind, GateResult]:
    """A gate for each target and precision that all parts have.

    Args:
        outcomes: The run of each part, done; its source can still be opened.
        whole: The flow that joins them.

    Raises:
        ModelError: An artifact or a source doesn't run.
        UsageError: A file can't be prepared.
    """
    steps = [item.model_dump() for item in flow_of(whole.request.flow, [o.part for o in outcomes])]
    made = {outcome.part: _artifacts(outcome) for outcome in outcomes}
    kinds = [kind for kind in made[outcomes[0].part] if all(kind in own for own in made.values())]
    first = next(outcome for outcome in outcomes if outcome.part == steps[0]["part"])
    items = list(_items(first))
    if not items:
        why = f"{first.part} has no pictures as samples, which its flow would take"
        return {kind: unjudged(FLOW, why) for kind in kinds}
    sources = {outcome.part: _session(outcome) for outcome in outcomes}
    told = _answers(steps, outcomes, sources, items)
    return {
        kind: _judged(outcomes, kind, _of_artifacts(steps, outcomes, made, kind, items), told)
        for kind in kinds
    }


def _artifacts(outcome: Outcome) -> dict[Kind, Artifact]:
    return {(made.target, made.precision): made for _, made in outcome.artifacts()}


def _items(outcome: Outcome) -> Iterator[Item]:
    """The files that a part's samples were made of."""
    for path, name in outcome.run.result("samples").files[:FILES]:
        yield Item("picture", path, name)


def _session(outcome: Outcome) -> Session:
    return outcome.work.opened.session(outcome.run.result("parse").model)


def _of_artifacts(
    steps: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Outcome],
    made: Mapping[str, Mapping[Kind, Artifact]],
    kind: Kind,
    items: Sequence[Item],
) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        sessions = {}
        for outcome in outcomes:
            artifact, request = made[outcome.part][kind], outcome.request
            opened = plugins.load("emitters", kind[0]).open(artifact, request, frugal=True)
            real = takes_integers(request, artifact.precision)
            sessions[outcome.part] = stack.enter_context(closing(Fed(opened, real=real)))
        return _answers(steps, outcomes, sessions, items)


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
        stages = Stages({**declared, "stored": stored}, outcome.work.output)
        parts[outcome.part] = Part(stages, session.run)
    flow = Flow(steps, parts)
    return [flow.ask(item) for item in items]


def _judged(
    outcomes: Sequence[Outcome],
    kind: Kind,
    found: Sequence[Mapping[str, Any]],
    right: Sequence[Mapping[str, Any]],
) -> GateResult:
    limit = Limits.of(outcomes[0].request, kind[1]).cosine
    alike = [same for a, b in zip(found, right, strict=True) for same in agreements(a, b)]
    share = sum(alike) / max(len(alike), 1)
    files = f"{len(right)} file{'s' * (len(right) != 1)}"
    why = f"{sum(alike)} of {len(alike)} answers to {files} are those of the sources"
    return judged(FLOW, limit, share, share >= limit, why)


def agreements(found: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[bool]:
    """For each thing that an answer says, whether the other says it, too: a box with all that is
    said of it, the best class, a text; of all else, the whole."""
    for name, said in right.items():
        other = found.get(name)
        if name == "boxes" and isinstance(other, list):
            left = list(other)
            for box in said:
                same = next((item for item in left if _same_box(item, box)), None)
                if same is not None:
                    left.remove(same)
                yield same is not None
            yield from (False for _ in left)
        elif name == "classes":
            yield bool(other) and _best(other) == _best(said)
        elif isinstance(said, Mapping) and isinstance(other, Mapping):
            yield from agreements(other, said)
        elif name not in _SCORES:
            yield other == said


_SCORES = {"score", "box"}


def _same_box(found: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    if _overlap(found["box"], right["box"]) < OVERLAP:
        return False
    near = abs(found.get("score", 0.0) - right.get("score", 0.0)) <= SCORES
    return near and all(agreements(found, right))


def _best(classes: Any) -> Any:
    return [row[0]["index"] if isinstance(row, list) else row["index"] for row in classes[:1]]


def _overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two boxes."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    sizes = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return shared / max(sum(sizes) - shared, 1e-12)
