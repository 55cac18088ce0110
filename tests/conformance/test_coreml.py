"""The official node tests as Core ML packages, read back from disk and run."""

from __future__ import annotations

import pytest

from tests.conformance.holding import hold

pytest.importorskip("coremltools", reason="coremltools isn't installed")
pytestmark = pytest.mark.slow

FLOOR = 1_230
"""Of the cases that ONNX Runtime itself passes."""


def test_nothing_is_wrong() -> None:
    """What is emitted holds the case's program; the rest is refused."""
    hold("coreml", FLOOR)
