"""Which samples go along with an artifact, for whoever compares it where it runs.

Whoever runs them has the artifact, the samples and what the source gave, and nothing to prove more
with. So only such samples go along on which the artifact, checked here, kept to the limits that
outputs have: alone, and together with those before. One on which rounding decides
(:mod:`converter.check.unsteady`) stays at home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from converter.check.accuracy import comparer_for
from converter.check.matching import Matching
from converter.check.metrics import Outputs
from converter.check.reference import ReferenceOutputs
from converter.check.sums import Array
from converter.ir.model import TensorSpec
from converter.preparation.declared import Declaration
from converter.samples.base import Samples
from converter.text import words

if TYPE_CHECKING:
    from converter.check.gates import Limits
    from converter.ir.lists import Rows

COUNT = 4
"""Samples that go along, at most."""

LARGEST = 16 << 20
"""Bytes that all but the first take at most, with what the source gave for them."""

LOOKED_AT = 64
"""Samples among which those are found."""


@dataclass(frozen=True)
class Item:
    """A sample that goes along.

    Attributes:
        name: The sample's.
        feeds: What the source took, by input.
        expected: What the source gave, by output; empty where the check was left out.
        sequence: Of a step in a sequence of requests: the sequence's number as ``id``, ``start``
            and ``end``; empty where requests stand alone.
    """

    name: str
    feeds: dict[str, Array]
    expected: dict[str, Array]
    sequence: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Shipped:
    """Samples that go along with an artifact, and what is known of them.

    Attributes:
        items: The samples.
        limits: What the artifact's outputs are held to.
        outputs: The source's, with what is known of their values.
        lists: Which of them are lists of found things.
        reference: What gave the expected outputs: a name and version; empty without a check.
        origin: Where the samples came from.
        of: How many there were.
        random: Whether they were made up.
        of_images: Whether they were pictures.
        label_names: Names of classes that came with them.
        texts: How a text becomes the inputs: ``file``, the tokenizer's that goes along, ``longest``
            and ``pad``, how many tokens it is cut to and the one that fills up, or None; empty
            where no tokenizer goes along.
        notes: What was left out, and why.
        declared: How users' files become the model's inputs, and its outputs answers; None where
            nothing is known.
    """

    items: tuple[Item, ...]
    limits: Limits
    outputs: tuple[TensorSpec, ...]
    lists: tuple[Rows, ...] = ()
    reference: str = ""
    origin: str = ""
    of: int = 0
    random: bool = False
    of_images: bool = False
    label_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    texts: Mapping[str, Any] = field(default_factory=dict)
    declared: Declaration | None = None

    @property
    def gates(self) -> dict[str, float | None]:
        """The limits by name: ``cosine``, ``scale``, ``max_abs``, and ``ties``, by which share
        scores of lists may differ that tie."""
        limits = self.limits
        ties = Matching.of(self.lists, limits.cosine).ties
        known = {"cosine": limits.cosine, "scale": limits.scale, "max_abs": limits.max_abs}
        return {**known, "ties": ties}


@dataclass(frozen=True)
class Chosen:
    """Which samples go along.

    Attributes:
        numbers: Theirs, in order.
        notes: Why others don't.
    """

    numbers: tuple[int, ...]
    notes: tuple[str, ...] = ()


def choose(
    samples: Samples,
    limits: Limits,
    outputs: Sequence[TensorSpec],
    lists: Sequence[Rows],
    compared: tuple[ReferenceOutputs, ReferenceOutputs],
    unsteady: Sequence[str] = (),
) -> Chosen:
    """Chooses by what a check found.

    Args:
        samples: All there are.
        limits: The artifact's.
        outputs: The source's outputs, with what is known of their values.
        lists: Which of them are lists of found things.
        compared: The source's outputs on the samples, and the artifact's.
        unsteady: Names of samples on which rounding decides.
    """
    reference, found = compared
    matching = Matching.of(lists, limits.cosine)

    def kept(pairs: Sequence[tuple[Outputs, Outputs]]) -> bool:
        comparer = comparer_for(outputs, matching)
        for pair in pairs:
            comparer.add(*pair)
        result = comparer.result()
        apart = result.missing or any(output.shape_problem for output in result.outputs)
        return not apart and all(map(limits.kept_by, result.outputs))

    numbers: list[int] = []
    pairs: list[tuple[Outputs, Outputs]] = []
    notes: list[str] = []
    size = 0
    for number, sample in enumerate(islice(samples, LOOKED_AT)):
        if sample.name in unsteady:
            notes.append(f"{sample.name} doesn't go along: rounding decides on it")
            continue
        pair = reference[number], found[number]
        if not kept([pair]) or (pairs and not kept([*pairs, pair])):
            notes.append(f"{sample.name} isn't in the package: by itself, it misses a limit")
        else:
            size += _size(sample.feeds) + _size(pair[0])
            if numbers and size > LARGEST:
                break
            numbers.append(number)
            pairs.append(pair)
            if len(numbers) == COUNT:
                break
    return Chosen(tuple(numbers), tuple(notes))


def ship(
    samples: Samples,
    limits: Limits,
    outputs: Sequence[TensorSpec],
    lists: Sequence[Rows],
    reference: ReferenceOutputs | None = None,
    chosen: Chosen | None = None,
) -> Shipped:
    """The samples that were chosen; the first ones where nothing was checked.

    Args:
        samples: All there are.
        limits: The artifact's, which go along.
        outputs: The source's outputs, with what is known of their values.
        lists: Which of them are lists of found things.
        reference: The source's outputs on the samples; None where the check was left out.
        chosen: What :func:`choose` chose; None where nothing was checked.
    """
    numbers = chosen.numbers if chosen else tuple(range(COUNT))
    items: list[Item] = []
    size = 0
    for number, sample in enumerate(islice(samples, max(numbers, default=-1) + 1)):
        size += 0 if chosen else _size(sample.feeds)
        if number in numbers and not (items and size > LARGEST):
            expected = reference[number] if reference else {}
            items.append(Item(sample.name, sample.feeds, expected))
    return Shipped(
        tuple(items),
        limits,
        tuple(outputs),
        tuple(lists),
        words.runtime(reference.runtime) if reference else "",
        samples.origin,
        len(samples),
        samples.random,
        samples.of_images,
        samples.label_names,
        chosen.notes if chosen else (),
    )


def _size(arrays: Mapping[str, Array]) -> int:
    return sum(array.nbytes for array in arrays.values())
