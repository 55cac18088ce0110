"""Samples of one float type for inputs of another."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from converter.check.feeding import Fed, typed, widened
from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.runtime.ort import OrtSession
from tests.passes.models import text_model

HALVES = """m (float16[batch, 3] x, int64[batch, 3] k) => (float16[batch, 3] y)
    { y = Add(x, x)  n = Neg(k) }"""


def spec(dtype: str) -> TensorSpec:
    return TensorSpec("x", dtype, ("batch", 3))


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16), ("float64", np.float64)],
)
def test_floats_are_cast(dtype: str, wanted: Any) -> None:
    given = np.array([[1.5, -2.0, 1e-3]], np.float32)
    made = typed(given, spec(dtype))
    assert made.dtype == wanted and np.allclose(made.astype(np.float64), given, rtol=1e-2)


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_nothing_else_is(dtype: str) -> None:
    given = np.zeros((1, 3), dtype)
    assert typed(given, spec(dtype)) is given
    integers = np.zeros((1, 3), np.int64)
    assert typed(integers, spec("float16")) is integers


def test_what_a_type_can_not_hold_is_refused() -> None:
    with pytest.raises(
        UsageError, match="x has the value 100000, which is more than float16 can hold"
    ):
        typed(np.array([[1.0, -1e5, 0.0]], np.float32), spec("float16"))
    assert np.isinf(typed(np.array([[np.inf, 1, 0]], np.float32), spec("float16"))[0, 0])


def test_a_session_runs_and_is_timed_on_its_own_types() -> None:
    session = Fed(OrtSession(text_model(HALVES).graph))
    feeds: Mapping[str, Any] = {
        "x": np.array([[1, 2, 3]], np.float32),
        "k": np.array([[1, 2, 3]], np.int64),
    }
    (found,) = session.run(feeds).values()
    assert found.dtype == np.float16 and found.tolist() == [[2, 4, 6]]
    assert len(session.time(feeds, 3).ns) == 3
    assert [item.dtype for item in session.inputs] == ["float16", "int64"]
    session.close()


def test_inputs_as_the_source_has_them() -> None:
    found = widened([spec("float16"), spec("bfloat16"), spec("int64"), spec("float64")])
    assert [item.dtype for item in found] == ["float32", "float32", "int64", "float64"]
