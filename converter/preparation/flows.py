"""Several models from one file to one answer, as a flow declares it.

    flow = Flow(steps, models)
    answer = flow.ask(item)      # {"detect": {"boxes": [{"box": ..., "read": {"text": ...}}]}}

Like :mod:`stages`, which it needs beside it, it imports nothing of ours, so that packages may hold
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from converter.preparation.staged.base import Item, Seen
from converter.preparation.staged.pictures import open_picture
from converter.preparation.staged.sounds import as_wave, decoded
from converter.preparation.stages import Stages

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Known = Mapping[str, Any]

BATCH = 8
"""Rows that run together, at most."""


@dataclass(frozen=True)
class Part:
    """A model of a flow.

    Attributes:
        stages: What prepares its inputs, and makes answers.
        run: Outputs by name of inputs by name.
        batched: Whether rows may run together.
    """

    stages: Stages
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]]
    batched: bool = False


class Flow:
    """What a flow says, done.

    Args:
        steps: See :class:`converter.preparation.flow.FlowStep`, as JSON.
        parts: The models by the parts' names.
    """

    def __init__(self, steps: Sequence[Known], parts: Mapping[str, Part]) -> None:
        self._steps, self._parts = steps, parts

    def ask(self, item: Item) -> dict[str, Any]:
        """The answer to a file: of each step by its name; of one that is done for each box or
        segment, with that.

        Raises:
            StageError: The file can't be prepared.
        """
        told: dict[str, Any] = {}
        whole: Any = None
        given: dict[str, tuple[Arrays, Seen]] = {}
        taken = {step["takes"] for step in self._steps}
        for step in self._steps:
            part, each = self._parts[step["part"]], step["each"]
            if not each:
                if _holds(step["when"], told, {}) and step["takes"] in ("", *given):
                    answer, given[step["name"]] = self._one(part, item, given.get(step["takes"]))
                    if step["name"] not in taken or part.stages.declared["answer"]:
                        told[step["name"]] = answer
                continue
            if whole is None:
                whole = _opened(item)
            owner, _, key = each.partition(".")
            found = told.get(owner, {}).get(key, [])
            chosen = [one for one in found if _holds(step["when"], told, {**one, owner: one})]
            chosen = chosen[: step["most"]]
            cuts = [_cut(whole, one, item) for one in chosen]
            for one, answer in zip(chosen, self._several(part, cuts), strict=True):
                one[step["name"]] = answer
        return told

    def _one(
        self, part: Part, item: Item, taken: tuple[Arrays, Seen] | None
    ) -> tuple[dict[str, Any], tuple[Arrays, Seen]]:
        """An answer, and what another part takes: the outputs, and what was seen of the file."""
        if taken is None:
            feeds, seen = part.stages.prepare(item)
        else:
            feeds, seen = part.stages.stored(taken[0]), taken[1]
        outputs = part.stages.run(part.run, feeds)
        return part.stages.answer(outputs, seen), (part.stages.real(outputs), seen)

    def _several(self, part: Part, items: Sequence[Item]) -> Iterator[dict[str, Any]]:
        """The answers to parts of a file, those of one row and one shape together where the model
        takes batches."""
        prepared = [part.stages.prepare(item) for item in items]
        answers: list[dict[str, Any]] = [{}] * len(items)
        rows = all(len(array) == 1 for feeds, _ in prepared for array in feeds.values())
        batch = BATCH if part.batched and rows and not part.stages.in_turn else 1
        for group in _groups([feeds for feeds, _ in prepared], batch):
            first = prepared[group[0]][0]
            if len(group) > 1:
                first = {n: np.concatenate([prepared[i][0][n] for i in group]) for n in first}
            outputs = part.stages.run(part.run, first)
            for row, number in enumerate(group):
                own = {
                    name: array[row : row + 1] if len(group) > 1 else array
                    for name, array in outputs.items()
                }
                answers[number] = part.stages.answer(own, prepared[number][1])
        yield from answers


def _opened(item: Item) -> Any:
    """Pillow's image of a picture; a sound as it is, and its samples a second.

    Raises:
        StageError: It can't be read, or is neither.
    """
    if item.kind == "sound":
        return decoded(item.data, item.name)
    file = BytesIO(item.data) if isinstance(item.data, bytes) else item.data
    return open_picture(file, item.name)


def _cut(whole: Any, one: Known, item: Item) -> Item:
    """A box of a picture, or a segment of a sound, as a file of its own."""
    if item.kind != "sound":
        return Item("picture", whole.crop(_bounds(one["box"], whole.size)), item.name)
    wave, rate = whole
    first, last = (round(one[end] * rate) for end in ("start", "end"))
    return Item("sound", as_wave(wave[first : max(last, first + 1)], rate), item.name)


def _groups(feeds: Sequence[Arrays], most: int) -> list[list[int]]:
    """Numbers of those of equal shapes, in order."""
    groups: dict[Any, list[list[int]]] = {}
    for number, arrays in enumerate(feeds):
        shapes = tuple(array.shape for array in arrays.values())
        known = groups.setdefault(shapes, [[]])
        if len(known[-1]) == most:
            known.append([])
        known[-1].append(number)
    return [group for known in groups.values() for group in known]


def _holds(when: Known, told: Known, one: Known) -> bool:
    """Whether each of these steps says that: of the box or segment ``one``, or else of the file."""
    return all(_says(one.get(name, told.get(name)), asked) for name, asked in when.items())


def _says(answer: Any, asked: Any) -> bool:
    if isinstance(asked, str):
        return _label(answer) == asked
    value = _number(answer, asked["number"])
    low, high = asked["above"], asked["below"]
    return (
        (not asked["label"] or _label(answer) == asked["label"])
        and (low is None or (value is not None and value > low))
        and (high is None or (value is not None and value < high))
    )


def _best(answer: Any) -> Known:
    """The best class of an answer; what it says itself where it is a box."""
    found = (answer or {}).get("classes") or [answer or {}]
    best: Known = found[0] if isinstance(found[0], Mapping) else {}
    return best


def _label(answer: Any) -> str:
    """The best class of an answer; empty where it has none."""
    return str(_best(answer).get("label", _best(answer).get("index", "")))


def _number(answer: Any, name: str) -> float | None:
    """An answer's number of that name, or its one; else its score, the best class's where it has
    classes."""
    numbers = (answer or {}).get("numbers")
    if numbers is None:
        return _best(answer).get("score")
    values = numbers if isinstance(numbers, Mapping) else dict(enumerate(numbers))
    found = values.get(name) if name else next(iter(values.values()), None)
    return found if isinstance(found, (int, float)) else None


def _bounds(box: Sequence[float], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Whole pixels of a box, at least one."""
    first = zip(box[:2], size, strict=True)
    left, top = (min(max(int(np.floor(v)), 0), side - 1) for v, side in first)
    right, bottom = (
        max(min(int(np.ceil(v)), side), start + 1)
        for v, side, start in zip(box[2:], size, (left, top), strict=True)
    )
    return left, top, right, bottom
