"""Core ML's int8."""

from __future__ import annotations

from converter.precision.int8.scheme import Scheme

COREML = Scheme(
    "coreml-w8a8",
    activations="int8",
    symmetric=True,
    bias="float32",
    other_ops=frozenset({"Add", "AveragePool", "GlobalAveragePool", "Concat"}),
    elsewhere=True,
)
"""Core ML from iOS 17 on (coremltools, ``linear_quantize_activations`` with mode
``linear_symmetric``): symmetric int8 activations and weights, float biases; Q and DQ before
operators, outputs not by themselves."""
