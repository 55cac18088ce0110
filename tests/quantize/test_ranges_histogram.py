"""Histograms count exactly, and limits out of them are near those of all values, unbinned."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from converter.precision.calibrate import thresholds
from converter.precision.calibrate.histogram import (
    FLOOR,
    LINEAR,
    Bins,
    Histogram,
)
from converter.precision.calibrate.tensor_observer import Tally
from tests.passes.models import Array


def _values() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(300_000)
    cases = {
        "normal": normal,
        "relu": np.maximum(normal, 0),
        "swish": normal * 3 / (1 + np.exp(-normal * 3)),
        "heavy": rng.standard_t(2, 300_000),
        "skewed": np.exp(normal) - 2,
        "one outlier": np.concatenate([normal, [1e6]]),
        "masked": np.concatenate([normal[:1000], np.full(500, -1e4)]),
        "negative": -np.abs(normal),
        "few": normal[:9],
        "steps": np.round(normal * 4) / 4,
    }
    return {name: values.astype(np.float32) for name, values in cases.items()}


VALUES = _values()


def measured(values: Array) -> tuple[Histogram, tuple[float, float]]:
    tally = Tally()
    for part in np.array_split(values, 7):
        tally.add("s", part)
    assert (tally.low, tally.high) == (values.min(), values.max())
    return tally.histogram, (tally.low, tally.high)


def width_at(bins: Bins, value: float) -> float:
    inside = (bins.low <= value) & (value <= bins.high)
    return float((bins.high - bins.low)[inside].max())


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("percent", [99.999, 99.9, 90.0])
def test_percentile(name: str, percent: float) -> None:
    values = VALUES[name]
    histogram, extremes = measured(values)
    low, high = thresholds.by_percentile(histogram, extremes, symmetric=False, percent=percent)
    cut = (1 - percent / 100) / 2
    exact = np.quantile(values, [cut, 1 - cut], method="inverted_cdf").astype(np.float64)
    exact[0] = -np.quantile(-values, 1 - cut, method="inverted_cdf")
    for found, wanted in zip((low, high), exact, strict=True):
        assert abs(found - wanted) <= width_at(histogram.bins(), wanted)
    assert np.count_nonzero(values > high) <= cut * values.size * (1 + 1e-9)
    assert np.count_nonzero(values < low) <= cut * values.size * (1 + 1e-9)
    reach = thresholds.by_percentile(histogram, extremes, symmetric=True, percent=percent)[1]
    wanted = float(np.quantile(np.abs(values), percent / 100, method="inverted_cdf"))
    assert abs(reach - wanted) <= width_at(histogram.bins(folded=True), wanted)


def published_divergence(counts: Array, kept: int, levels: int) -> float:
    """KL(P || Q) as the slides have it, bin by bin."""
    p = counts[:kept].astype(np.float64)
    p[-1] += counts[kept:].sum()
    q = np.zeros(kept)
    level = np.arange(kept) * levels // kept
    for number in range(levels):
        inside = (level == number) & (counts[:kept] > 0)
        if inside.any():
            q[inside] = counts[:kept][level == number].sum() / inside.sum()
    there = p > 0
    if (q[there] == 0).any():
        return float("inf")
    p, q = p / p.sum(), q / q.sum()
    return float((p[there] * np.log(p[there] / q[there])).sum())


@pytest.mark.parametrize("name", ["normal", "heavy", "relu", "few"])
@pytest.mark.parametrize("levels", [128, 256, 8])
def test_divergences_are_the_published_ones(name: str, levels: int) -> None:
    counts = measured(VALUES[name])[0].linear_magnitudes[0]
    used = int(np.flatnonzero(counts)[-1]) + 1
    candidates = np.unique(np.linspace(levels, used, 25).astype(int))
    expected = [published_divergence(counts, int(kept), levels) for kept in candidates]
    found = thresholds.divergences(counts, candidates, levels)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_entropy_cuts_off_a_tail_and_keeps_what_is_even() -> None:
    even = np.random.default_rng(0).uniform(-3, 3, 300_000).astype(np.float32)
    low, high = thresholds.by_entropy(*measured(even), symmetric=True, bits=8)
    assert high == pytest.approx(3, rel=0.01)
    assert low == -high
    tail = np.concatenate([even, np.linspace(3, 60, 30, dtype=np.float32)])
    low, high = thresholds.by_entropy(*measured(tail), symmetric=True, bits=8)
    assert 2.9 < high < 10
    histogram, extremes = measured(np.abs(even))
    assert thresholds.by_entropy(histogram, extremes, symmetric=False, bits=8)[0] == 0


def quantization_error(values: Array, low: float, high: float, bits: int, symmetric: bool) -> float:
    steps = 2**bits - (2 if symmetric else 1)
    scale = (high - low) / steps
    first = round(low / scale)
    levels = np.clip(np.round(values.astype(np.float64) / scale), first, first + steps)
    return float(np.mean((levels * scale - values) ** 2))


# Where many values are exactly the same, an error below a bin's width depends on luck.
@pytest.mark.parametrize("name", sorted(VALUES.keys() - {"steps", "masked"}))
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [8, 4])
def test_no_other_limits_have_a_smaller_error(name: str, symmetric: bool, bits: int) -> None:
    values = VALUES[name]
    histogram, extremes = measured(values)
    low, high = thresholds.by_squared_error(histogram, extremes, symmetric=symmetric, bits=bits)
    found = quantization_error(values, low, high, bits, symmetric)
    reach = max(-extremes[0], extremes[1])
    full = (-reach, reach) if symmetric else (min(extremes[0], 0), max(extremes[1], 0))
    ratios = 0.97 ** np.arange(1, 120)
    others = [(full[0] * r, full[1] * r) for r in ratios]
    if not symmetric:
        others += [(low * a, high * b) for a in (0.8, 0.95, 1, 1.05) for b in (0.8, 0.95, 1, 1.05)]
    best = min(
        quantization_error(values, *other, bits, symmetric)
        for other in [full, *others]
        if full[0] <= other[0] and other[1] <= full[1]
    )
    assert found <= best * 1.03 + 1e-12


def test_the_error_is_that_of_the_values() -> None:
    values = VALUES["swish"]
    error = thresholds.SquaredError(measured(values)[0].bins(), 8, symmetric=False)
    for low, high in [(-0.4, 12.0), (-0.2, 5.0), (-0.3, 20.0)]:
        expected = quantization_error(values, low, high, 8, False)
        assert error(low, high) == pytest.approx(expected, rel=0.01)


def test_fewer_bits_are_spent_on_less() -> None:
    histogram, extremes = measured(VALUES["normal"])
    for method in (thresholds.by_entropy, thresholds.by_squared_error):
        reaches = [method(histogram, extremes, symmetric=True, bits=b)[1] for b in (4, 8)]
        assert reaches[0] < reaches[1] <= max(-extremes[0], extremes[1])


@pytest.mark.parametrize(("low", "high", "symmetric", "expected"), [
    (0.0, 0.0, False, (0.0, 1.0)),
    (0.0, 0.0, True, (-1.0, 1.0)),
    (2.0, 3.0, False, (0.0, 3.0)),
    (-3.0, -2.0, False, (-3.0, 0.0)),
    (-3.0, 2.0, True, (-3.0, 3.0)),
    (0.0, 1e-40, False, (0.0, thresholds.NARROWEST)),
    (-1e-40, 0.0, False, (-thresholds.NARROWEST, 0.0)),
    (-1e-40, 0.0, True, (-thresholds.NARROWEST, thresholds.NARROWEST)),
])  # fmt: skip
def test_covering(low: float, high: float, symmetric: bool, expected: tuple[float, float]) -> None:
    assert thresholds.covering(low, high, symmetric) == expected


FLOATS = hnp.arrays(
    np.float32,
    st.integers(1, 60),
    elements=st.floats(allow_nan=False, allow_infinity=False, width=32),
)


def filled(*arrays: Array) -> Histogram:
    histogram = Histogram()
    for array in arrays:
        largest = float(np.abs(array).max())
        histogram.add(array, largest, signed=bool((array < 0).any()))
    return histogram


def same(one: Histogram, other: Histogram) -> bool:
    bins, others = one.bins(), other.bins()
    edges = np.array_equal(bins.low, others.low) and np.array_equal(bins.high, others.high)
    return one.top == other.top and edges and np.array_equal(bins.count, others.count)


def assert_counts(histogram: Histogram, values: Array) -> None:
    """Every bin holds the values between its edges, the outer one left out."""
    bins = histogram.bins()
    wide = np.where(np.abs(values.astype(np.float64)) < 2.0**FLOOR, 0.0, values)
    for low, high, count in zip(bins.low, bins.high, bins.count, strict=True):
        if low < 0:
            inside = (wide > low) & (wide <= high)
        else:
            inside = (wide >= low) & (wide < high) if high > 0 else wide == 0
        assert count == np.count_nonzero(inside), (low, high)
    assert bins.total == values.size
    assert (bins.low[1:] >= bins.high[:-1]).all()


@given(st.lists(FLOATS, min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_bins_hold_what_lies_between_their_edges(arrays: list[Array]) -> None:
    assert_counts(filled(*arrays), np.concatenate(arrays))


@given(st.lists(FLOATS, min_size=2, max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_and_grouping_change_nothing(arrays: list[Array], random: Any) -> None:
    expected = filled(np.concatenate(arrays))
    shuffled = list(arrays)
    random.shuffle(shuffled)
    assert same(filled(*shuffled), expected)
    merged = Histogram()
    for array in arrays:
        merged.merge(filled(array))
    assert same(merged, expected)


def test_bins_are_narrow_however_far_an_outlier_lies() -> None:
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    values[7] = 1e9
    bins = filled(values).bins()
    width = bins.high - bins.low
    magnitude = np.minimum(np.abs(bins.low), np.abs(bins.high))
    assert (width <= np.maximum(magnitude / 128, 1e9 / 2048)).all()
    bulk = np.abs(bins.low) < 10
    assert (width[bulk] <= magnitude[bulk] / 128).all()
    linear = filled(values[values < 10]).bins()
    reach = np.abs(linear.low).max()
    assert ((linear.high - linear.low) <= reach / 1900).all()


def test_zeros_are_apart_and_pieces_are_joined() -> None:
    values = np.maximum(np.random.default_rng(0).standard_normal(10_000), 0).astype(np.float32)
    values[:3] = [-0.0, 1e-30, 1e-42]
    bins = filled(values).bins()
    assert bins.low[0] == bins.high[0] == 0
    assert bins.count[0] == np.count_nonzero(values < 2.0**FLOOR)
    values = np.random.default_rng(1).standard_normal(700_001).astype(np.float32)
    whole = filled(values)
    assert same(whole, filled(*np.array_split(values, 90)))
    assert whole.bins().total == values.size


def test_magnitudes_are_those_of_numpy_and_of_both_sides() -> None:
    values = np.random.default_rng(2).standard_normal(50_000).astype(np.float32)
    values[:20_000] = 0
    counts, width = filled(values).linear_magnitudes
    edges = np.arange(LINEAR + 1) * width
    expected, _ = np.histogram(np.abs(values[values != 0]), edges)
    assert np.array_equal(counts, expected)
    assert LINEAR // 2 <= np.flatnonzero(counts)[-1] + 1 <= LINEAR
    values = np.random.default_rng(3).standard_normal(5_000).astype(np.float32)
    folded, positive = filled(values).bins(folded=True), filled(np.abs(values)).bins()
    assert np.array_equal(folded.low, positive.low)
    assert np.array_equal(folded.count, positive.count)
