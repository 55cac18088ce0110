"""ONNX's operators in PyTorch, by family; importing it fills the table."""

from emitters.pytorch.ops import (
    activations,
    attention,
    convolution,
    elementwise,
    indexing,
    linear,
    making,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    resizing,
    sequences,
    shaping,
)

__all__ = [
    "activations",
    "attention",
    "convolution",
    "elementwise",
    "indexing",
    "linear",
    "making",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resizing",
    "sequences",
    "shaping",
]
