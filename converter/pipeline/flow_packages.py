"""A flow on servers: what takes a user's file through the packages of its parts."""

from __future__ import annotations

from collections.abc import Sequence

from converter import plugins
from converter.options.parts import Whole
from converter.options.resolved import served_name
from converter.pipeline.outcome import Outcome
from converter.preparation.flow import flow_of
from converter.protocols.server import Packaged, Server


def join_packages(outcomes: Sequence[Outcome], whole: Whole) -> tuple[list[Packaged], list[str]]:
    """Writes the flow beside the packages of its parts, for each server that has flows and each
    precision that all parts have.

    Args:
        outcomes: The run of each part, done.
        whole: The flow, and the name that it gets.

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
        packages = [_packages(outcome, name) for outcome in outcomes]
        for precision in packages[0]:
            if all(precision in own for own in packages):
                parts = {o.part: own[precision] for o, own in zip(outcomes, packages, strict=True)}
                folder = next(iter(parts.values())).path.parent
                called = served_name(outcomes[0].request, whole.title, precision)
                made.append(server.join(folder, called, steps, parts))
    return made, notes


def _packages(outcome: Outcome, server: str) -> dict[str, Packaged]:
    """A part's packages for a server, by precision."""
    done = (step for step in outcome.done("package") if step.server == server)
    return {step.precision: outcome.run.result(step.id) for step in done}
