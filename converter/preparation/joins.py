"""Whether the parts of a flow fit together: what one gives, another has to take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from converter.errors import UsageError
from converter.preparation.flow import FlowStep, place_of

_GIVES = {"regions": "boxes", "boxes": "boxes", "segments": "segments", "classes": "classes",
          "numbers": "numbers", "text": "text"}  # fmt: skip
"""What of an answer other steps may ask for, by its kind."""

_CUT = {"boxes": "picture", "segments": "sound"}
"""What such things are cut out of."""

_WHOLE = ("constant", "state")
"""Kinds of preparation that take nothing of a file."""


@dataclass(frozen=True)
class Ends:
    """What is known of a part.

    Attributes:
        takes: Kinds of files; None where that isn't known yet.
        gives: What of its answer may be asked for, with the names of classes; None likewise.
    """

    takes: Collection[str] | None = None
    gives: Mapping[str, Sequence[str]] | None = None

    @classmethod
    def of(
        cls,
        prepare: Iterable[Mapping[str, Any]] | None,
        answer: Iterable[Mapping[str, Any]] | None,
    ) -> Ends:
        """Those of a declaration, as JSON; None for what may yet be filled in."""
        takes = gives = None
        if prepare is not None:
            kinds = {item.get("takes", "picture") if item["kind"] == "step" else item["kind"]
                     for item in prepare}  # fmt: skip
            takes = kinds - {*_WHOLE}
        if answer is not None:
            gives = {_GIVES[item["kind"]]: item.get("labels") or () for item in answer
                     if item["kind"] in _GIVES}  # fmt: skip
        return cls(takes, gives)


class Joins:
    """The joins of a flow, checked as soon as what they hang on is known.

    Args:
        steps: The flow.
        places: Where its file has each step.
    """

    def __init__(self, steps: Sequence[FlowStep], places: Sequence[str] = ()) -> None:
        self._steps, self._places = steps, places
        self._known: dict[str, Ends] = {}

    def declare(self, part: str, ends: Ends) -> None:
        """Says what a part takes and gives.

        Raises:
            UsageError: Parts don't fit; every step where they don't is listed.
        """
        self._known[part] = ends
        problems = [
            f"{place_of(number, self._places)}: {text}"
            for number, step in enumerate(self._steps)
            for text in self._wrong(step)
        ]
        if problems:
            raise UsageError(
                "the flow joins parts that don't fit", code="recipe-parts", details=problems
            )

    def _ends(self, part: str) -> Ends:
        return self._known.get(part, Ends())

    def _wrong(self, step: FlowStep) -> Iterator[str]:
        named = {item.name: item for item in self._steps}
        takes = self._ends(step.part).takes
        if step.takes:  # tensors, whose names and types are known when both were read
            return
        of_arrays = all(other.takes for other in self._steps[1:])
        if takes is not None and not takes and not of_arrays:
            yield (
                f"there is no description of how a file becomes the input of {step.part}: "
                "write its prepare"
            )
            return
        if step.each:
            owner, _, key = step.each.partition(".")
            yield from self._wrong_fan(step, named[owner].part, key)
        else:
            first = self._ends(self._steps[0].part).takes
            if takes and first and not {*takes} & {*first}:
                kinds = (" or ".join(sorted(kinds)) for kinds in (takes, first))
                yield "{} takes a {}, and the file is a {}".format(step.part, *kinds)
        for name, asked in step.when.items():
            yield from self._wrong_when(step, named[name], asked)

    def _wrong_fan(self, step: FlowStep, part: str, key: str) -> Iterator[str]:
        """What is wrong with a step that is done for each thing that another part finds."""
        known, takes = self._ends(part), self._ends(step.part).takes
        if known.gives is not None and key not in known.gives:
            found = ", ".join(known.gives) or "nothing that is known"
            yield f"each is {step.each}, and {part} gives {found}: write its answer"
        for name, kinds in ((part, known.takes), (step.part, takes)):
            if kinds and _CUT[key] not in kinds:
                yield (
                    f"{key} are cut out of a {_CUT[key]}, and {name} takes a "
                    f"{' or '.join(sorted(kinds))}"
                )

    def _wrong_when(self, step: FlowStep, other: FlowStep, asked: Any) -> Iterator[str]:
        """What is wrong with what a step hangs on."""
        gives = self._ends(other.part).gives
        if gives is None:
            return
        owns = step.each.partition(".")[0] == other.name
        label = asked if isinstance(asked, str) else asked.label
        named = gives.get(step.each.partition(".")[2] if owns else "classes")
        if label and named is None:
            yield f"when asks for a class of {other.name}, which gives {', '.join(gives) or 'none'}"
        elif label and named and label not in named:
            yield f"when asks for {label}, and {other.name} has no such class"
        elif not isinstance(asked, str) and not owns and not _SCORED & {*gives}:
            yield f"when asks for a score or number of {other.name}, which gives none"


_SCORED = {"classes", "text", "numbers"}
"""What has a score, or is a number."""
