"""Random numbers are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import compute


def test_all_are_listed() -> None:
    shape = np.array([2, 3], np.int32)

    def body(mb: Any, x: Any) -> list[Any]:
        return [
            mb.random_normal(shape=shape, seed=1),
            mb.random_uniform(shape=shape, seed=1),
            mb.random_bernoulli(shape=shape, seed=1),
            mb.random_categorical(x=x, size=2, seed=1),
        ]

    with pytest.raises(UnsupportedError, match="4 operations") as caught:
        compute(body, {"x": np.zeros((2, 3), np.float32)})
    assert {item.op for item in caught.value.items} == {
        "random_normal",
        "random_uniform",
        "random_bernoulli",
        "random_categorical",
    }
    assert all("compared" in item.reason for item in caught.value.items)
