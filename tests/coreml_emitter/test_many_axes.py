"""Permutations of more than five axes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from emitters.coreml.ops.many_axes import _steps
from emitters.lowering.refused import Refused


@pytest.mark.parametrize("axes", [6, 7])
def test_every_permutation_in_two_steps(axes: int) -> None:
    data = np.arange(2**axes).reshape((2,) * axes)
    refused = 0
    for perm in list(permutations(range(axes)))[:: 1 if axes == 6 else 23]:
        made, order = data, list(range(axes))
        try:
            steps = _steps(perm)
        except Refused:
            refused += 1
            continue
        for step in steps:
            assert len(step) <= 5
            flat = [axis for block in step for axis in block]
            made, order = made.transpose(flat), [order[axis] for axis in flat]
        np.testing.assert_array_equal(made, data.transpose(perm))
    assert not refused
