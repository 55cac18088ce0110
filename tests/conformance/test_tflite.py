"""The official node tests in LiteRT."""

from __future__ import annotations

import pytest

from tests.conformance.holding import hold

pytestmark = pytest.mark.slow

FLOOR = 1_260
"""Of the cases that ONNX Runtime itself passes."""


def test_nothing_is_wrong() -> None:
    """What is emitted runs in LiteRT and gives what the case says; the rest is refused."""
    hold("tflite", FLOOR)
