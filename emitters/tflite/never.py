"""Why operators have no lowering, where it isn't that nobody wrote one."""

from __future__ import annotations

from emitters.lowering.never import reasons

REASONS = reasons(
    random=(
        "TFLite's generators give other numbers than every other runtime's, so its outputs "
        "can't be checked"
    ),
    strings="LiteRT's kernels compute on no strings",
    sequences="TFLite only has tensors, no sequences, optionals or maps",
    training="it is for training",
)
"""By operator of ai.onnx or ai.onnx.ml."""
