"""The official node tests through TensorRT-RTX: parsed and built, one process a build."""

from __future__ import annotations

import pytest

from tests.conformance.holding import hold
from tests.conformance.selection import Filters

pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx isn't installed")
pytestmark = pytest.mark.slow

SHARE, FLOOR = 8, 155
"""One case in so many, and how many of those are built at least. Two processes a case are too much
for all of them here: `python -m tests.conformance --target tensorrt-rtx` runs the whole."""


def test_nothing_crashes() -> None:
    """A case is built, or refused with the reason."""
    hold("tensorrt-rtx", FLOOR, Filters(share=SHARE))
