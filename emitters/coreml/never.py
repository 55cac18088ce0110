"""Why operators have no lowering, where it isn't that nobody wrote one."""

from __future__ import annotations

from emitters.coreml import limits
from emitters.lowering.never import reasons

REASONS = reasons(limits.RANDOM, limits.STRINGS, limits.SEQUENCES, limits.TRAINING)
"""By operator of ai.onnx or ai.onnx.ml."""
