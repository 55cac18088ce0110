"""What samples are: a stream of inputs that can be read again and again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.ir.model import BATCH, Model, TensorSpec
from converter.preparation.inputs import Picture
from converter.preparation.staged.base import Seen

Array = np.ndarray[Any, Any]

Tokens = list[dict[str, list[int]]]
Tokenize = Callable[[Sequence[str], Sequence[str] | None, int | None, bool], Tokens]
"""Texts, their pairs, the longest sequence (None: the tokenizer's own) and whether all are padded
to it; gives for each text its numbers by the tokenizer's names, as ``input_ids``."""


@dataclass(frozen=True)
class Sample:
    """One set of inputs.

    Attributes:
        name: What messages and reports call it; never a path.
        feeds: Read-only arrays by input name, of the model's full rank: a batch of 1 where its
            batch is free, a batch of B where it is fixed to B.
        label: Its label where there is one; with a fixed batch of B > 1, an array of B labels.
        seen: Where a picture's pixels came from; None of others.
    """

    name: str
    feeds: dict[str, Array]
    label: Any = None
    seen: Seen | None = None


class Samples(ABC):
    """A set of samples, read one at a time: memory doesn't grow with their number.

    Iterating again gives the same samples. Where one turns out not to be usable (NaN, a file
    that is truncated), iterating raises UsageError; :meth:`validate` finds that early.

    Attributes:
        origin: Where they came from, for the report; never a path.
        inputs: The inputs that they were fitted to.
        random: Whether they were made up (``random:N``, or none were given).
        of_images: Whether they are images, prepared as the request says.
        picture: How an image becomes the model's input, where they are images.
        label_names: Names of the classes, where known.
        files: Path and name of what they were made of, where that are users' files.
        kind: Of these, as :mod:`converter.preparation.stages` calls it.
        states: Inputs that go from sample to sample, and are as at the start in each of these.
        skipped: What was left out since it can't be read, and why (``--skip-bad``).
        notes: What else their user should know of those that were read, a line each.
    """

    origin: str
    inputs: tuple[TensorSpec, ...] = ()
    random: bool = False
    of_images: bool = False
    picture: Picture | None = None
    label_names: tuple[str, ...] | None = None
    files: Sequence[tuple[Path, str]] = ()
    kind: str = "picture"
    states: Sequence[str] = ()
    skipped: list[str] = []  # noqa: RUF012 - who skips something has a list of its own

    @property
    def notes(self) -> Sequence[str]:
        return ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Sample]: ...

    @cached_property
    def digest(self) -> str:
        """The sha256 over the contents and over how they are prepared; the same elsewhere."""
        raise NotImplementedError

    @property
    def labelled(self) -> bool:
        """Whether every sample has a label."""
        return all(sample.label is not None for sample in self)

    @property
    def meanings(self) -> dict[str, dict[str, Any]]:
        """What the samples tell of the model's inputs: by name, fields of ``TensorSpec``."""
        return {}

    def validate(self) -> None:
        """Reads every sample once, so that a bad one is found before any long work.

        Raises:
            UsageError: A sample can't be used; it is named.
        """
        for _ in self:
            pass

    def batches(self, size: int, count: int = 1) -> Iterator[dict[str, Array]]:
        """Gives ``count`` feeds of ``size`` samples each, from the first sample on; starts over
        when there are too few. Where sizes vary, only samples shaped like the first are taken.

        Inputs without a batch dimension are the first sample's. Where the model's batch is
        fixed, ``size`` has to be that or 1, and each feed is one sample as it is.

        Raises:
            UsageError: The model takes no such batch.
        """
        axes = self._batch_axes()
        fixed = self._fixed_batch()
        if not axes and size not in (1, fixed):
            free = isinstance(fixed, int)  # which --batch dynamic leaves nowhere
            raise UsageError(
                f"the model's batch is fixed, so a batch of {size} isn't possible",
                code="batch-fixed",
                hint="Use the model's own batch" + ", or convert with --batch dynamic." * free,
            )
        alike = self._endless_alike()
        for _ in range(count):
            group = [next(alike).feeds for _ in range(size if axes else 1)]
            yield {name: _stacked(name, group, axes) for name in group[0]}

    def _endless_alike(self) -> Iterator[Sample]:
        shapes: dict[str, tuple[int, ...]] | None = None
        while True:
            for sample in self:
                found = {name: array.shape for name, array in sample.feeds.items()}
                shapes = shapes or found
                if found == shapes:
                    yield sample
            if shapes is None:
                raise UsageError("there are no samples", code="samples-missing")

    def _batch_axes(self) -> dict[str, int]:
        """The axis of the symbolic batch, by the name of each input that has one."""
        named = ((spec.name, spec.shape or ()) for spec in self.inputs)
        return {name: shape.index(BATCH) for name, shape in named if BATCH in shape}

    def _fixed_batch(self) -> int | str | None:
        first = self.inputs[0].shape if self.inputs else None
        return first[0] if first else None


def _stacked(name: str, group: list[dict[str, Array]], axes: dict[str, int]) -> Array:
    if name not in axes or len(group) == 1:
        return group[0][name]
    return np.concatenate([feeds[name] for feeds in group], axis=axes[name])


def sizes_in(model: Model, sample: Sample) -> dict[str, int]:
    """The size of each free dimension of the inputs in a sample."""
    return {
        dim: size
        for spec in model.inputs
        if spec.name in sample.feeds
        for dim, size in zip(spec.shape or (), sample.feeds[spec.name].shape, strict=False)
        if isinstance(dim, str)
    }
