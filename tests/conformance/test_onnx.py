"""Our own opset upgrade and IR on the official node tests, in ONNX Runtime."""

from __future__ import annotations

import pytest

from tests.conformance.holding import hold

pytestmark = pytest.mark.slow

FLOOR = 1_520
"""Of the cases with plain tensors."""


def test_nothing_is_wrong() -> None:
    """What ONNX Runtime takes as it is, it takes from us, with the same results."""
    hold("onnx", FLOOR)
