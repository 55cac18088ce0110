"""What rounding alone may change: inputs that differ in their last places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SHAKE = 2.0**-22


def rounded(feeds: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The feeds with rounding added to floats, to zeros too."""
    rng = np.random.default_rng(seed)
    moved = dict(feeds)
    for name, array in feeds.items():
        if array.dtype.kind == "f":
            noise = _SHAKE * rng.standard_normal((2, *array.shape))
            moved[name] = (array * (1 + noise[0]) + noise[1]).astype(array.dtype)
    return moved
