"""Metrics against straightforward numpy, and the edge cases their docstring defines."""

import json
import math
from dataclasses import asdict
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from converter.check.comparison import OutputResult
from converter.check.metrics import Comparer, compare
from converter.check.sums import cosine

FLOATS = st.floats(-1e6, 1e6, width=32).map(lambda v: v if abs(v) > 1e-6 else 0.0)
PAIRS = hnp.array_shapes(min_dims=0, max_dims=3, max_side=5).flatmap(
    lambda shape: st.lists(
        st.tuples(*[hnp.arrays(np.float32, shape, elements=FLOATS)] * 2), min_size=1, max_size=4
    )
)


def one(*pairs: Any, **known: Any) -> OutputResult:
    """The result of a reference and a candidate, or of pairs of them, one a sample."""
    pairs = pairs if isinstance(pairs[0], tuple) else (pairs,)
    comparer = Comparer(**known)
    for number, (r, c) in enumerate(pairs):
        comparer.add({"y": np.asarray(r)}, {"y": np.asarray(c)}, f"s{number}")
    (output,) = comparer.result().outputs
    return output


def plain_cosine(r: np.ndarray, c: np.ndarray) -> float:
    r, c = r.astype(np.float64).ravel(), c.astype(np.float64).ravel()
    norms = np.linalg.norm(r) * np.linalg.norm(c)
    if not np.linalg.norm(r) or not np.linalg.norm(c):
        return float(not r.any() and not c.any())
    return float(r @ c / norms)


@settings(max_examples=120, deadline=None)
@given(PAIRS)
def test_agrees_with_numpy(pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    result = one(*pairs)
    rs = np.concatenate([r.ravel() for r, _ in pairs]).astype(np.float64)
    cs = np.concatenate([c.ravel() for _, c in pairs]).astype(np.float64)
    errors = np.abs(cs - rs)
    cosines = [plain_cosine(r, c) for r, c in pairs]
    assert result.values == rs.size
    assert result.max_abs == pytest.approx(errors.max(), rel=1e-12)
    assert result.mean_abs == pytest.approx(errors.mean(), rel=1e-9)
    assert result.cosine_worst == pytest.approx(min(cosines), abs=1e-9)
    assert result.cosine_mean == pytest.approx(np.mean(cosines), abs=1e-9)
    assert result.cosine_all == pytest.approx(plain_cosine(rs, cs), abs=1e-9)
    assert result.equal == pytest.approx(np.mean(rs == cs))
    if rs.any() and errors.any():
        noise = 10 * math.log10((rs**2).sum() / (errors**2).sum())
        assert result.sqnr_db == pytest.approx(noise, abs=1e-6)
        ratio = math.sqrt((cs**2).sum() / (rs**2).sum())
        assert result.norm_ratio == pytest.approx(ratio, rel=1e-9)
    else:
        assert result.sqnr_db is None


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float64, (7,), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_every_number_is_finite_or_none(values: np.ndarray) -> None:
    for c in (values[::-1], -values, np.zeros(7), np.full(7, 1.0)):
        json.dumps(asdict(one(values, c)), allow_nan=False)


@pytest.mark.parametrize("power", [-320, -300, -160, 160, 300, 307])
def test_scale_changes_nothing(power: int) -> None:
    factor, near = 10.0**power, 1e-3 if power < -310 else 1e-12
    r, c = np.array([1.0, 2, 3]) * factor, np.array([1.0, 2, 4]) * factor
    assert cosine(r, c) == pytest.approx(17 / math.sqrt(14 * 21), abs=near)
    assert one([1e-170, 0], [1e-170, 1e-200]).sqnr_db == pytest.approx(600)


def test_what_is_identical_single_or_near_zero() -> None:
    values = np.random.default_rng(0).normal(0, 1, 1000).astype(np.float32)
    result = one(values, values)
    assert (result.cosine_worst, result.cosine_all, result.norm_ratio) == (1, 1, 1)
    assert (result.max_abs, result.max_rel, result.equal, result.sqnr_db) == (0, 0, 1, None)
    assert result.first is None and result.worst is None
    result = one(*((value, 11.0 - value) for value in np.arange(1.0, 11)))
    assert result.cosine_worst == 1.0
    assert result.cosine is not None and result.cosine < 0.6
    assert one([1000.0, 1e-9], [1000.0, 0.5]).max_rel == pytest.approx(0.5)
    assert one([0.0, 0.0], [0.0, 1e-30]).max_rel == 1.0


def test_empty_outputs_and_only_nan_say_nothing() -> None:
    result = one(np.zeros((1, 0)), np.zeros((1, 0)))
    assert result.max_abs is None and result.mean_abs is None and result.equal == 1.0
    assert result.cosine_worst is result.cosine is None and result.blind == "empty"
    result = one([np.nan] * 3, [np.nan] * 3)
    assert result.max_abs is None and result.equal == 1.0 and not result.introduced


def test_non_finite_values_are_told_apart() -> None:
    nan, inf = np.nan, np.inf
    r = np.array([1, nan, inf, -inf, nan, inf, 2, 3], np.float32)
    c = np.array([1, nan, inf, 65504, inf, -inf, nan, inf], np.float32)
    result = one(r, c)
    assert (result.reference_nan, result.reference_inf) == (2, 3)
    assert (result.candidate_nan, result.candidate_inf) == (2, 4)
    assert (result.introduced, result.altered, result.vanished) == (2, 2, 1)
    assert result.max_abs == 0 and result.cosine_all == 1.0
    assert result.equal == 3 / 8
    assert result.first is not None and result.first.index == (3,)


@pytest.mark.parametrize(("r", "c", "largest"), [
    (np.array([2**63 - 1]), np.array([-(2**63)]), float(2**64 - 1)),
    (np.array([0], np.uint8), np.array([255], np.uint8), 255.0),
    (np.array([-128], np.int8), np.array([127], np.int8), 255.0),
    (np.array([2**53]), np.array([2**53 + 1]), 1.0),
    (np.array([3], np.int32), np.array([5], np.int64), 2.0),
])  # fmt: skip
def test_integers_dont_wrap_around(r: np.ndarray, c: np.ndarray, largest: float) -> None:
    result = one(r, c)
    assert result.kind == "exact" and result.equal == 0 and result.cosine is None
    assert result.max_abs == largest


def test_which_types_are_compared_as_what() -> None:
    words = np.array(["cat", "dog"], object)
    result = one(words, np.array(["cat", "cow"]))
    assert (result.kind, result.equal, result.max_abs) == ("exact", 0.5, None)
    assert result.first is not None and result.first.candidate == "cow"
    assert one([True, False], [True, True]).equal == 0.5
    values = np.array([1.0, 2.0, 4.0])
    assert one(values.astype(np.float32), values.astype(ml_dtypes.bfloat16)).cosine_all == 1
    result = one(np.array([1 + 2j, 3]), np.array([1 + 2j, 3 + 1j]))
    assert result.max_abs == 1 and result.worst is not None and result.worst.index == (1,)


def test_argmax_agreement() -> None:
    r = np.array([[1, 5, 2], [7, 7, 1], [0, 1, 2]], np.float32)
    c = np.array([[0, 9, 2], [1, 7, 1], [0, 3, 2]], np.float32)
    assert one(r, c).argmax_agreement == pytest.approx(2 / 3)  # a tie in r: either index
    assert one(r[0], c[0]).argmax_agreement is None
    assert one(r[None], c[None], scores={"y"}).argmax_agreement == pytest.approx(2 / 3)


def test_where_it_differs() -> None:
    r, c = np.zeros((2, 3), np.float32), np.array([[0, 0, 0.5], [0, -2, 0]], np.float32)
    result = one((r, r), (r, c))
    first, worst = result.first, result.worst
    assert first is not None and worst is not None
    assert (first.sample, first.index, first.candidate) == ("s1", (0, 2), "0.5")
    assert (worst.index, worst.candidate) == ((1, 1), "-2.0")
    assert result.worst_samples[0].sample == "s1"


def test_names_types_and_shapes() -> None:
    comparison = compare(
        {"a": np.zeros(3, np.float32), "b": np.zeros(2), "gone": np.zeros(1)},
        {"a": np.zeros((1, 3), np.float32), "b": np.zeros(2, np.float32), "new": np.zeros(1)},
    )
    assert (comparison.missing, comparison.unexpected) == (("gone",), ("new",))
    a, b = comparison.outputs
    assert a.shape_problem == "sample 1: [1, 3] instead of [3]" and a.cosine is None
    assert not b.same_type and b.cosine is None and b.cosine_all == 1


def test_the_curve_keeps_the_worst_and_the_best() -> None:
    references, noises = np.random.default_rng(1).normal(0, 1, (2, 450, 8))
    output = one(*zip(references, references + noises / 10, strict=True))
    assert len(output.cosines) == 200 and list(output.cosines) == sorted(output.cosines)
    assert output.cosines[0] == output.cosine_worst == output.worst_samples[0].cosine


def test_a_difference_within_rounding_of_a_known_range_is_no_difference() -> None:
    """A sigmoid's 1e-7 is 0 to whoever rounds once more; without its range nobody knows that."""
    r, c = np.array([[1e-7, 3e-7]], np.float32), np.array([[3e-7, 0]], np.float32)
    for ranges, expected in (({"y": 1.0}, 1.0), ({"y": 0.01}, 0.316), ({}, 0.316)):
        output = one(r, c, ranges=ranges)
        assert output.cosine == pytest.approx(expected, abs=1e-3)
        assert output.cosine_worst == pytest.approx(0.316, abs=1e-3)
        assert output.within_rounding == (expected == 1.0)
    excused, other = np.float32([[1e-7, 0], [0, 1e-7]]), np.float32([[0.9, 0], [0.5, 0.5]])
    output = one((*excused,), (*other,), ranges={"y": 1.0})
    assert output.within_rounding == 1
    assert output.cosine == pytest.approx(np.sqrt(0.5), abs=1e-3)


def test_integers_that_stand_for_real_numbers_are_compared_as_those() -> None:
    """One step of a quantized output is a small error, not a different value."""
    r = np.array([[100, -20, 5, 77]], np.int8)
    c = np.array([[99, -20, 6, 77]], np.int8)
    found = one(r, c, scales={"y": (0.5, -10)})
    assert (found.kind, found.reference_type, found.max_abs) == ("float", "int8", 0.5)
    real_r, real_c = (r + 10.0) * 0.5, (c + 10.0) * 0.5
    expected = np.sum(real_r * real_c) / np.linalg.norm(real_r) / np.linalg.norm(real_c)
    assert found.cosine == pytest.approx(float(expected), abs=1e-12)
    assert not one(np.int8([1]), np.float32([0.5]), scales={"y": (0.5, 0)}).same_type
