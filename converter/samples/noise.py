"""Samples of models that take random numbers as inputs: drawn for each, from the seed; and of those
whose state is an input: zeros, where samples have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from converter.files.digest import digest_of
from converter.ir.model import BATCH, TensorSpec, dtype_from_name
from converter.ir.randomness import NORMAL, UNIFORM
from converter.samples.base import Array, Sample, Samples


def is_noise(spec: TensorSpec) -> bool:
    """Whether an input took the place of random numbers."""
    return spec.meaning in (NORMAL, UNIFORM)


def is_state(spec: TensorSpec) -> bool:
    """Whether an input is what a run before left."""
    return spec.meaning == "state"


class NoisySamples(Samples):
    """Samples with the random numbers and states that they lack.

    Args:
        samples: Of the other inputs.
        inputs: All of them.
        seed: What is drawn depends on it, and on which sample it is.
    """

    def __init__(self, samples: Samples, inputs: tuple[TensorSpec, ...], seed: int) -> None:
        self._samples, self._seed = samples, seed
        self.inputs = inputs
        self.origin, self.random = samples.origin, samples.random
        self.label_names = samples.label_names

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        for index, sample in enumerate(self._samples):
            drawn = np.random.default_rng([self._seed, index])
            sizes = self._sizes(sample)
            lacking = [spec for spec in self.inputs if spec.name not in sample.feeds]
            drawn_for = {spec.name: _draw(drawn, spec, sizes) for spec in lacking}
            feeds = {spec.name: {**sample.feeds, **drawn_for}[spec.name] for spec in self.inputs}
            yield replace(sample, feeds=feeds)

    @property
    def digest(self) -> str:
        """Of the samples, the seed, and what is added."""
        noise = [[spec.name, spec.describe(), spec.meaning] for spec in self.inputs]
        return digest_of([self._samples.digest, self._seed, noise])

    @property
    def labelled(self) -> bool:
        """Whether every sample has a label."""
        return self._samples.labelled

    @property
    def meanings(self) -> dict[str, dict[str, Any]]:
        """What the samples tell of the other inputs."""
        return self._samples.meanings

    @property
    def notes(self) -> Sequence[str]:
        """What is to be known of the samples of the other inputs."""
        return self._samples.notes

    def _sizes(self, sample: Sample) -> dict[str, int]:
        """The sizes of the free dimensions in a sample."""
        sizes = {BATCH: 1}
        for spec in self.inputs:
            if spec.name in sample.feeds:
                pairs = zip(spec.shape or (), sample.feeds[spec.name].shape, strict=False)
                sizes.update({dim: size for dim, size in pairs if isinstance(dim, str)})
        return sizes


def _draw(drawn: np.random.Generator, spec: TensorSpec, sizes: dict[str, int]) -> Array:
    shape = spec.sized(sizes)
    if is_state(spec):
        numbers = np.zeros(shape)
    else:
        numbers = drawn.standard_normal(shape) if spec.meaning == NORMAL else drawn.random(shape)
    made: Array = numbers.astype(dtype_from_name(spec.dtype).numpy())
    made.flags.writeable = False
    return made
