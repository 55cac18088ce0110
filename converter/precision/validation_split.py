"""The validation split of calibration samples: some to learn from, the others to judge by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from converter.samples import Sample, Samples

FEWEST = 3
"""The fewest samples that say which of two methods is better on others."""

LEARNT_FROM = 5
"""The fewest that have to be left to learn from."""

EVERY = 4
"""One sample of so many is held out. They are taken from the whole length, because samples often
come in order: of the class, of time."""


class Part(Samples):
    """Some of other samples, in their order.

    Args:
        whole: The samples.
        picks: Which of them, from 0.
    """

    def __init__(self, whole: Samples, picks: Sequence[int]) -> None:
        self._whole, self._picks = whole, frozenset(picks)
        self.origin, self.inputs, self.random = whole.origin, whole.inputs, whole.random
        self.label_names = whole.label_names

    def __len__(self) -> int:
        return len(self._picks)

    def __iter__(self) -> Iterator[Sample]:
        return (sample for at, sample in enumerate(self._whole) if at in self._picks)


def validation_split(samples: Samples) -> tuple[Samples, Samples | None]:
    """Samples to learn from, and one in :data:`EVERY` (:data:`FEWEST` at least) held out.

    Where there are too few to hold any out, all are to learn from, and None is held out.
    """
    count = len(samples)
    held = max(FEWEST, count // EVERY)
    if count - held < LEARNT_FROM:
        return samples, None
    picks = {(2 * i + 1) * count // (2 * held) for i in range(held)}
    return Part(samples, [at for at in range(count) if at not in picks]), Part(
        samples, sorted(picks)
    )
