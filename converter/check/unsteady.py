"""Samples on which rounding decides: what the source gives for them, moved in their last places.

A detector chooses: of two proposals of one score to rounding, another runtime keeps the other, and
boxes and masks are made of that one. Nothing of it shows in the outputs. So a difference counts as
rounding only where it is proven: for the sample with rounding added the source gives, within all
limits, what the artifact gave; that is then what the artifact is compared with. A framework may
round on the way too: equal values stay equal whatever the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from converter.check.accuracy import comparer_for
from converter.check.gates import Limits
from converter.check.matching import Matching
from converter.check.sums import Array
from converter.errors import ModelyardError
from converter.ir.model import TensorSpec
from converter.plugins import Roundable, Session
from converter.samples import Sample
from converter.verify.rounding import rounded

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
        self.proven: list[str] = []

    def reference(self, sample: Sample, expected: Outputs, found: Outputs) -> Outputs:
        """``expected``, or what the source gives for the sample with rounding added.

        A sample that rounding doesn't explain misses a gate: no more are looked into then.
        """
        if not self._sought or self._kept(expected, found):
            return expected
        for seed in range(ATTEMPTS):
            with suppress(ModelyardError):  # it takes no such values: another seed's then
                other = _rounded(self._source(), sample, seed)
                if self._kept(other, found):
                    self.proven.append(sample.name)
                    return other
        self._sought = False
        return expected

    def _kept(self, expected: Outputs, found: Outputs) -> bool:
        comparer = comparer_for(self._outputs, self._matching)
        comparer.add(expected, found)
        outputs = comparer.result().outputs
        return all(self._limits.kept_by(o) and not o.shape_problem for o in outputs)


def _rounded(source: Session, sample: Sample, seed: int) -> Outputs:
    if isinstance(source, Roundable):
        return source.run_rounded(sample.feeds, seed)
    return source.run(rounded(sample.feeds, seed))
