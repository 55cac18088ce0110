"""Ranges of a model's tensors, measured once over the samples, for every method and target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from converter.errors import ModelError, UsageError
from converter.ir.model import Model
from converter.precision.calibrate import thresholds
from converter.precision.calibrate.observe import BUDGET, observable, observe
from converter.precision.calibrate.tally_files import read_tallies, tallies_digest, write_tallies
from converter.precision.calibrate.tensor_observer import MOMENTUM, Tally
from converter.precision.calibrate.thresholds import PERCENTILE
from converter.runtime.session import Progress
from converter.samples import Sample, Samples

__all__ = ["METHODS", "MINIMUM", "MOMENTUM", "PERCENTILE", "Ranges", "collect"]

METHODS = ("minmax", "moving", "percentile", "entropy", "mse")
"""How limits follow from what was measured; all from one run."""

MINIMUM = 8
"""The fewest samples that ranges are measured on. Of n + 1 samples, the last holds the largest
value with a chance of 1 in n + 1: below eight, more than one range in nine is too narrow for the
very next sample."""


class Ranges:
    """Ranges of tensors by name, measured on a number of samples.

    Attributes:
        samples: How many samples they come from.
    """

    def __init__(self, tallies: dict[str, Tally], samples: int) -> None:
        self._tallies = tallies
        self._limits: dict[tuple[str, str, bool, int], tuple[float, float]] = {}
        self.samples = samples

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors, in the order they were asked for."""
        return tuple(self._tallies)

    @property
    def digest(self) -> str:
        """The sha256 over everything measured."""
        return tallies_digest(self._tallies, self.samples)

    @property
    def nonfinite(self) -> dict[str, tuple[int, str]]:
        """Tensors that held NaN or Inf: how many, and the first sample with some."""
        return {
            name: (tally.nonfinite, tally.nonfinite_sample)
            for name, tally in self._tallies.items()
            if tally.nonfinite
        }

    def __contains__(self, name: object) -> bool:
        return name in self._tallies

    def joined(self, other: Ranges) -> Ranges:
        """These and those of other tensors of the model, measured on the same samples."""
        return Ranges({**self._tallies, **other._tallies}, self.samples)

    def tally(self, name: str) -> Tally:
        """All that was measured of a tensor.

        Raises:
            KeyError: It wasn't measured.
        """
        return self._tallies[name]

    def extremes(self, name: str) -> tuple[float, float]:
        """Smallest and largest finite value of a tensor; (0, 0) where it never held one.

        Raises:
            KeyError: It wasn't measured.
        """
        found = self._tallies[name]
        return (found.low, found.high) if found.count else (0.0, 0.0)

    def limits(
        self, name: str, method: str = "minmax", *, symmetric: bool = False, bits: int = 8
    ) -> tuple[float, float]:
        """The real numbers that a quantizer's first and last step should stand for.

        Zero is always among them, because Q/DQ needs it to be exact (padding, Relu), and they
        are never closer than a usable scale allows (:func:`thresholds.covering`): a tensor that
        was zero on every sample has the range 0 to 1.

        Args:
            name: The tensor.
            method: Of :data:`METHODS`: the extremes; moving averages of each sample's extremes
                (momentum :data:`MOMENTUM`); :data:`PERCENTILE` percent of the values; the least
                loss of information; the least squared error.
            symmetric: Whether the range has to be as wide on both sides of zero.
            bits: Of the integers, for entropy and mse.

        Raises:
            KeyError: The tensor wasn't measured, or there is no such method.
        """
        key = (name, method, symmetric, bits)
        if key not in self._limits:
            self._limits[key] = self._find_limits(*key)
        return self._limits[key]

    def _find_limits(
        self, name: str, method: str, symmetric: bool, bits: int
    ) -> tuple[float, float]:
        if method not in METHODS:
            raise KeyError(f"{method}: not a method of calibration; there are {', '.join(METHODS)}")
        extremes, tally = self.extremes(name), self._tallies[name]
        low, high = extremes
        if method == "moving" and tally.moving is not None:
            low, high = tally.moving
        elif method == "percentile" and tally.count:
            low, high = thresholds.by_percentile(tally.histogram, extremes, symmetric=symmetric)
        elif method == "entropy":
            low, high = thresholds.by_entropy(
                tally.histogram, extremes, symmetric=symmetric, bits=bits
            )
        elif method == "mse" and tally.count:
            low, high = thresholds.by_squared_error(
                tally.histogram, extremes, symmetric=symmetric, bits=bits
            )
        return thresholds.covering(low, high, symmetric)

    # -- files ---------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes the ranges into ``folder``, which is made where it isn't there.

        Raises:
            UsageError, MachineError: They can't be written.
        """
        write_tallies(folder, self._tallies, self.samples)

    @classmethod
    def load(cls, folder: Path) -> Ranges | None:
        """What :meth:`save` wrote; None where there is nothing, or it is damaged."""
        found = read_tallies(folder)
        return None if found is None else cls(*found)


def collect(
    model: Model,
    samples: Samples,
    names: Collection[str] | None = None,
    *,
    few: bool = False,
    folder: Path | None = None,
    progress: Progress | None = None,
    strict: bool = True,
    budget: int = BUDGET,
) -> Ranges:
    """Measures ranges of tensors over all samples, each run once for each part of the tensors.

    Args:
        model: Left as it is.
        samples: All of them are used. The result depends on their order in the moving averages
            alone, and in nothing on how memory was divided.
        names: Tensors of the main graph and of bodies; None for all float tensors that depend on
            the model's inputs. Those of bodies that too few samples run aren't in the result.
        few: Whether less than :data:`MINIMUM` samples will do.
        folder: Where the result is read from if it is there, and else written to. The name has
            to stand for everything it depends on.
        progress: Told which sample runs.
        strict: Whether NaN or Inf in a tensor is an error; else see :attr:`Ranges.nonfinite`.
            Limits are those of the finite values.
        budget: Bytes of tensors to ask for in one run.

    Raises:
        UsageError: There are too few samples, or one holds NaN or Inf.
        ModelError: The model computes NaN or Inf (all tensors are listed), has no such tensor,
            or doesn't run.
    """
    wanted = tuple(dict.fromkeys(names)) if names is not None else tuple(observable(model))
    ranges = Ranges.load(folder) if folder else None
    if ranges is None or not _holds(ranges, wanted, model) or ranges.samples != len(samples):
        _require_enough(len(samples), few)
        tallies = {name: Tally() for name in wanted}
        seen: Counter[str] = Counter()

        def add(sample: Sample, name: str, array: Any) -> None:
            tallies[name].add(sample.name, array)
            seen[name] += 1

        observe(model, samples, wanted, add, budget=budget, progress=progress)
        least = 1 if few else MINIMUM
        ranges = Ranges({n: t for n, t in tallies.items() if seen[n] >= least}, len(samples))
        if folder:
            ranges.save(folder)
    if strict:
        _require_finite(ranges)
    return ranges


def _holds(ranges: Ranges, wanted: tuple[str, ...], model: Model) -> bool:
    """Whether ranges are those of these tensors, but for some in bodies that didn't run."""
    graph = model.graph.graph
    main = {value.name for node in graph for value in node.outputs}
    main.update(value.name for value in graph.inputs)
    there = all(name in ranges for name in wanted if name in main)
    return there and ranges.names == tuple(name for name in wanted if name in ranges)


def _require_enough(count: int, few: bool) -> None:
    if count < (1 if few else MINIMUM):
        raise UsageError(
            f"measuring ranges: {count} samples are too few, at least {MINIMUM} are needed",
            code="samples-count",
            hint="Give more samples. --few-samples accepts these." if count else "Give samples.",
        )


def _require_finite(ranges: Ranges) -> None:
    bad = [
        f"{name}: {count} values, first in sample {sample}"
        for name, (count, sample) in ranges.nonfinite.items()
    ]
    if bad:
        raise ModelError(
            f"measuring ranges: {len(bad)} tensors hold NaN or Inf",
            code="not-finite",
            details=bad,
            hint="Find the first tensor that holds them, or leave those samples out.",
        )
