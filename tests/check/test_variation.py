"""Squared errors beside the variance of what they are errors of: the formulas, and what hides."""

from __future__ import annotations

import numpy as np
import pytest

from converter.check.accuracy import AccuracyResult
from converter.check.gates import Limits, judge
from converter.check.metrics import Comparer
from converter.check.variation import GRAINS, Grain, Variation, Variations

Rows = list[np.ndarray]
BARE = Grain(0.0, 0.1)
RNG = np.random.default_rng(0)


def found(r: Rows, c: Rows) -> Variations:
    variation = Variation()
    for one, other in zip(r, c, strict=True):
        variation.add(one, other)
    result = variation.result()
    assert result is not None
    return result


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e150])
def test_formulas(scale: float) -> None:
    r = RNG.standard_normal((9, 1, 5, 7)) * scale
    r[:, :, 2] *= 30
    c = r + RNG.standard_normal(r.shape) * 0.01 * scale
    result = found(list(r), list(c))
    rows, others = r[:, 0], c[:, 0]
    error = np.mean(np.square(others / scale - rows / scale))
    about = rows / scale - (rows / scale).mean(axis=0)
    assert result.rows == 9
    whole = error / (np.mean(np.square(about)) * 9 / 8)
    assert result.whole.ratio(BARE) == pytest.approx(whole, rel=1e-9)
    by_channel = []
    for axis in (1, 2):
        others_of = tuple(at for at in range(3) if at != axis)
        errors = np.mean(np.square(others / scale - rows / scale), axis=others_of)
        variances = np.var(rows / scale, axis=others_of, ddof=1)
        by_channel += list(errors / np.maximum(variances, 0.1 * np.median(variances)))
    worst = result.worst(BARE)
    assert worst is not None
    known = {round(ratio, 12) for ratio in by_channel}
    assert round(worst.ratio(BARE), 12) in known
    assert worst.ratio(BARE) == pytest.approx(max(by_channel), rel=0.2)  # of those that are kept


def test_sizes_that_differ_and_single_rows_are_beside_their_own_mean() -> None:
    long, short = RNG.standard_normal((4, 6)), RNG.standard_normal((4, 3))
    result = found([long, short], [long + 0.1, short + 0.1])
    values = np.concatenate([long.ravel(), short.ravel()])
    assert result.whole.ratio(BARE) == pytest.approx(0.01 / np.var(values, ddof=1))
    assert {item.axis for item in result.channels} == {0}
    alone = found([long], [long + 0.1])
    assert alone.whole.ratio(BARE) == pytest.approx(0.01 / np.var(long, ddof=1))


@pytest.mark.parametrize("shape", [(1, 9, 1), (1, 1, 5, 7), (1, 5, 7, 1)])
def test_one_channel_is_none(shape: tuple[int, ...]) -> None:
    rows = [RNG.standard_normal(shape) for _ in range(8)]
    assert not found(rows, rows).channels


@pytest.mark.parametrize(
    ("shape", "axis", "channels"),
    [((5,), 0, 0), ((5, 4), 0, 4), ((1, 5, 4), 1, 4), ((1, 5), 1, 0), ((1, 4), 0, 4)],
)
def test_rows_of_a_list_are_no_channels(shape: tuple[int, ...], axis: int, channels: int) -> None:
    variation = Variation(listed=axis)
    for _ in range(3):
        r = RNG.standard_normal(shape)
        c = r.copy()
        c[..., -1] += 0.5
        variation.add(r, c)
    result = variation.result()
    assert result is not None and result.whole.error > 0
    worst = result.worst(BARE)
    assert (worst and (worst.count, worst.index)) == (
        (3 * r.size // channels, channels - 1) if channels else None
    )


def test_rounding_counts_for_nothing_and_what_does_not_vary_tells_nothing() -> None:
    rows = [np.array([500.0, 1.0]) + RNG.standard_normal(2) for _ in range(8)]
    near = [row * (1 + 2.0**-21) for row in rows]
    exact = GRAINS["fp32"]
    assert found(rows, near).whole.ratio(exact) == 0 < found(rows, near).whole.ratio(BARE)
    same = [np.array([500.0, 1.0])] * 8
    assert found(same, [row + 1 for row in same]).whole.ratio(exact) == 0


def test_huge_errors_stay_finite() -> None:
    rows = [np.full(3, 10.0**power) for power in (-300, 0, 308)]
    result = found(rows, [-row for row in rows])
    assert np.isfinite(result.whole.ratio(GRAINS["fp32"]))


def gates(limits: Limits, r: Rows, c: Rows, **known: object) -> dict[str, str]:
    comparer = Comparer(**known)  # type: ignore[arg-type]
    for one, other in zip(r, c, strict=True):
        comparer.add({"y": one}, {"y": other})
    return {gate.name: gate.status for gate in judge(limits, AccuracyResult(comparer.result()))}


def test_a_step_of_a_known_range_is_forgiven_in_int8() -> None:
    scores = [row / row.sum() for row in RNG.uniform(0, 1, (8, 1, 300)) ** 8]
    stored = [np.round(row * 256) / 256 for row in scores]
    limits = Limits.by_precision("int8")
    assert gates(limits, scores, stored, ranges={"y": 1.0})["channel"] == "passed"
    assert gates(Limits.by_precision("fp32"), scores, stored)["channel"] == "failed"


def test_a_smaller_cosine_widens_the_limits_until_they_say_nothing() -> None:
    own, wider = Limits.by_precision("fp32"), Limits.by_precision("fp32", 0.999)
    assert wider.variation == pytest.approx(0.002) and wider.channel == pytest.approx(0.02)
    assert Limits.by_precision("fp32", 0.99999).variation == own.variation
    assert Limits.by_precision("int8", 0.9).channel is None


def test_integers() -> None:
    r, c = np.arange(1000), np.arange(1000)
    c[5] += 1
    exact, share = Limits.by_precision("fp32"), Limits.by_precision("int8")
    assert gates(exact, [r], [c])["agreement"] == "failed"
    assert gates(share, [r], [c])["agreement"] == "passed"
    c[5] += 10**6
    assert gates(share, [r], [c])["agreement"] == "failed"


def test_outputs_have_an_order() -> None:
    values = {"a": np.ones(3), "b": np.ones(3)}
    for ordered, reordered in ((True, ("b", "a")), (False, ())):
        comparer = Comparer(ordered=ordered)
        comparer.add(values, {"b": np.ones(3), "a": np.ones(3)})
        assert comparer.result().reordered == reordered


def test_a_channel_of_few_values_may_vary_less_by_chance() -> None:
    limits = Limits.by_precision("fp16")
    for shape in ((1, 128), (128, 100)):
        rows = [RNG.standard_normal(shape) for _ in range(8)]
        near = [row + 0.07 * RNG.standard_normal(shape) for row in rows]
        assert gates(limits, rows, near)["channel"] == "passed"
        near = [row + np.where(np.arange(len(row.T)) == 5, 0.5, 0) for row in rows]
        assert gates(limits, rows, near)["channel"] == "failed"
