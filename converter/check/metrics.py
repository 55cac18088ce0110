"""Compares a candidate's outputs with a reference's, one sample at a time.

All sums are kept in float64 and scaled by powers of two, so that neither large nor tiny
values overflow or vanish. For the values of one output, with r the reference's, c the
candidate's, and sums over the positions where both are finite:

* absolute error: ``|c - r|``
* relative error: ``|c - r| / max(|r|, max|r| / 1000)``, the maximum over the sample. A value
  under a thousandth of the largest is measured against that thousandth: being off by a hair
  near zero is no large error. Where all of r is zero: 0 where c is zero too, else 1.
* cosine: ``sum(r c) / sqrt(sum(r^2) sum(c^2))``; 1 for two zero vectors, 0 where
  only one is zero; none of what holds nothing finite. It doesn't see scale: hence
  ``norm_ratio = sqrt(sum(c^2) / sum(r^2))``.
  Of a single number it says no more than whether the sign is right: hence ``cosine_all``,
  over the values of all samples together.
* SQNR in dB: ``10 log10(sum(r^2) / sum((c - r)^2))`` over all samples; None where either
  sum is zero (nothing lost, or nothing there to lose).

Integers that stand for real numbers (a scale and a zero point are known) are compared as those.

Rows of lists of found things that tie are compared where the reference has them
(:mod:`converter.check.matching`).

Every number in a result is finite or None, so that it can stand in JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from converter.check.comparison import Comparison
from converter.check.matching import Matched, Matching
from converter.check.output_comparer import OutputComparer
from converter.check.sums import Array

Outputs = Mapping[str, Array]


class Comparer:
    """Compares outputs sample by sample; memory doesn't grow with their size.

    Args:
        scores: Names of outputs known to be scores; others of the shape [N, C] with C >= 2
            are taken for scores too.
        ranges: The largest magnitude that an output can have, where its range is known: 1 for
            a probability.
        scales: Scale and zero point of the outputs whose integers stand for real numbers.
        matching: Which outputs are lists, whose rows may be in another order where they tie.
        ordered: Whether outputs have an order on both sides.
    """

    def __init__(
        self,
        scores: Collection[str] = (),
        ranges: Mapping[str, float] | None = None,
        scales: Mapping[str, tuple[float, int]] | None = None,
        matching: Matching | None = None,
        ordered: bool = False,
    ) -> None:
        self._scores = frozenset(scores)
        self._ranges = dict(ranges or {})
        self._scales = dict(scales or {})
        self._matching = matching or Matching()
        self._lists = {name: rows.axis for rows in self._matching.lists for name in rows.outputs}
        self._outputs: dict[str, OutputComparer] = {}
        self._missing: dict[str, None] = {}
        self._unexpected: dict[str, None] = {}
        self._ordered, self._reordered = ordered, tuple[str, ...]()
        self._samples = 0

    def add(self, reference: Outputs, candidate: Outputs, sample: str = "") -> None:
        """Compares one sample's outputs.

        Args:
            reference: The source's arrays, by output name.
            candidate: The artifact's arrays, by output name; missing and additional names are
                counted.
            sample: The sample's name, for the report; empty for its number.
        """
        self._samples += 1
        self._missing.update(dict.fromkeys(name for name in reference if name not in candidate))
        self._unexpected.update(dict.fromkeys(name for name in candidate if name not in reference))
        if self._ordered and [n for n in candidate if n in reference] != [
            n for n in reference if n in candidate
        ]:
            self._reordered = tuple(candidate)
        reference = {name: np.asarray(array) for name, array in reference.items()}
        candidate = {name: np.asarray(array) for name, array in candidate.items()}
        lists: dict[str, Matched] = {}
        for found in list(self._matching.matched(reference, candidate)):
            candidate.update(found.arrays)
            lists.update(dict.fromkeys(found.outputs, found))
        for name, r in reference.items():
            if name not in candidate:
                continue
            c = candidate[name]
            if name not in self._outputs:
                self._outputs[name] = OutputComparer(
                    name,
                    r,
                    c,
                    scores=name in self._scores,
                    range=self._ranges.get(name, 0.0),
                    scale=self._scales.get(name),
                    listed=self._lists.get(name),
                )
            self._outputs[name].add(r, c, sample or f"sample {self._samples}", lists.get(name))

    def add_row(self, reference: Outputs, candidate: Outputs) -> None:
        """Has another row count where errors stand beside variation, and nowhere else."""
        for name, output in self._outputs.items():
            if name in reference and name in candidate:
                output.add_row(np.asarray(reference[name]), np.asarray(candidate[name]))

    def result(self) -> Comparison:
        """What there is to say of all samples so far."""
        return Comparison(
            self._samples,
            tuple(output.result() for output in self._outputs.values()),
            tuple(self._missing),
            tuple(self._unexpected),
            self._reordered,
        )


def compare(reference: Outputs, candidate: Outputs) -> Comparison:
    """The comparison of one set of outputs."""
    comparer = Comparer()
    comparer.add(reference, candidate)
    return comparer.result()
