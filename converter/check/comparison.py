"""How a candidate's outputs compare with a reference's: what :mod:`converter.check.metrics` finds.

Every number is finite or None, so that it can stand in JSON.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from converter.check.variation import Variations

Blind = Literal["", "not finite", "empty", "zero", "constant", "one sample"]
"""Why a comparison can't tell a right candidate from a wrong one: the reference holds no finite
value, no value at all, zeros alone, or the same values on every sample (up to rounding); or
there was one sample, so that nobody knows."""


@dataclass(frozen=True)
class Place:
    """One value: the sample, its index in the output, and what stood there."""

    sample: str
    index: tuple[int, ...]
    reference: str
    candidate: str


@dataclass(frozen=True)
class SampleError:
    """How far one sample is off."""

    sample: str
    cosine: float
    max_abs: float


@dataclass(frozen=True)
class OutputResult:
    """How one output compares, over all samples; the formulas: ``converter.check.metrics``.

    Attributes:
        name: The output.
        kind: ``float`` (quantized integers too), or ``exact`` for other integers, bools and
            strings, which are compared for equality (integers' absolute errors are given too).
        reference_type, candidate_type: Their dtypes, as numpy names them.
        shape: Of the first sample.
        samples, values: How many were compared.
        equal: Share of values that are the same; NaN is the same as NaN.
        max_abs, mean_abs, max_rel, mean_rel: Errors where both are finite.
        cosine_worst, cosine_mean: Over samples.
        cosine_all, norm_ratio, sqnr_db: Over the values of all samples together.
        reference_nan, reference_inf, candidate_nan, candidate_inf: How many there are.
        introduced: Candidate's NaN and Inf where the reference is finite.
        altered: Where both are NaN or Inf, and not the same.
        vanished: Where the reference is NaN or Inf, and the candidate is finite.
        argmax_agreement: Share of rows with the same largest index; None where the output
            doesn't look like scores. At a tie in the reference, either index agrees.
        first: Where the first difference is.
        worst: Where the largest absolute error is.
        worst_samples: The samples with the smallest cosine, worst first.
        cosines: Per-sample cosines in ascending order; beyond 200 samples, evenly spaced ones,
            the worst and the best included.
        shape_problem: The first sample whose shapes differ; such samples are not compared.
        cosine_judged: The worst of the samples that differ by more than rounding.
        within_rounding: Samples that differ by no more than ``value_ranges.ROUNDING`` of the
            output's known range: a probability of 1e-7 is 0 to whoever computes it in float32.
        compared: Values that are finite in both.
        blind: Why the comparison says nothing of the conversion; empty where it does.
        rows: Rows of a list of found things (:mod:`converter.check.matching`), over all samples.
        moved: Those that stand elsewhere, among rows of equal scores; they were compared where
            the reference has them.
        integral: Whether it is exact, and no float leads to it.
        astray: An integer far out of the reference's range, and that range; empty where all of
            them are within twice its width.
        range: The largest magnitude that it can have; 0 where that isn't known.
        variation: Errors beside how much the output varies; None of what isn't float.
    """

    name: str
    kind: Literal["float", "exact"]
    reference_type: str
    candidate_type: str
    shape: tuple[int, ...]
    samples: int
    values: int
    equal: float
    max_abs: float | None
    mean_abs: float | None
    max_rel: float | None
    mean_rel: float | None
    cosine_worst: float | None
    cosine_mean: float | None
    cosine_all: float | None
    norm_ratio: float | None
    sqnr_db: float | None
    reference_nan: int = 0
    reference_inf: int = 0
    candidate_nan: int = 0
    candidate_inf: int = 0
    introduced: int = 0
    altered: int = 0
    vanished: int = 0
    argmax_agreement: float | None = None
    first: Place | None = None
    worst: Place | None = None
    worst_samples: tuple[SampleError, ...] = ()
    cosines: tuple[float, ...] = ()
    shape_problem: str = ""
    cosine_judged: float | None = None
    within_rounding: int = 0
    compared: int = 0
    blind: Blind = ""
    rows: int = 0
    moved: int = 0
    integral: bool = False
    astray: str = ""
    range: float = 0.0
    variation: Variations | None = None

    @property
    def same_type(self) -> bool:
        """Whether both have one dtype."""
        return self.reference_type == self.candidate_type

    @property
    def cosine(self) -> float | None:
        """What the gate on cosine looks at: the smaller of worst sample and all together; None
        where no value could be compared, or all are zero on both sides."""
        if self.within_rounding and self.within_rounding == self.samples:
            return math.nextafter(1.0, 0.0)  # alike, and not exactly so
        if self.norm_ratio is None and not self.max_abs:
            return None
        known = [value for value in (self.cosine_judged, self.cosine_all) if value is not None]
        return min(known) if known else None


@dataclass(frozen=True)
class Comparison:
    """How all outputs compare.

    Attributes:
        samples: How many were compared.
        outputs: One for each output that both have, in the reference's order.
        missing: Outputs that only the reference has.
        unexpected: Outputs that only the candidate has.
        reordered: The candidate's outputs, where both have an order and it isn't the same.
    """

    samples: int
    outputs: tuple[OutputResult, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    reordered: tuple[str, ...] = ()

    def knowing(self, integral: Collection[str]) -> Comparison:
        """The same, where it is known of some outputs that no float leads to them."""
        outputs = (replace(item, integral=item.name in integral) for item in self.outputs)
        return replace(self, outputs=tuple(outputs))

    def varying(self, other: Comparison) -> Comparison:
        """The same, with the errors beside variation that another has of the same outputs."""
        found = {item.name: item.variation for item in other.outputs}
        outputs = (replace(item, variation=found[item.name]) for item in self.outputs)
        return replace(self, outputs=tuple(outputs))

    @property
    def floats(self) -> tuple[OutputResult, ...]:
        return tuple(output for output in self.outputs if output.kind == "float")

    @property
    def cosine(self) -> float | None:
        """The smallest cosine over samples and float outputs."""
        return min((o.cosine for o in self.floats if o.cosine is not None), default=None)

    @property
    def max_abs(self) -> float | None:
        """The largest absolute error over float outputs."""
        return max((o.max_abs for o in self.floats if o.max_abs is not None), default=None)

    @property
    def sqnr_db(self) -> float | None:
        """The smallest SQNR over float outputs, in dB."""
        return min((o.sqnr_db for o in self.floats if o.sqnr_db is not None), default=None)
