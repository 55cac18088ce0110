"""Counts are exact, whatever order, grouping and growth the values come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from converter.quantize.histogram import FLOOR, LINEAR, Histogram, bin_edges, top_for

Array = np.ndarray[Any, Any]

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
    return one.top == other.top and all(
        np.array_equal(getattr(bins, edge), getattr(others, edge))
        for edge in ("low", "high", "count")
    )


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


@pytest.mark.parametrize("growth", [1e6, 1e-6, 1e30])
def test_a_later_array_of_another_size(growth: float) -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal(20000).astype(np.float32)
    second = (rng.standard_normal(20000) * growth).astype(np.float32)
    histogram = filled(first, second)
    assert same(histogram, filled(second, first))
    assert_counts(histogram, np.concatenate([first, second]))


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


def test_zeros_are_apart() -> None:
    values = np.maximum(np.random.default_rng(0).standard_normal(10_000), 0).astype(np.float32)
    values[:3] = [-0.0, 1e-30, 1e-42]
    bins = filled(values).bins()
    assert bins.low[0] == bins.high[0] == 0
    assert bins.count[0] == np.count_nonzero(values < 2.0**FLOOR)


def test_blocks_and_pieces_are_joined() -> None:
    values = np.random.default_rng(1).standard_normal(700_001).astype(np.float32)
    whole = filled(values)
    assert same(whole, filled(*np.array_split(values, 90)))
    assert whole.bins().total == values.size


def test_linear_magnitudes_are_those_of_numpy() -> None:
    values = np.random.default_rng(2).standard_normal(50_000).astype(np.float32)
    values[:20_000] = 0
    counts, width = filled(values).linear_magnitudes
    edges = np.arange(LINEAR + 1) * width
    expected, _ = np.histogram(np.abs(values[values != 0]), edges)
    assert np.array_equal(counts, expected)
    assert LINEAR // 2 <= np.flatnonzero(counts)[-1] + 1 <= LINEAR


def test_magnitudes_are_both_sides() -> None:
    values = np.random.default_rng(3).standard_normal(5_000).astype(np.float32)
    folded, positive = filled(values).bins(folded=True), filled(np.abs(values)).bins()
    assert np.array_equal(folded.low, positive.low)
    assert np.array_equal(folded.count, positive.count)


@pytest.mark.parametrize("largest", [0.0, 1e-45, 2.0**-45, 0.99, 1.0, 6.0, 8.0, 3.4e38])
def test_top_is_above_the_largest(largest: float) -> None:
    edges = bin_edges(top_for(largest))
    assert largest < edges[-1]
    assert (np.diff(edges) > 0).all()
