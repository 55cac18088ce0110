"""TensorRT's int8."""

from __future__ import annotations

from converter.precision.int8.scheme import Scheme

TENSORRT = Scheme(
    "tensorrt-s8",
    activations="int8",
    symmetric=True,
    bias="float32",
    other_ops=frozenset({"Add", "Concat", "AveragePool", "GlobalAveragePool"}),
    skips_only=True,
)
"""TensorRT, explicit quantization ("Q/DQ Layer-Placement Recommendations" of its documentation):
symmetric with zero point 0, biases left in float; all inputs of weighted operators quantized,
outputs not by themselves; of a residual Add only the skip connection, so that the convolution
before it takes the Add in. ReLU is fused: nothing between a convolution and it.
"""
