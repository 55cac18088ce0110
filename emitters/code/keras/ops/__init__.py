"""ONNX's operators in Keras, by family; importing it fills the table."""

from emitters.code.keras.ops import (
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
