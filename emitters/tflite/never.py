"""Why operators have no lowering, where it isn't that nobody wrote one."""

from __future__ import annotations

from emitters.lowering.never import reasons

REASONS = reasons(
    random="TFLite's generators give other numbers than any other runtime's: what it computes "
    "can't be checked",
    strings="LiteRT's kernels compute on no strings",
    sequences="TFLite has tensors alone, no sequences, optionals or maps",
    training="it is for training",
)
"""By operator of ai.onnx or ai.onnx.ml."""
