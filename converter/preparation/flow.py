"""How parts are joined, as data: ``flow:`` in a recipe, beside its ``parts:``.

flow:
  - part: detect                              # takes the file
  - {part: read, each: detect.boxes}          # takes each box that it found, cut out
  - {part: name, each: detect.boxes, when: {kind: cat}}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from converter.errors import UsageError

_Kind = TypeVar("_Kind")

_FANS = ("boxes", "segments")
"""What of an answer a step may be done for each of: of a picture, of a sound."""


class FlowStep(BaseModel):
    """A part at work.

    Attributes:
        part: Which part.
        name: What the answer calls it; the part's own name where nothing is said.
        each: ``STEP.boxes``: it is done for each box that an earlier step found, cut out of the
            picture; ``STEP.segments``: for each segment, cut out of the sound; else once, with the
            file.
        when: Earlier steps, and the label that the best class of each has to have, or it isn't
            done.
        most: Boxes or segments that it is done for, the first ones.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: str
    name: str = ""
    each: str = ""
    when: dict[str, str] = {}
    most: int = Field(default=1000, ge=1)


def flow_of(
    written: Sequence[Any], parts: Collection[str], where: str = "the request"
) -> tuple[FlowStep, ...]:
    """The steps of a flow.

    Args:
        written: As people wrote it.
        parts: The names of the parts.
        where: What it is from, for messages.

    Raises:
        UsageError: A part isn't there, a step stands before what it needs, two have one name, or a
            part is of no step; all problems are listed.
    """
    steps: list[FlowStep] = []
    problems: list[str] = [] if isinstance(written, list) else ["it is no list of steps"]
    for number, item in enumerate(written if isinstance(written, list) else (), 1):
        try:
            step = FlowStep.model_validate({"part": item} if isinstance(item, str) else item)
        except ValidationError as error:
            problems += (
                f"step {number}: {'.'.join(map(str, one['loc']))}: {one['msg']}"
                for one in error.errors()
            )
            continue
        step = step.model_copy(update={"name": step.name or step.part})
        problems += (f"step {number}: {text}" for text in _wrong(step, steps, parts))
        steps.append(step)
    idle = set(parts) - {step.part for step in steps} if not problems else ()
    problems += (f"the part {name} is of no step" for name in sorted(idle))
    if problems:
        raise UsageError(f"{where} has a flow that isn't right", details=problems)
    return tuple(steps)


def _wrong(step: FlowStep, before: Sequence[FlowStep], parts: Collection[str]) -> list[str]:
    """What is wrong with a step, by those before it."""
    known = {item.name: item for item in before}
    found = []
    if step.part not in parts:
        found.append(f"there is no part {step.part}; there are {', '.join(parts)}")
    if step.name in known:
        found.append(f"an earlier step is called {step.name}, too: give it another name")
    owner, _, key = step.each.partition(".")
    if step.each and (owner not in known or key not in _FANS):
        ways = [f"{name}.{one}" for name, item in known.items() if not item.each for one in _FANS]
        found.append(f"each is {step.each}; it is one of {', '.join(ways) or 'no earlier step'}")
    elif step.each and known[owner].each:
        found.append(
            f"each is {step.each}, and {owner} is done for each of {known[owner].each} itself"
        )
    for name in step.when:
        if name not in known:
            found.append(f"when names {name}, which is no earlier step")
        elif known[name].each not in ("", step.each):
            found.append(f"when names {name}, which is done for each of {known[name].each}")
    return found


def combinations(made: Mapping[str, Mapping[_Kind, Any]]) -> list[dict[str, _Kind]]:
    """What of the parts runs together: of every kind that all have, those; where there is none, the
    only one of each.

    Args:
        made: Of each part, what there is by its kind.
    """
    first, *others = made.values()
    shared = [kind for kind in first if all(kind in own for own in others)]
    if shared:
        return [dict.fromkeys(made, kind) for kind in shared]
    if all(len(own) == 1 for own in made.values()):
        return [{part: next(iter(own)) for part, own in made.items()}]
    return []
