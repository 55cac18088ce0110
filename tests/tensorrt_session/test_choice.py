"""Choosing an optimization profile."""

from __future__ import annotations

import pytest

from converter.errors import UsageError
from emitters.tensorrt.profile_choice import Range, choose_profile


def _batches(low: int, best: int, high: int) -> dict[str, Range]:
    return {"x": ((low, 3), (best, 3), (high, 3))}


PROFILES = [_batches(1, 1, 4), _batches(2, 8, 16), _batches(8, 32, 64)]


@pytest.mark.parametrize(
    ("batch", "index"), [(1, 0), (2, 0), (3, 1), (4, 1), (8, 1), (15, 1), (16, 1), (17, 2), (64, 2)]
)
def test_the_nearest_that_fits(batch: int, index: int) -> None:
    assert choose_profile({"x": (batch, 3)}, PROFILES, "testing") == index


@pytest.mark.parametrize("shape", [(65, 3), (1, 4), (1, 3, 1), (0, 3)])
def test_none_fits(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        choose_profile({"x": shape}, PROFILES, "testing")
    assert len(caught.value.details) == 3
