"""A flow on servers: what takes a user's file through the models of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from converter import plugins
from converter.check.gates import Limits
from converter.options.parts import Whole
from converter.options.resolved import served_name
from converter.pipeline.outcome import Outcome
from converter.preparation.flow import combinations, flow_of
from converter.protocols.flow import Example, JoinedFlow, JoinedPart
from converter.protocols.server import Packaged, Server
from converter.text import words


@dataclass(frozen=True)
class FlowPackage:
    """A flow's package, and those of its parts: it is given where all of these are."""

    packaged: Packaged
    parts: Sequence[Path]


def join_packages(
    outcomes: Sequence[Outcome], whole: Whole, examples: Sequence[Example]
) -> tuple[list[FlowPackage], list[str]]:
    """Writes the flow beside the packages of its parts, for each server that has flows and each
    precision that all parts have, or the only one of each.

    Args:
        outcomes: The run of each part, done.
        whole: The flow, and the name that it gets.
        examples: Files that go along, with the sources' answers.

    Returns:
        What was written; and why nothing was, a line for each server.

    Raises:
        UsageError: A name is taken.
        MachineError: The disk is full.
    """
    steps = [item.model_dump() for item in flow_of(whole.request.flow, [o.part for o in outcomes])]
    made, notes = [], []
    for name in outcomes[0].request.serve:
        server: Server = plugins.load("servers", name)
        if not server.joins or any(outcome.request.prepare != "server" for outcome in outcomes):
            why = "give --prepare server" if server.joins else "it has no flows here"
            notes.append(f"{name} has the flow's parts, and not the flow: {why}")
            continue
        packages = {outcome.part: _packages(outcome, name) for outcome in outcomes}
        if not (found := combinations(packages)):
            notes.append(f"{name} has no flow: its parts have no precision in common there")
        for together in found:
            parts = {part: packages[part][kind] for part, kind in together.items()}
            request, precision = outcomes[0].request, together[outcomes[0].part]
            limits = (Limits.of(o.request, together[o.part]).cosine for o in outcomes)
            flow = JoinedFlow(
                served_name(request, whole.title, precision),
                *(steps, parts, request, examples, min(limits)),
                reference=_reference(outcomes),
            )
            paths = [part.packaged.path for part in parts.values()]
            made.append(FlowPackage(server.join(paths[0].parent, flow), paths))
    return made, notes


def _packages(outcome: Outcome, server: str) -> dict[str, JoinedPart]:
    """A part's packages for a server, by precision."""
    result, assets = outcome.run.result, outcome.work.identity.assets
    return {
        step.precision: JoinedPart(result(step.id), result(step.needs[0]), assets)
        for step in outcome.done("package")
        if step.server == server
    }


def _reference(outcomes: Sequence[Outcome]) -> str:
    """What the sources ran in."""
    known = (outcome.maybe("reference") for outcome in outcomes)
    told = (words.runtime(found.runtime) for found in known if found is not None)
    return ", ".join(dict.fromkeys(told))
