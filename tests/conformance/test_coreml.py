"""The official node tests as Core ML packages, read back from disk and run."""

from __future__ import annotations

import pytest

from tests.conformance.holding import hold
from tests.conformance.tables import is_owed

pytest.importorskip("coremltools", reason="coremltools isn't installed")

FLOOR = 1_230
"""Of the cases that ONNX Runtime itself passes."""


@pytest.mark.slow
def test_nothing_is_wrong() -> None:
    """What is emitted holds the case's program; the rest is refused."""
    hold("coreml", FLOOR)


def test_core_mls_own_refusals_are_told_apart() -> None:
    """By how their reasons begin, in any part of what a case is refused for."""
    assert is_owed("coreml", "Relu: Core ML has no tensors of more than 5 axes")
    assert is_owed("coreml", "Add: there is no lowering of it; y: Core ML has no float64 - cut it")
    assert not is_owed("coreml", "Add: coremltools refuses add here")
    assert not is_owed("tflite", "y: Core ML has no float64")
