"""Compares one output, sample by sample; the formulas: :mod:`converter.check.metrics`."""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from converter.check.comparison import OutputResult, Place, SampleError
from converter.check.informative import Telling
from converter.check.matching import Matched
from converter.check.sums import (
    LARGEST,
    Array,
    Mean,
    Sums,
    as_float,
    difference,
    is_float,
    type_name,
)
from converter.check.variation import Variation
from converter.ir.value_ranges import ROUNDING

RELATIVE_FLOOR = 1e-3
"""Share of a sample's largest value below which relative errors are measured against it."""

CURVE_POINTS = 200
"""How many of the sorted per-sample cosines a result keeps."""

WORST_SAMPLES = 5

Span = tuple[int, int] | None
"""The least and the greatest of some integers; None of none."""


class OutputComparer:
    """One output over the samples.

    Args:
        name: The output.
        r: The reference's array for the first sample: its dtype and shape hold for all.
        c: The candidate's array for the first sample.
        scores: Whether it is known to be scores.
        range: The largest magnitude that it can have; 0 where that isn't known.
        scale: Scale and zero point where its integers stand for real numbers.
        listed: The axis of a list's rows, where it is one.
    """

    def __init__(
        self,
        name: str,
        r: Array,
        c: Array,
        *,
        scores: bool,
        range: float = 0.0,
        scale: tuple[float, int] | None = None,
        listed: int | None = None,
    ) -> None:
        self.name = name
        self.scale = scale if r.dtype.kind in "iu" and c.dtype.kind in "iu" else None
        self.range, self.rounding = range, ROUNDING * range
        self.within_rounding = 0
        self.judged: list[float] = []
        self.types = [type_name(r.dtype), type_name(c.dtype)]
        self.shape = r.shape
        self.float = is_float(r.dtype) or is_float(c.dtype) or self.scale is not None
        self.numeric = self.float or (r.dtype.kind in "iu" and c.dtype.kind in "iu")
        rows = r.ndim == 2 and r.shape[-1] >= 2
        self.scores = self.float and r.dtype.kind != "c" and (rows or (scores and r.ndim > 0))
        self.samples = self.values = self.same = self.compared = 0
        self.listed = self.moved = 0
        self.telling = Telling(self.rounding)
        self.variation = Variation(listed)
        self.abs, self.rel = Mean(), Mean()
        self.max_abs = self.max_rel = -1.0
        self.sums = Sums()
        self.cosines: list[float] = []
        self.worst_heap: list[tuple[float, int, SampleError]] = []
        self.special = dict.fromkeys(_SPECIAL, 0)
        self.rows = self.rows_agree = 0
        self.first: Place | None = None
        self.worst: Place | None = None
        self.shape_problem = ""
        self.spans: list[Span] = [None, None]

    def add(self, r: Array, c: Array, sample: str, listed: Matched | None = None) -> None:
        """Compares one sample's arrays.

        Args:
            r: The reference's array.
            c: The candidate's. With another shape, the sample counts as a shape problem and isn't
                compared.
            sample: The sample's name.
            listed: The list that the output is a part of, its rows where they belong.
        """
        kind = type_name(c.dtype)
        if kind != self.types[0] and kind != self.types[1]:
            self.types[1] = kind  # one sample off is enough to be reported
        if r.shape != c.shape:
            found = f"{sample}: {list(c.shape)} instead of {list(r.shape)}"
            if listed is not None and listed.told and self.name == listed.outputs[-1]:
                found += f" ({listed.told})"
            self.shape_problem = self.shape_problem or found
            return
        self.samples += 1
        if listed is not None:
            self.listed += listed.rows
            self.moved += listed.moved
        self.values += r.size
        same = _same(r, c)
        self.same += int(np.count_nonzero(same))
        if self.first is None and not same.all():
            self.first = _place(r, c, int(np.argmin(same.ravel())), sample)
        if self.float:
            whole = same.all() and r.dtype == c.dtype and self._add_equal(self._real(r), sample)
            if not whole:
                self._add_float(self._real(r), self._real(c), sample)
            return
        self.compared += r.size
        self.telling.add(r)
        if self.numeric and r.size:
            self.spans = [_span(r, self.spans[0]), _span(c, self.spans[1])]
            self._add_errors(_integer_errors(r.ravel(), c.ravel()), r, c, sample)

    def _real(self, stored: Array) -> Array:
        if self.scale is None:
            return stored
        scale, zero_point = self.scale
        real: Array = (stored.astype(np.float64) - zero_point) * scale
        return real

    def _add_equal(self, r: Array, sample: str) -> bool:
        """As :meth:`_add_float`, in fewer steps, where both hold the same finite values: a model
        may have thousands of small outputs. False where they aren't finite."""
        values = as_float(r).ravel()
        if not values.size or not np.isfinite(values).all():
            return False
        if self.scores:
            rows = r.size // r.shape[-1]
            self.rows, self.rows_agree = self.rows + rows, self.rows_agree + rows
        self.telling.add(values)
        self.compared += r.size
        self._add_varied(r, values, values)
        self.abs.add_zeros(values.size)
        self.rel.add_zeros(values.size)
        self.max_abs, self.max_rel = max(self.max_abs, 0.0), max(self.max_rel, 0.0)
        self.sums.add(values, values)
        self._add_cosine(1.0, 0.0, sample)
        return True

    def _add_float(self, r: Array, c: Array, sample: str) -> None:
        if self.scores:
            self._add_rows(r, c)
        fr, fc = as_float(r).ravel(), as_float(c).ravel()
        finite = np.isfinite(fr) & np.isfinite(fc)
        self.telling.add(fr)
        self.compared += int(np.count_nonzero(finite)) * r.size // max(fr.size, 1)
        if not finite.all():
            self._add_special(fr, fc)
            fr, fc = np.where(finite, fr, 0.0), np.where(finite, fc, 0.0)
        self._add_varied(r, fr, fc)
        errors = np.abs(difference(fr, fc))
        largest = self._add_errors(errors, r, c, sample, finite)
        relative = _relative(fr, errors)[finite]
        self.rel.add(relative)
        self.max_rel = max(self.max_rel, float(np.max(relative, initial=-1.0)))
        one = Sums()
        one.add(fr, fc)
        self.sums.join(one)
        if not finite.any():
            return  # no direction to compare
        self._add_cosine(one.cosine(), largest, sample)

    def add_row(self, r: Array, c: Array) -> None:
        """Another row, which counts for variation alone; one of another shape doesn't."""
        if self.float and r.shape == c.shape:
            fr, fc = as_float(self._real(r)).ravel(), as_float(self._real(c)).ravel()
            finite = np.isfinite(fr) & np.isfinite(fc)
            self._add_varied(r, np.where(finite, fr, 0.0), np.where(finite, fc, 0.0))

    def _add_varied(self, r: Array, fr: Array, fc: Array) -> None:
        shape = r.shape if fr.size == r.size else (*r.shape, 2)
        self.variation.add(fr.reshape(shape), fc.reshape(shape))

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
        fr = np.nan_to_num(as_float(r), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        fc = np.nan_to_num(as_float(c), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        chosen = np.take_along_axis(fr, np.argmax(fc, axis=-1)[..., None], axis=-1)[..., 0]
        lost = (np.isnan(c) & ~np.isnan(r)).any(axis=-1)
        agree = (chosen == fr.max(axis=-1)) & ~lost
        self.rows += agree.size
        self.rows_agree += int(np.count_nonzero(agree))

    def result(self) -> OutputResult:
        """What there is to say of all samples so far."""
        measured = self.float and self.compared > 0
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
            compared=self.compared,
            blind=self.telling.blind,
            astray=_astray(*self.spans),
            range=self.range,
            variation=self.variation.result(),
            rows=self.listed,
            moved=self.moved,
            reference_nan=self.special["reference_nan"],
            reference_inf=self.special["reference_inf"],
            candidate_nan=self.special["candidate_nan"],
            candidate_inf=self.special["candidate_inf"],
            introduced=self.special["introduced"],
            altered=self.special["altered"],
            vanished=self.special["vanished"],
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


def _span(array: Array, known: Span) -> Span:
    """The least and the greatest integer, of those known and an array's."""
    low, high = int(array.min()), int(array.max())
    return (low, high) if known is None else (min(low, known[0]), max(high, known[1]))


def _astray(reference: Span, candidate: Span) -> str:
    if reference is None or candidate is None:
        return ""
    low, high = reference
    width = max(high - low, 1)
    out = [n for n in candidate if not low - width <= n <= high + width]
    return f"{out[0]:,}, the source's are {low:,} to {high:,}" if out else ""


def _same(r: Array, c: Array) -> Array:
    """Where two arrays of one shape hold the same; NaN is the same as NaN."""
    if "string" in (type_name(r.dtype), type_name(c.dtype)):
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
    return np.minimum(relative, LARGEST)


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
