"""ONNX's operators in PyTorch, by family; importing it fills the table."""

from emitters.pytorch.ops import (
    attention,
    convolution,
    elementwise,
    indexing,
    linear,
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
    "attention",
    "convolution",
    "elementwise",
    "indexing",
    "linear",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resizing",
    "sequences",
    "shaping",
]
