"""The steps of sequences that go along with a folder, with what the source gives for each.

The source and the artifact go through each sequence beside each other, each with its own state.
Steps go along for as long as the artifact's answers keep to the limits of the check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from converter.check.accuracy import comparer_for
from converter.check.matching import Matching
from converter.check.shipping import Item, Shipped
from converter.check.sums import Array
from converter.runtime.session import Session
from converter.samples import Sample, Samples
from emitters.serving.triton.sequences import Sequences

STEPS = 4
"""Steps of a sequence, at most: so many samples are looked at."""

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Step:
    """A request: of which sequence (from 1), which of its steps (from 0), on which sample."""

    sequence: int
    number: int
    sample: Sample


def planned(samples: Samples) -> list[Step]:
    """Two sequences, whose steps take turns: the first samples, and the same backwards; of a single
    sample, one sequence that repeats it. So a state that is lost, or another sequence's, shows."""
    found = list(islice(samples, STEPS))
    orders = [found, found[::-1]] if len(found) > 1 else [found * (STEPS - 1)]
    return [
        Step(sequence, number, sample)
        for number in range(len(orders[0]))
        for sequence, sample in enumerate((order[number] for order in orders), start=1)
    ]


def flags_of(step: Step, length: int) -> dict[str, bool]:
    """Whether a step starts and ends its sequence of ``length`` steps."""
    return {"start": step.number == 0, "end": step.number == length - 1}


class Stepper:
    """A session that goes through sequences, each with a state of its own."""

    def __init__(self, session: Session, sequences: Sequences) -> None:
        self._session, self._sequences = session, sequences
        self._states: dict[int, Arrays] = {}

    def run(self, step: Step, length: int) -> Arrays:
        """Outputs, states among them, by name."""
        states = self._sequences.states
        if step.number == 0:
            self._states[step.sequence] = {s.input.name: np.array(s.first) for s in states}
        flags = flags_of(step, length)
        feeds = {**step.sample.feeds, **self._states[step.sequence]}
        feeds |= {control.name: control.array(flags) for control in self._sequences.controls}
        found = {name: np.asarray(array) for name, array in self._session.run(feeds).items()}
        self._states[step.sequence] = {s.input.name: found[s.output.name] for s in states}
        return found


def items_of(
    samples: Samples,
    sequences: Sequences,
    shipped: Shipped | None,
    source: Session | None,
    artifact: Session,
) -> tuple[list[Item], list[str]]:
    """The steps that go along, in the order in which they are sent; and why others don't.

    Args:
        samples: The steps' inputs, but for states and controls.
        sequences: The states.
        shipped: The limits; None outside of a run.
        source: What runs the source; None where the check was left out.
        artifact: What runs what is served, in the source's types.
    """
    steps = planned(samples)
    length = max((step.number for step in steps), default=-1) + 1
    if source is None or shipped is None:
        return [_item(step, length, {}) for step in steps], []
    expected = list(_kept(steps, length, sequences, shipped, (source, artifact)))
    kept = length if len(expected) == len(steps) else steps[len(expected)].number
    notes = []
    if kept < length:
        notes.append(
            f"{length - kept} steps of {length} don't go along: from there, a limit is missed"
        )
    if kept < 2:
        return [], notes
    pairs = zip(steps, expected, strict=False)
    return [_item(step, kept, found) for step, found in pairs if step.number < kept], notes


def _kept(
    steps: Sequence[Step],
    length: int,
    sequences: Sequences,
    shipped: Shipped,
    sessions: tuple[Session, Session],
) -> Iterator[Arrays]:
    """What the source gives for each step, up to the first on which a limit is missed: by the step
    alone, or together with those before."""
    outputs = sequences.served(shipped.outputs)
    matching = Matching.of(shipped.lists, shipped.limits.cosine)
    whole = comparer_for(outputs, matching)
    source, artifact = (Stepper(session, sequences) for session in sessions)
    kept = sequences.kept
    for step in steps:
        wanted, found = source.run(step, length), artifact.run(step, length)
        alone = comparer_for(outputs, matching)
        for comparer in (alone, whole):
            comparer.add(_without(wanted, kept), _without(found, kept))
            result = comparer.result()
            apart = result.missing or any(output.shape_problem for output in result.outputs)
            if apart or not all(map(shipped.limits.kept_by, result.outputs)):
                return
        yield _without(wanted, kept)


def _without(arrays: Mapping[str, Array], names: set[str]) -> Arrays:
    return {name: array for name, array in arrays.items() if name not in names}


def _item(step: Step, length: int, expected: Arrays) -> Item:
    name = f"sequence {step.sequence}, step {step.number + 1}: {step.sample.name}"
    flags = {"id": step.sequence, **flags_of(step, length)}
    return Item(name, step.sample.feeds, expected, flags)


def with_steps(shipped: Shipped, items: Sequence[Item], notes: Sequence[str]) -> Shipped:
    """The same samples' facts, with steps in their place.

    Args:
        shipped: The samples, and what is known of them.
        items: The steps.
        notes: What the report has to say of them.
    """
    return replace(shipped, items=tuple(items), of=len(items), notes=tuple(notes))
