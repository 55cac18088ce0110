"""Made-up samples."""

from typing import Any

import numpy as np
import pytest

from tests.samples.conftest import Load, Refuse, spec


def test_without_samples_they_are_random_and_say_so(load: Load) -> None:
    samples = load(None, spec("x", "batch", 3))
    assert samples.random
    assert len(samples) == 8
    assert samples.origin == "8 random inputs (seed 0), since no samples were given"
    assert not samples.labelled
    assert len(load("random:5", spec("x", "batch", 3))) == 5
    assert len(load("random:5", spec("x", "batch", 3), samples_limit=2)) == 2


def test_the_seed_decides(load: Load) -> None:
    inputs = (spec("x", "batch", 3), spec("n", "batch", dtype="int64"))
    same = [load("random:3", *inputs, seed=4) for _ in range(2)]
    for one, other in zip(*same, strict=True):
        np.testing.assert_array_equal(one.feeds["x"], other.feeds["x"])
    assert same[0].digest == same[1].digest
    first, second, _ = same[0]
    assert not np.array_equal(first.feeds["x"], second.feeds["x"])
    other = load("random:3", *inputs, seed=5)
    assert not np.array_equal(next(iter(other)).feeds["x"], first.feeds["x"])
    assert other.digest != same[0].digest


@pytest.mark.parametrize(("dtype", "more", "low", "high"), [
    ("float32", {}, -9, 9),
    ("float16", {"value_range": (2.0, 3.0)}, 2, 3),
    ("bfloat16", {"value_range": (2.0, 3.0)}, 2, 3),
    ("float64", {"value_range": (-1.0, 0.0)}, -1, 0),
    ("int64", {}, 0, 1),
    ("uint8", {"value_range": (0, 255)}, 0, 255),
    ("int8", {"value_range": (-128, 127)}, -128, 127),
    ("int8", {"scale": 0.1, "zero_point": 3}, -128, 127),
    ("bool", {}, 0, 1),
])  # fmt: skip
def test_values_by_dtype(load: Load, dtype: str, more: Any, low: int, high: int) -> None:
    (sample,) = load("random:1", spec("x", "batch", 5000, dtype=dtype, **more))
    array = sample.feeds["x"]
    assert array.dtype.name == dtype
    assert array.shape == (1, 5000)
    values = array.astype(np.float64)
    assert low <= values.min() < values.max() <= high
    if dtype == "float32":
        assert abs(values.mean()) < 0.1
        assert abs(values.std() - 1) < 0.1
    elif high - low > 1:
        assert (values.min(), values.max()) == (low, high)  # both ends are in it
    if array.dtype.kind in "iu":
        assert np.unique(array).size == high - low + 1


def test_sizes_of_free_dimensions(load: Load, refuse: Refuse) -> None:
    inputs = (spec("x", "batch", "length", 4), spec("h", 2, "batch"), spec("rate"))
    error = refuse(None, *inputs, says="x: length of float32[batch, length, 4] has no size")
    assert "--dim NAME=SIZE" in error.hint
    (sample,) = load("random:1", *inputs, sizes={"length": 7})
    assert sample.feeds["x"].shape == (1, 7, 4)
    assert sample.feeds["h"].shape == (2, 1)
    assert sample.feeds["rate"].shape == ()
    refuse("random:1", spec("t", "batch", dtype="string"), says="text can't be made up")


@pytest.mark.parametrize(
    "text", ["random:", "random:0", "random:-1", "random:x", "random:1.5", "random:" + "9" * 26]
)
def test_how_many_has_to_be_a_number(refuse: Refuse, text: str) -> None:
    refuse(text, spec("x", "batch"), says=f"--samples {text}: expected random:N")


def test_sources_that_are_not_there(refuse: Refuse) -> None:
    refuse("no/such/folder", spec("x", 1), says="no/such/folder: there is no such file")
    refuse(__file__, spec("x", 1), says="test_generated.py:FUNCTION")
