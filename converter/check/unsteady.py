"""Rounding that decides: what the source gives for samples, moved in their last places.

A detector chooses: of two proposals of one score to rounding, another runtime keeps the other, and
boxes and masks are made of that one. Nothing of it shows in the outputs. So a difference counts as
rounding only where it is proven: for the sample with rounding added the source gives, within all
limits, what the artifact gave; that is then what the artifact is compared with. A framework may
round on the way too: equal values stay equal whatever the input.

Scores of random weights vary in their last places alone. There an error is large beside the
variation, and still rounding. What rounding proves to move in the source, value by value, is taken
off such an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from converter.check.accuracy import comparer_for
from converter.check.comparison import Comparison, OutputResult
from converter.check.gates import Limits
from converter.check.matching import Matching
from converter.check.output_gates import judge_variation
from converter.check.sums import Array, as_float, is_float
from converter.errors import ModelyardError
from converter.ir.model import TensorSpec
from converter.ir.rounding import rounded
from converter.runtime.session import Progress, Roundable, Session
from converter.samples import Sample
from converter.verify.differences import AMPLIFIED

ATTEMPTS = 8
"""Roundings that are tried for a sample."""

Outputs = Mapping[str, Array]


class Unsteady:
    """Finds what to compare an artifact's lists with.

    Args:
        source: Opens the source, where a sample needs it.
        limits: What is allowed.
        outputs: What is known of the outputs.
        matching: The lists; without any, samples are compared with what they were.

    Attributes:
        proven: The samples on which rounding decides.
    """

    def __init__(
        self,
        source: Callable[[], Session],
        limits: Limits,
        outputs: Sequence[TensorSpec],
        matching: Matching,
    ) -> None:
        self._source, self._limits = source, limits
        self._outputs, self._matching = outputs, matching
        self._sought = bool(matching.lists)
        self._chosen: set[str] = set()
        self.proven: list[str] = []

    def reference(self, sample: Sample, expected: Outputs, found: Outputs) -> Outputs:
        """What the artifact's outputs for a sample are compared with.

        A sample that rounding doesn't explain misses a gate: no more are looked into then.

        Args:
            sample: Its feeds are run again with rounding added.
            expected: What the source gave for it, by output name.
            found: What the artifact gave for it, by output name.

        Returns:
            ``expected``, or what the source gives with rounding added. Integers that tie are the
            artifact's.
        """
        expected = self._untied(sample, expected, found)
        if not self._sought or self._kept(expected, found):
            return expected
        for seed in range(ATTEMPTS):
            with suppress(ModelyardError):  # it takes no such values: another seed's then
                other = run_shaken(self._source, sample.feeds, seed)
                if self._kept(other, found):
                    self.proven.append(sample.name)
                    self._chosen.add(sample.name)
                    return other
        self._sought = False
        return expected

    def varied(self, comparison: Comparison) -> list[OutputResult]:
        """The outputs that in float32 are too far off beside how much they vary, where all else of
        all outputs is within the limits."""
        apart = comparison.missing or any(
            output.shape_problem or not self._limits.kept_by(output)
            for output in comparison.outputs
        )
        if apart or not self._limits.exact:
            return []
        return [
            output
            for output in comparison.outputs
            if not all(gate.passed for gate in judge_variation(self._limits, [output]))
        ]

    def less_rounding(
        self,
        compared: Iterable[tuple[Sample, Outputs, Outputs]],
        rows: Iterable[tuple[Outputs, Outputs]],
        names: Sequence[str],
        progress: Progress | None = None,
    ) -> Comparison | None:
        """How an artifact compares once rounding is taken off its errors.

        Args:
            compared: Each sample, what the source gave for it (as :meth:`reference` has it), and
                what the artifact gave.
            rows: What both gave on more rows, which tell how much outputs vary.
            names: The outputs whose errors rounding is taken off.
            progress: Called with each sample's name before the source runs again.

        Returns:
            None where rounding explains less than half of an output's squared error on a sample.
        """
        comparer = comparer_for(self._outputs, self._matching)
        for sample, expected, found in compared:
            if progress:
                progress(f"checking {sample.name} with rounding added to the source")
            less = self._less(sample, expected, found, names)
            if less is None:
                return None
            comparer.add(less, found, sample.name)
        for row in rows:
            comparer.add_row(*row)
        return comparer.result()

    def _less(
        self, sample: Sample, expected: Outputs, found: Outputs, names: Sequence[str]
    ) -> Outputs | None:
        """``expected`` with each value of ``names`` moved to the artifact's, by at most
        :data:`~converter.verify.differences.AMPLIFIED` times what rounding changes in the source,
        as a root mean square over runs. A run that misses a limit chose differently, and counts for
        nothing; where the artifact chose so, nothing is moved."""
        if sample.name in self._chosen:
            return expected
        found, moved = self._ordered(expected, found), list[Outputs]()
        for seed in range(ATTEMPTS):
            with suppress(ModelyardError):  # it takes no such values: another seed's then
                other = run_shaken(self._source, sample.feeds, seed)
                if self._kept(expected, other):
                    moved.append(self._ordered(expected, other))
        less = dict(expected)
        for name in names:
            arrays = [expected[name], found[name], *(each[name] for each in moved)]
            real = all(is_float(array.dtype) and array.dtype.kind != "c" for array in arrays)
            if not moved or not real or len({array.shape for array in arrays}) > 1:
                return None
            r, c, *others = map(as_float, arrays)
            with np.errstate(invalid="ignore"):  # of infinities
                most = AMPLIFIED * np.sqrt(np.mean(np.square(np.subtract(others, r)), axis=0))
                less[name] = r + np.clip(c - r, -most, most)
                left, all_of_it = (np.nansum(np.square(c - one)) for one in (less[name], r))
            if left > all_of_it / 2:
                return None
        return less

    def _ordered(self, expected: Outputs, found: Outputs) -> dict[str, Array]:
        """With the rows of lists where ``expected`` has them."""
        ordered = {name: np.asarray(array) for name, array in found.items()}
        for each in self._matching.matched(expected, found):
            ordered |= each.arrays
        return ordered

    def _untied(self, sample: Sample, expected: Outputs, found: Outputs) -> Outputs:
        """``expected`` with the artifact's integers (text, booleans) where rounding moves the
        source's own: of a tie, either is right. In float32 alone, which has to give the same."""
        listed = {name for rows in self._matching.lists for name in rows.outputs}
        apart = {
            name: np.asarray(r != found[name])
            for name, r in expected.items()
            if self._limits.exact
            and name in found
            and name not in listed
            and not is_float(r.dtype)
            and r.shape == found[name].shape
            and not np.array_equal(r, found[name])
        }
        left = {name: places.copy() for name, places in apart.items()}
        for seed in range(ATTEMPTS if apart else 0):
            with suppress(ModelyardError):
                other = run_shaken(self._source, sample.feeds, seed)
                for name in left:
                    left[name] &= np.asarray(other[name] == expected[name])
            if not any(places.any() for places in left.values()):
                break
        tied = {name: found[name] for name, places in left.items() if not places.any()}
        if not tied:
            return expected
        self.proven.append(sample.name)
        return {**expected, **tied}

    def _kept(self, expected: Outputs, found: Outputs) -> bool:
        comparer = comparer_for(self._outputs, self._matching)
        comparer.add(expected, found)
        outputs = comparer.result().outputs
        return all(self._limits.kept_by(o) and not o.shape_problem for o in outputs)


def run_shaken(source: Callable[[], Session], feeds: Outputs, seed: int) -> Outputs:
    """What a source gives with rounding added.

    Args:
        source: Opens the source, or returns the open one.
        feeds: One sample: arrays by input name.
        seed: Of the rounding: the same seed gives the same outputs.

    Raises:
        ModelyardError: It takes no such values.
    """
    session = source()
    if isinstance(session, Roundable):
        return session.run_rounded(feeds, seed)
    return session.run(rounded(feeds, seed))
