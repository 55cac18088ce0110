"""Compares a candidate's outputs with a reference's, one sample at a time.

All sums are kept in float64 and scaled by powers of two, so that neither large nor tiny
values overflow or vanish. For the values of one output, with r the reference's, c the
candidate's, and sums over the positions where both are finite:

* absolute error: ``|c - r|``
* relative error: ``|c - r| / max(|r|, max|r| / 1000)``, the maximum over the sample. A value
  under a thousandth of the largest is measured against that thousandth: being off by a hair
  near zero is no large error. Where all of r is zero: 0 where c is zero too, else 1.
* cosine: ``sum(r c) / sqrt(sum(r^2) sum(c^2))``; 1 for two zero (or empty) vectors, 0 where
  only one is zero. It doesn't see scale: hence ``norm_ratio = sqrt(sum(c^2) / sum(r^2))``.
  Of a single number it says no more than whether the sign is right: hence ``cosine_all``,
  over the values of all samples together.
* SQNR in dB: ``10 log10(sum(r^2) / sum((c - r)^2))`` over all samples; None where either
  sum is zero (nothing lost, or nothing there to lose).

Integers that stand for real numbers (a scale and a zero point are known) are compared as those.

Every number in a result is finite or None, so that it can stand in JSON.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from converter.graph.value_ranges import ROUNDING

Array = np.ndarray[Any, Any]
Outputs = Mapping[str, Array]

RELATIVE_FLOOR = 1e-3
"""Share of a sample's largest value below which relative errors are measured against it."""

CURVE_POINTS = 200
"""How many of the sorted per-sample cosines a result keeps."""

WORST_SAMPLES = 5
_LARGEST = float(np.finfo(np.float64).max)


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
    """How one output compares, over all samples; the module's docstring has the formulas.

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

    @property
    def same_type(self) -> bool:
        """Whether both have one dtype."""
        return self.reference_type == self.candidate_type

    @property
    def cosine(self) -> float | None:
        """What the gate on cosine looks at: the smaller of worst sample and all together."""
        if self.within_rounding and self.within_rounding == self.samples:
            return math.nextafter(1.0, 0.0)  # alike, and not exactly so
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
    """

    samples: int
    outputs: tuple[OutputResult, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def floats(self) -> tuple[OutputResult, ...]:
        """The floating-point outputs."""
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


class Comparer:
    """Compares outputs sample by sample; memory doesn't grow with their size.

    Args:
        scores: Names of outputs known to be scores; others of the shape [N, C] with C >= 2
            are taken for scores too.
        ranges: The largest magnitude that an output can have, where its range is known: 1 for
            a probability.
        scales: Scale and zero point of the outputs whose integers stand for real numbers.
    """

    def __init__(
        self,
        scores: Collection[str] = (),
        ranges: Mapping[str, float] | None = None,
        scales: Mapping[str, tuple[float, int]] | None = None,
    ) -> None:
        self._scores = frozenset(scores)
        self._ranges = dict(ranges or {})
        self._scales = dict(scales or {})
        self._outputs: dict[str, _OutputComparer] = {}
        self._missing: dict[str, None] = {}
        self._unexpected: dict[str, None] = {}
        self._samples = 0

    def add(self, reference: Outputs, candidate: Outputs, sample: str = "") -> None:
        """Compares one sample's outputs (arrays by name); ``sample`` is its name."""
        self._samples += 1
        self._missing.update(dict.fromkeys(name for name in reference if name not in candidate))
        self._unexpected.update(dict.fromkeys(name for name in candidate if name not in reference))
        for name in reference:
            if name not in candidate:
                continue
            r, c = np.asarray(reference[name]), np.asarray(candidate[name])
            if name not in self._outputs:
                self._outputs[name] = _OutputComparer(
                    name,
                    r,
                    c,
                    scores=name in self._scores,
                    range=self._ranges.get(name, 0.0),
                    scale=self._scales.get(name),
                )
            self._outputs[name].add(r, c, sample or f"sample {self._samples}")

    def result(self) -> Comparison:
        """What there is to say of all samples so far."""
        return Comparison(
            self._samples,
            tuple(output.result() for output in self._outputs.values()),
            tuple(self._missing),
            tuple(self._unexpected),
        )


def compare(reference: Outputs, candidate: Outputs) -> Comparison:
    """The comparison of one set of outputs."""
    comparer = Comparer()
    comparer.add(reference, candidate)
    return comparer.result()


def cosine(reference: Array, candidate: Array) -> float:
    """The cosine of two arrays of one size, as defined above, over all their values."""
    sums = _Sums()
    sums.add(_as_float(np.asarray(reference)).ravel(), _as_float(np.asarray(candidate)).ravel())
    return sums.cosine()


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether values of ``dtype`` are compared by error: floats (bfloat16 and float8 too)."""
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


def _as_float(array: Array) -> Array:
    """The values in float64; of a complex number, its two parts."""
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array.astype(np.complex128))[..., None].view(np.float64)
    return array.astype(np.float64)


class _Sum:
    """A sum kept as ``value * 2**exponent``."""

    def __init__(self) -> None:
        self.value = 0.0
        self.exponent: int = 0

    def add(self, value: float, exponent: int) -> None:
        if not value:
            return
        if not self.value or exponent > self.exponent:
            self.value = math.ldexp(self.value, self.exponent - exponent) + value
            self.exponent = exponent
        else:
            self.value += math.ldexp(value, exponent - self.exponent)


class _Sums:
    """Squares and products of two vectors, and the squares of their difference."""

    def __init__(self) -> None:
        self.rr, self.cc, self.rc, self.noise = _Sum(), _Sum(), _Sum(), _Sum()

    def add(self, r: Array, c: Array) -> None:
        scaled_r, er = _scaled(r)
        scaled_c, ec = _scaled(c)
        noise, en = _scaled(_difference(r, c))
        self.rr.add(float(np.sum(scaled_r * scaled_r)), 2 * er)
        self.cc.add(float(np.sum(scaled_c * scaled_c)), 2 * ec)
        self.rc.add(float(np.sum(scaled_r * scaled_c)), er + ec)
        self.noise.add(float(np.sum(noise * noise)), 2 * en)

    def cosine(self) -> float:
        if not self.rr.value or not self.cc.value:
            return 1.0 if self.rr.value == self.cc.value else 0.0
        exponent = self.rc.exponent - (self.rr.exponent + self.cc.exponent) // 2
        ratio = self.rc.value / math.sqrt(self.rr.value * self.cc.value)
        return max(-1.0, min(1.0, math.ldexp(ratio, exponent)))

    def norm_ratio(self) -> float | None:
        if not self.rr.value:
            return None
        exponent = (self.cc.exponent - self.rr.exponent) // 2
        if exponent > 1000:
            return _LARGEST
        return math.ldexp(math.sqrt(self.cc.value / self.rr.value), exponent)

    def sqnr_db(self) -> float | None:
        if not self.rr.value or not self.noise.value:
            return None
        exponent = self.rr.exponent - self.noise.exponent
        return 10 * (math.log10(self.rr.value / self.noise.value) + exponent * math.log10(2))


def _scaled(array: Array) -> tuple[Array, int]:
    """``array * 2**-e`` with its largest value in [0.5, 1), and e; all zero stays so."""
    largest = float(np.max(np.abs(array), initial=0.0))
    exponent = math.frexp(largest)[1]
    return np.ldexp(array, -exponent), exponent


def _difference(r: Array, c: Array) -> Array:
    with np.errstate(over="ignore"):
        difference: Array = np.clip(c - r, -_LARGEST, _LARGEST)
    return difference


class _Mean:
    """A running mean that can't overflow."""

    def __init__(self) -> None:
        self.value, self.count = 0.0, 0

    def add(self, values: Array) -> None:
        if values.size:
            self.count += values.size
            mean = float(np.sum(values / values.size))
            self.value += (mean - self.value) * (values.size / self.count)

    def result(self) -> float | None:
        return min(self.value, _LARGEST) if self.count else None


class _OutputComparer:
    """One output over the samples."""

    def __init__(
        self,
        name: str,
        r: Array,
        c: Array,
        *,
        scores: bool,
        range: float = 0.0,
        scale: tuple[float, int] | None = None,
    ) -> None:
        self.name = name
        self.scale = scale if r.dtype.kind in "iu" and c.dtype.kind in "iu" else None
        self.rounding = ROUNDING * range
        self.within_rounding = 0
        self.judged: list[float] = []
        self.types = [r.dtype.name, c.dtype.name]
        self.shape = r.shape
        self.float = is_float(r.dtype) or is_float(c.dtype) or self.scale is not None
        self.numeric = self.float or (r.dtype.kind in "iu" and c.dtype.kind in "iu")
        rows = r.ndim == 2 and r.shape[-1] >= 2
        self.scores = self.float and r.dtype.kind != "c" and (rows or (scores and r.ndim > 0))
        self.samples = self.values = self.same = 0
        self.abs, self.rel = _Mean(), _Mean()
        self.max_abs = self.max_rel = -1.0
        self.sums = _Sums()
        self.cosines: list[float] = []
        self.worst_heap: list[tuple[float, int, SampleError]] = []
        self.special = dict.fromkeys(_SPECIAL, 0)
        self.rows = self.rows_agree = 0
        self.first: Place | None = None
        self.worst: Place | None = None
        self.shape_problem = ""

    def add(self, r: Array, c: Array, sample: str) -> None:
        if c.dtype.name != self.types[0] and c.dtype.name != self.types[1]:
            self.types[1] = c.dtype.name  # one sample off is enough to be reported
        if r.shape != c.shape:
            found = f"{sample}: {list(c.shape)} instead of {list(r.shape)}"
            self.shape_problem = self.shape_problem or found
            return
        self.samples += 1
        self.values += r.size
        same = _same(r, c)
        self.same += int(np.count_nonzero(same))
        if self.first is None and not same.all():
            self.first = _place(r, c, int(np.argmin(same.ravel())), sample)
        if self.float:
            self._add_float(self._real(r), self._real(c), sample)
        elif self.numeric:
            self._add_errors(_integer_errors(r.ravel(), c.ravel()), r, c, sample)

    def _real(self, stored: Array) -> Array:
        if self.scale is None:
            return stored
        scale, zero_point = self.scale
        real: Array = (stored.astype(np.float64) - zero_point) * scale
        return real

    def _add_float(self, r: Array, c: Array, sample: str) -> None:
        if self.scores:
            self._add_rows(r, c)
        fr, fc = _as_float(r).ravel(), _as_float(c).ravel()
        finite = np.isfinite(fr) & np.isfinite(fc)
        self._add_special(fr, fc)
        if not finite.all():
            fr, fc = np.where(finite, fr, 0.0), np.where(finite, fc, 0.0)
        errors = np.abs(_difference(fr, fc))
        largest = self._add_errors(errors, r, c, sample, finite)
        relative = _relative(fr, errors)[finite]
        self.rel.add(relative)
        self.max_rel = max(self.max_rel, float(np.max(relative, initial=-1.0)))
        one = _Sums()
        one.add(fr, fc)
        self.sums.add(fr, fc)
        self._add_cosine(one.cosine(), largest, sample)

    def _add_errors(
        self, errors: Array, r: Array, c: Array, sample: str, finite: Array | None = None
    ) -> float:
        self.abs.add(errors if finite is None else errors[finite])
        if not errors.size or (finite is not None and not finite.any()):
            return 0.0
        where = int(np.argmax(errors))
        largest = float(errors[where])
        if largest > max(self.max_abs, 0.0):
            parts = errors.size // max(r.size, 1)  # two for a complex number
            self.worst = _place(r, c, where // parts, sample)
        self.max_abs = max(self.max_abs, largest)
        return largest

    def _add_cosine(self, value: float, max_abs: float, sample: str) -> None:
        self.cosines.append(value)
        if 0 < max_abs <= self.rounding:
            self.within_rounding += 1
            return
        self.judged.append(value)
        item = (-value, -self.samples, SampleError(sample, value, max_abs))
        if len(self.worst_heap) < WORST_SAMPLES:
            heapq.heappush(self.worst_heap, item)
        else:
            heapq.heappushpop(self.worst_heap, item)

    def _add_special(self, r: Array, c: Array) -> None:
        counts = {
            "reference_nan": np.isnan(r),
            "reference_inf": np.isinf(r),
            "candidate_nan": np.isnan(c),
            "candidate_inf": np.isinf(c),
            "introduced": np.isfinite(r) & ~np.isfinite(c),
            "altered": ~np.isfinite(r) & ~np.isfinite(c) & ~_same(r, c),
            "vanished": ~np.isfinite(r) & np.isfinite(c),
        }
        for name, where in counts.items():
            self.special[name] += int(np.count_nonzero(where))

    def _add_rows(self, r: Array, c: Array) -> None:
        if not r.size:
            return
        fr = np.nan_to_num(_as_float(r), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        fc = np.nan_to_num(_as_float(c), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        chosen = np.take_along_axis(fr, np.argmax(fc, axis=-1)[..., None], axis=-1)[..., 0]
        lost = (np.isnan(c) & ~np.isnan(r)).any(axis=-1)
        agree = (chosen == fr.max(axis=-1)) & ~lost
        self.rows += agree.size
        self.rows_agree += int(np.count_nonzero(agree))

    def result(self) -> OutputResult:
        measured = self.float and self.samples > 0
        return OutputResult(
            name=self.name,
            kind="float" if self.float else "exact",
            reference_type=self.types[0],
            candidate_type=self.types[1],
            shape=self.shape,
            samples=self.samples,
            values=self.values,
            equal=self.same / self.values if self.values else 1.0,
            max_abs=self.max_abs if self.max_abs >= 0 else None,
            mean_abs=self.abs.result(),
            max_rel=self.max_rel if self.max_rel >= 0 else None,
            mean_rel=self.rel.result(),
            cosine_worst=min(self.cosines, default=None),
            cosine_mean=math.fsum(self.cosines) / len(self.cosines) if self.cosines else None,
            cosine_all=self.sums.cosine() if measured else None,
            norm_ratio=self.sums.norm_ratio() if measured else None,
            sqnr_db=self.sums.sqnr_db() if measured else None,
            argmax_agreement=self.rows_agree / self.rows if self.rows else None,
            first=self.first,
            worst=self.worst,
            worst_samples=tuple(item for *_, item in sorted(self.worst_heap, reverse=True)),
            cosines=_curve(self.cosines),
            shape_problem=self.shape_problem,
            cosine_judged=min(self.judged, default=None),
            within_rounding=self.within_rounding,
            **self.special,
        )


_SPECIAL = (
    "reference_nan",
    "reference_inf",
    "candidate_nan",
    "candidate_inf",
    "introduced",
    "altered",
    "vanished",
)


def _same(r: Array, c: Array) -> Array:
    """Where two arrays of one shape hold the same; NaN is the same as NaN."""
    if r.dtype.kind in "OSU" or c.dtype.kind in "OSU":
        pairs = zip(r.ravel().tolist(), c.ravel().tolist(), strict=True)
        return np.array([a == b for a, b in pairs], dtype=bool).reshape(r.shape)
    same = np.asarray(r == c)
    if is_float(r.dtype) and is_float(c.dtype):
        same = same | (np.isnan(r) & np.isnan(c))
    return same


def _relative(r: Array, errors: Array) -> Array:
    size = np.abs(r)
    divisor = np.maximum(size, RELATIVE_FLOOR * np.max(size, initial=0.0))
    relative = (errors > 0).astype(np.float64)
    with np.errstate(over="ignore"):
        np.divide(errors, divisor, out=relative, where=divisor > 0)
    return np.minimum(relative, _LARGEST)


def _integer_errors(r: Array, c: Array) -> Array:
    """``|c - r|`` in float64, without wrapping around on the way."""
    if r.dtype != c.dtype:
        return np.abs(c.astype(np.float64) - r.astype(np.float64))
    high, low = np.maximum(r, c), np.minimum(r, c)
    return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)


def _place(r: Array, c: Array, where: int, sample: str) -> Place:
    index = tuple(int(i) for i in np.unravel_index(where, r.shape)) if r.ndim else ()
    return Place(sample, index, _text(r[index]), _text(c[index]))


def _text(value: Any) -> str:
    """As the dtype prints it: float32 has no more digits than it holds."""
    text = str(value) if isinstance(value, np.generic) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _curve(values: list[float]) -> tuple[float, ...]:
    ordered = sorted(values)
    if len(ordered) <= CURVE_POINTS:
        return tuple(ordered)
    picks = np.linspace(0, len(ordered) - 1, CURVE_POINTS).round().astype(int)
    return tuple(ordered[i] for i in picks)
