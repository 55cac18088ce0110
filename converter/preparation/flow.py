"""How parts are joined, as data: ``flow:`` in a recipe, beside its ``parts:``.

flow:
  - part: detect                              # takes the file
  - {part: read, each: detect.boxes}          # takes each box that it found, cut out
  - {part: kind, each: detect.boxes, when: {detect: animal}}
  - {part: name, each: detect.boxes, when: {kind: {label: cat, above: 0.8}}}

Or a part takes what another gives, by the names of the tensors:

flow: [device, {part: cloud, takes: device}]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from converter.errors import UsageError

_Kind = TypeVar("_Kind")

_FANS = ("boxes", "segments")
"""What of an answer a step may be done for each of: of a picture, of a sound."""


class When(BaseModel):
    """What an earlier step has to say; all that is given of it.

    Attributes:
        label: The best class's.
        above, below: What its score, or its number, has to be above and below.
        number: Which of several numbers that is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str = ""
    above: float | None = None
    below: float | None = None
    number: str = ""

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if not self.label and self.above is None and self.below is None:
            raise ValueError("give a label, above or below")
        return self


class FlowStep(BaseModel):
    """A part at work.

    Attributes:
        part: Which part.
        name: What the answer calls it; the part's own name where nothing is said.
        each: ``STEP.boxes``: it is done for each box that an earlier step found, cut out of the
            picture; ``STEP.segments``: for each segment, cut out of the sound; else once, with the
            file.
        takes: An earlier step, whose outputs are this part's inputs, by name.
        when: Earlier steps, and the label that the best class of each has to have, or more, or it
            isn't done. The step that it is done for each of stands for the box or segment itself.
        most: Boxes or segments that it is done for, the first ones.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: str
    name: str = ""
    each: str = ""
    takes: str = ""
    when: dict[str, str | When] = {}
    most: int = Field(default=1000, ge=1)


def place_of(number: int, places: Sequence[str]) -> str:
    """``r.yaml, line 12, step 2``, of a step's index; without the line where nobody knows it."""
    step = f"step {number + 1}"
    return f"{places[number]}, {step}" if number < len(places) else step


def flow_of(
    written: Sequence[Any],
    parts: Collection[str],
    where: str = "the request",
    places: Sequence[str] = (),
) -> tuple[FlowStep, ...]:
    """The steps of a flow.

    Args:
        written: As people wrote it.
        parts: The names of the parts.
        where: What it is from, for messages.
        places: Where its file has each step, for messages.

    Raises:
        UsageError: A part isn't there, a step stands before what it needs, two have one name, or a
            part is of no step; all problems are listed.
    """
    steps: list[FlowStep] = []
    problems: list[str] = [] if isinstance(written, list) else ["it isn't a list of steps"]
    later = list(map(_called, written)) if isinstance(written, list) else []
    for number, item in enumerate(written if isinstance(written, list) else ()):
        place = place_of(number, places)
        try:
            step = FlowStep.model_validate({"part": item} if isinstance(item, str) else item)
        except ValidationError as error:
            problems += (
                f"{place}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
            )
            continue
        step = step.model_copy(update={"name": step.name or step.part})
        problems += (f"{place}: {text}" for text in _wrong(step, steps, parts, later[number:]))
        steps.append(step)
    idle = set(parts) - {step.part for step in steps} if not problems else ()
    problems += (f"no step has the part {name}" for name in sorted(idle))
    if problems:
        raise UsageError(
            f"{where} has a flow that isn't right", code="recipe-parts", details=problems
        )
    return tuple(steps)


def _called(written: Any) -> Any:
    """What a step is called, as far as that can be told before it is read."""
    return (written.get("name") or written.get("part")) if isinstance(written, dict) else written


def _wrong(
    step: FlowStep, before: Sequence[FlowStep], parts: Collection[str], later: Sequence[Any]
) -> list[str]:
    """What is wrong with a step, by those before it; ``later``: what it and those behind it are
    called."""
    known = {item.name: item for item in before}
    found = []
    if step.part not in parts:
        found.append(f"there is no part {step.part}; there are {', '.join(parts)}")
    if step.name in known:
        found.append(f"an earlier step is called {step.name}, too: give it another name")
    owner, _, key = step.each.partition(".")
    if back := [name for name in (owner, *step.when) if name not in known and name in later]:
        found.append(
            f"it needs {back[0]}, which is {'itself' if back[0] == step.name else 'a later step'}: "
            "steps are done in order, and none goes back"
        )
        return found
    if step.each and (owner not in known or key not in _FANS):
        ways = [f"{name}.{one}" for name, item in known.items() if not item.each for one in _FANS]
        found.append(f"each is {step.each}; it is one of {', '.join(ways) or 'no earlier step'}")
    elif step.each and known[owner].each:
        found.append(
            f"each is {step.each}, and {owner} is done for each of {known[owner].each} itself"
        )
    if step.takes and (step.takes not in known or known[step.takes].each or step.each):
        ways = [name for name, item in known.items() if not item.each]
        found.append(f"takes is {step.takes}; it is one of {', '.join(ways) or 'no earlier step'}"
                     + ", and stands without each" * bool(step.each))  # fmt: skip
    for name in step.when:
        if name not in known:
            found.append(f"when names {name}, which isn't an earlier step")
        elif known[name].each not in ("", step.each):
            found.append(f"when names {name}, which is done for each of {known[name].each}")
    return found


def _precision(kind: Any) -> Any:
    """That of a target and a precision; a kind that is one name stands for itself."""
    return kind[1] if isinstance(kind, tuple) else kind


def combinations(made: Mapping[str, Mapping[_Kind, Any]]) -> list[dict[str, _Kind]]:
    """What of the parts runs together: of every kind that all have, those; where there is none,
    those of one precision; else the only one of each.

    Args:
        made: Of each part, what there is by its kind.
    """
    first, *others = made.values()
    shared = [kind for kind in first if all(kind in own for own in others)]
    if shared:
        return [dict.fromkeys(made, kind) for kind in shared]
    alike = [
        {part: next((other for other in own if _precision(other) == _precision(kind)), None)
         for part, own in made.items()}
        for kind in first
    ]  # fmt: skip
    found = [{part: kind for part, kind in one.items() if kind is not None} for one in alike]
    if found := [one for one in found if len(one) == len(made)]:
        return found
    if all(len(own) == 1 for own in made.values()):
        return [{part: next(iter(own)) for part, own in made.items()}]
    return []
