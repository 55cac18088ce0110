"""OpenVINO's int8."""

from __future__ import annotations

from converter.ir.facts import MATRIX_PRODUCTS
from converter.precision.int8.scheme import CARRYING_OPS, Scheme

OPENVINO = Scheme(
    "openvino-u8s8",
    activations="uint8",
    symmetric=False,
    bias="float32",
    matrix_ops=MATRIX_PRODUCTS,
    other_ops=frozenset({"Add", "Concat", "AveragePool", "GlobalAveragePool"}),
    carrying_ops=CARRYING_OPS,
    skips_only=True,
    elsewhere=True,
)
"""OpenVINO ("Low Precision Transformations" of its documentation): uint8 activations with any zero
point, int8 weights for each output channel, biases in float; inputs of weighted operators
quantized, outputs not by themselves; of a residual Add only the skip connection, so that the
convolution before it takes the Add in.
"""
