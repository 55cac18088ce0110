"""The gates in ``selftest.py`` say what the check's own say: on random pairs, at the limits' edges,
on what is odd."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from converter.check.accuracy import AccuracyResult, comparer_for
from converter.check.gates import Limits, judge
from converter.check.matching import Matching
from converter.check.shipping import Shipped
from converter.ir.lists import Rows
from converter.ir.model import TensorSpec
from emitters.packaging.package import _compared
from emitters.packaging.script import gates, listed_rows

Array = np.ndarray[Any, Any]
Pair = tuple[dict[str, Array], dict[str, Array]]

OUTPUTS = ("interface", "non-finite", "cosine", "scale", "agreement", "max-abs-error")
"""The check's gates on outputs: those that a package's test has."""


def told(
    pairs: Sequence[Pair],
    limits: Limits,
    known: Sequence[TensorSpec],
    served: Sequence[TensorSpec] | None = None,
    lists: Sequence[Rows] = (),
) -> tuple[list[str], list[str]]:
    """What the check misses, by gate, and what the package's test does, in words."""
    comparer = comparer_for(known, Matching.of(lists, limits.cosine))
    for number, (expected, found) in enumerate(pairs):
        comparer.add(expected, found, f"s{number}")
    results = judge(limits, AccuracyResult(comparer.result()))
    ours = [item.name for item in results if item.status == "failed" and item.name in OUTPUTS]
    shipped = Shipped((), limits, tuple(known), tuple(lists))
    specs = served or [
        replace(spec, dtype=pairs[0][1][spec.name].dtype.name)
        for spec in known
        if spec.name in pairs[0][1]
    ]
    by_name = {spec.name: spec for spec in known}
    facts = {
        "gates": shipped.gates,
        "lists": [{"outputs": list(item.outputs), "axis": item.axis} for item in lists],
        "outputs": [
            {"name": spec.name, "dtype": spec.dtype, **_compared(spec, by_name.get(spec.name))}
            for spec in specs
        ],
    }
    comparison = gates.Comparison(facts)
    for number, (expected, found) in enumerate(pairs):
        comparison.add(f"s{number}", expected, found)
    return ours, comparison.misses()


def agree(*args: Any, **more: Any) -> bool:
    """Whether all is kept to, in both words."""
    ours, theirs = told(*args, **more)
    assert bool(ours) == bool(theirs), (ours, theirs)
    return not ours


def spec(name: str = "y", dtype: str = "float32", **known: Any) -> TensorSpec:
    return TensorSpec(name, dtype, None, **known)


def tilted(reference: Array, cosine: float, rng: np.random.Generator) -> Array:
    """A vector of the same norm at that cosine to ``reference``, in float64."""
    other = rng.normal(size=reference.shape)
    other -= reference * (np.vdot(other, reference) / np.vdot(reference, reference))
    other *= np.linalg.norm(reference) / np.linalg.norm(other)
    return np.asarray(reference * cosine + other * np.sqrt(1 - cosine * cosine))


@pytest.mark.parametrize("limit", [0.9999, 0.999, 0.99])
@pytest.mark.parametrize("seed", range(5))
def test_cosine_at_the_limits_edge(limit: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    reference = rng.normal(size=(1, 50)) * 10.0 ** rng.integers(-20, 20)
    known = [spec(dtype="float64")]
    for cosine, kept in ((limit + 1e-9, True), (limit - 1e-9, False)):
        pair = ({"y": reference}, {"y": tilted(reference, cosine, rng)})
        assert agree([pair], Limits(limit), known) is kept


@pytest.mark.parametrize("limit", [0.9999, 0.99])
@pytest.mark.parametrize("sign", [1, -1])
def test_scale_at_the_limits_edge(limit: float, sign: int) -> None:
    reference = np.random.default_rng(3).normal(size=(4, 9))
    limits, known = Limits(limit), [spec(dtype="float64")]
    for off, kept in ((limits.scale - 1e-9, True), (limits.scale + 1e-9, False)):
        pair = ({"y": reference}, {"y": reference * (1 + sign * off)})
        assert agree([pair], limits, known) is kept


def test_absolute_error_and_agreement_at_the_limits_edge() -> None:
    reference = np.linspace(1, 2, 100)
    for error, kept in ((0.125, True), (0.1250001, False)):
        found = reference.copy()
        found[7] += error
        pair = ({"y": reference}, {"y": found})
        assert agree([pair], Limits(0.9, 0.125), [spec(dtype="float64")]) is kept
    whole = np.arange(1000)
    for wrong, kept in ((10, True), (11, False)):
        other = whole.copy()
        other[:wrong] += 1
        limits = Limits(0.99, exact=False)  # a device may break ties otherwise
        assert agree([({"y": whole}, {"y": other})], limits, [spec(dtype="int64")]) is kept


def test_rounding_of_a_known_range_counts_for_nothing() -> None:
    reference = np.full((1, 4), 1e-7, np.float32)
    for error, kept in ((0.9 * 2**-20, True), (1.1 * 2**-20, False)):
        found = reference + np.float32(error)
        known = [spec(value_range=(0.0, 1.0))]
        assert agree([({"y": reference}, {"y": found})], Limits(0.9999), known) is kept
    alike = np.ones((1, 4), np.float32)
    pairs = [({"y": reference}, {"y": reference * 2}), ({"y": alike}, {"y": alike})]
    assert agree(pairs, Limits(0.9999), [spec(value_range=(0.0, 1.0))])


def odd() -> Iterator[tuple[str, Pair, bool]]:
    """Pairs by name, and whether they are within all limits."""
    ones, nan = np.ones((1, 3), np.float32), np.float32("nan")
    holes = np.array([[1, nan, np.inf]], np.float32)
    yield "the same", ({"y": ones}, {"y": ones}), True
    yield "NaN in both", ({"y": holes}, {"y": holes}), True
    yield "NaN where there is none", ({"y": ones}, {"y": holes}), False
    yield "the other Inf", ({"y": holes}, {"y": np.array([[1, nan, -np.inf]], np.float32)}), False
    yield "finite where it is NaN", ({"y": holes}, {"y": ones}), True
    yield "NaN alone", ({"y": ones * nan}, {"y": ones * nan}), False
    yield "zeros", ({"y": ones * 0}, {"y": ones * 0}), True
    yield "something for zeros", ({"y": ones * 0}, {"y": ones}), False
    yield "zeros for something", ({"y": ones}, {"y": ones * 0}), False
    yield "another shape", ({"y": ones}, {"y": ones[0]}), False
    yield "nothing", ({"y": ones[:0]}, {"y": ones[:0]}), True
    yield "text", ({"y": np.array(["a", "b"], object)}, {"y": np.array(["a", "b"], object)}), True
    yield "other text", ({"y": np.array(["a"], object)}, {"y": np.array(["b"], object)}), False
    yield "no output", ({"y": ones}, {}), False
    yield "another output", ({"y": ones}, {"y": ones, "z": ones}), False
    yield "bools", ({"y": ones > 0}, {"y": ones < 0}), False
    half = ones.astype(ml_dtypes.bfloat16)
    yield "bfloat16", ({"y": half}, {"y": half}), True


@pytest.mark.parametrize(("pair", "kept"), [pytest.param(p, k, id=n) for n, p, k in odd()])
def test_what_is_odd(pair: Pair, kept: bool) -> None:
    known = [spec(dtype=pair[0]["y"].dtype.name)]
    assert agree([pair], Limits(0.9999), known, known) is kept


def test_types() -> None:
    """Another type than the served one is missed; one that was asked for isn't."""
    r = np.array([[0.5, 1.0]], np.float32)
    c = r.astype(np.float16)
    limits = Limits(0.999, io_dtype="float16")
    assert agree([({"y": r}, {"y": c})], limits, [spec()], [spec(dtype="float16")])
    assert not agree([({"y": r}, {"y": c})], Limits(0.999), [spec()], [spec()])
    stored = np.array([[12, 23]], np.int8)
    served = spec(dtype="int8", scale=0.05, zero_point=2)
    facts = _compared(served, spec())
    output = gates.Output({"name": "y", "dtype": "int8", **facts})
    output.add("s", np.array([[0.5, 1.05]], np.float32), stored)
    assert output.misses({"cosine": 0.99999, "scale": 1e-3, "max_abs": 1e-6}) == []
    assert output.cosine is not None and output.cosine > 0.999999


def test_integers_that_stand_for_real_numbers() -> None:
    r = np.array([[100, 90, -128]], np.int8)
    known = [spec(dtype="int8", scale=0.1, zero_point=-128)]
    assert agree([({"y": r}, {"y": r - np.int8(1)})], Limits(0.99), known, known) is False
    near = r.copy()
    near[0, 0] += 1
    assert agree([({"y": r}, {"y": near})], Limits(0.99), known, known)
    assert not agree([({"y": r}, {"y": near})], Limits(0.99), [spec(dtype="int8")])


Change = Callable[[Mapping[str, Array], np.random.Generator], dict[str, Array]]


@pytest.mark.parametrize("seed", range(40))
def test_random_pairs(seed: int) -> None:
    """Several outputs and samples of any size, moved by any amount, some with holes."""
    rng = np.random.default_rng(seed)
    names = {"a": "float32", "b": "float64", "n": "int32"}
    amount = 10.0 ** rng.uniform(-4, 0)
    pairs = []
    for _ in range(int(rng.integers(1, 5))):
        expected = {
            name: (rng.normal(size=(1, 6)) * 10.0 ** rng.integers(-3, 4)).astype(dtype)
            for name, dtype in names.items()
        }
        found = {
            name: (array * (1 + amount * rng.normal(size=array.shape))).astype(array.dtype)
            for name, array in expected.items()
        }
        if rng.random() < 0.2:
            for side in (expected, found) if rng.random() < 0.7 else (found,):
                side["a"][0, 2] = np.nan
        pairs.append((expected, found))
    limits = Limits(float(rng.choice([0.9999, 0.999, 0.99])), 1.0 if rng.random() < 0.5 else None)
    ranges = {"a": (0.0, float(10.0 ** rng.integers(0, 6)))} if rng.random() < 0.5 else {}
    agree(pairs, limits, [spec(n, d, value_range=ranges.get(n)) for n, d in names.items()])


def test_rows_of_equal_scores_may_change_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "in_order", listed_rows.in_order)
    scores = np.array([0.9, 0.7, 0.7], np.float32)
    boxes = np.array([[0, 0, 9, 9], [1, 1, 5, 5], [6, 6, 8, 8]], np.float32)
    expected = {"scores": scores, "boxes": boxes}
    known = [spec("scores"), spec("boxes")]
    lists = [Rows(("scores", "boxes"), 0)]
    swapped = {"scores": scores, "boxes": boxes[[0, 2, 1]]}
    assert agree([(expected, swapped)], Limits(0.9999), known, lists=lists)
    other = {"scores": scores, "boxes": boxes[[1, 0, 2]]}
    assert not agree([(expected, other)], Limits(0.9999), known, lists=lists)
