"""Where an artifact and its source part: the step, and the operator or the module in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from converter.check.feeding import Fed
from converter.check.reference import run_sample
from converter.check.sums import Array
from converter.diff.difference import compare_models, default_tolerance
from converter.diff.modules import parting_module
from converter.diff.stage import Stage
from converter.errors import ModelyardError
from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from converter.runtime.session import Locating, Part, Session
from converter.samples import Sample

FLOAT32 = 1e-4
"""The tolerance of models in float32."""

FINE = 1e-6
"""Theirs where an output's largest values hide what parts."""

Outputs = Mapping[str, Array]
Kept = Callable[[Outputs, Outputs], bool]
"""Whether a model's outputs on a sample, the second, are within the limits of the source's."""


@dataclass(frozen=True)
class Where:
    """Where they part.

    Attributes:
        step: The step that first parts.
        sentence: That, and the operator or the module: ``it parts in the step simplify, at the Conv
            conv1 (tensor x12)``; empty where nothing is known.
    """

    step: str
    sentence: str


def locate(
    stages: Sequence[Stage],
    samples: Sequence[Sample],
    expected: Sequence[Outputs],
    kept: Kept,
    source: Callable[[], Session],
) -> Where:
    """Finds the step in which an artifact parts from its source, and what does in that step.

    A model that can't be run is passed over, and its step named along with the next.

    Args:
        stages: What the steps made, in order: first the graph that was read of the source, last
            the artifact, which is known to part.
        samples: Some on which it does.
        expected: What the source gives for each.
        kept: See :data:`Kept`.
        source: Opens the source; called where the graph that was read parts already.
    """
    last: Model | None = None
    steps: list[str] = []
    for stage in stages[:-1]:
        steps.append(stage.step)
        parting = _parting_samples(stage.model, samples, expected, kept)
        if parting:
            return _parting(steps, last, stage.model, parting, source)
        if parting is not None:
            last, steps = stage.model, []
    return _parting([*steps, stages[-1].step], last, stages[-1].model, samples, source)


def _parting_samples(
    model: Model | None, samples: Sequence[Sample], expected: Sequence[Outputs], kept: Kept
) -> list[Sample] | None:
    """The samples on which a model doesn't give what the source does; None where it can't be
    run."""
    if model is None:
        return None
    with suppress(ModelyardError):
        session = Fed(OrtSession(model.graph, plain=True))
        try:
            pairs = zip(samples, expected, strict=True)
            return [s for s, outputs in pairs if not kept(outputs, run_sample(session, s))]
        finally:
            session.close()
    return None


def _parting(
    steps: Sequence[str],
    before: Model | None,
    after: Model | None,
    samples: Sequence[Sample],
    source: Callable[[], Session],
) -> Where:
    step = " or ".join(steps) if all(steps) else ""
    where = f"in the step {step}" if step else ""
    if before is not None:
        operator = _operator(before, after, samples) if after is not None else ""
        told = [where, operator]
    elif after is not None and len(steps) == 1:
        return Where(step, _of_framework(step, after, samples[0], source))
    else:
        told = [where]
    sentence = ", ".join(filter(None, told))
    return Where(step, f"it parts {sentence}" if sentence else "")


def _operator(before: Model, after: Model, samples: Sequence[Sample]) -> str:
    """``at the Conv conv1 (tensor x12)``; empty where none is found."""
    with suppress(ModelyardError):
        first = compare_models(before, after, samples).first
        if first is None and default_tolerance(before, after) <= FLOAT32:
            first = compare_models(before, after, samples, tolerance=FINE).first
        if first is None:
            return ""
        name, other = first.tensor.name, first.tensor.other
        ours, theirs = _maker(before, name), _maker(after, other)
        tensor = f"tensor {name}"
        if first.inside_a == first.inside_b == 1 and theirs[0] != ours[0]:
            tensor += f", which the {theirs[0]} {theirs[1]} makes afterwards"
        nodes = {1: "", 2: " or the node before it"}
        more = nodes.get(first.inside_a, f" or one of the {first.inside_a - 1} nodes before it")
        return f"at the {ours[0]} {ours[1]} ({tensor}){more}"
    return ""


def _maker(model: Model, tensor: str) -> tuple[str, str]:
    """The operator and the name of the node that makes a tensor."""
    for node in model.graph.graph:
        if any(value.name == tensor for value in node.outputs):
            return node.op_type, node.name or ""
    return "", ""


def _of_framework(step: str, read: Model, sample: Sample, source: Callable[[], Session]) -> str:
    """What parts where the graph that was read gives something else than the framework."""
    framework, part = "the source", None
    with suppress(ModelyardError):
        session = source()
        framework = str(session.runtime.get("name") or framework)
        part = parting_module(read, session, sample) if isinstance(session, Locating) else None
    exporter = str(read.source.get("exporter") or "")
    if part is not None:
        return f"the graph parts from {framework} in {_module(part)}"
    made = f"the graph that {exporter} made" if exporter else "the graph that was read"
    return f"{made} parts from {framework}" + f", in the step {step}" * bool(step)


def _module(part: Part) -> str:
    """``the module encoder.attn (Attn, net.py:4)``; of the model itself, whose path is empty,
    ``the module Net (net.py:4)``."""
    facts = [part.kind, part.place] if part.name else [part.place]
    told = ", ".join(filter(None, facts))
    return f"the module {part.name or part.kind}" + f" ({told})" * bool(told)
