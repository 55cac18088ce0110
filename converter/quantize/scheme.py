"""How a target wants its int8 numbers laid out: declared by its emitter, carried out here.

Weights are int8, symmetric, in every scheme: ``real = stored * scale``, one scale for each
output channel. What differs between targets is the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MATRIX_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators that hold nearly all arithmetic: they are what int8 is for."""

CARRYING_OPS = frozenset(
    {
        "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice",
        "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators that move numbers and change none: input and output share scale and zero point."""


@dataclass(frozen=True)
class Scheme:
    """A target's int8.

    Attributes:
        name: ``onnxruntime-u8s8``...
        activations: The type of quantized activations.
        symmetric: Whether their zero point is 0 (for uint8: 128).
        bias: ``float32``: left alone; ``int32``: quantized with scale_input * scale_weight.
        matrix_ops: Operators whose inputs, weights and outputs are quantized.
        other_ops: Operators without weights that the target computes in int8 between quantized
            neighbours: Add, Concat, AveragePool, Sigmoid...
        carrying_ops: Operators whose output has the input's scale and zero point.
        shared_ops: Operators all of whose inputs and outputs must have one scale (a Concat in
            some targets).
        per_channel: Whether weights have a scale for each output channel, else one.
        quantized_outputs: Whether a matrix operator's output is quantized too, so that the next
            one reads integers, even where what follows is computed in float.
    """

    name: str
    activations: Literal["uint8", "int8"]
    symmetric: bool
    bias: Literal["float32", "int32"]
    matrix_ops: frozenset[str] = MATRIX_OPS
    other_ops: frozenset[str] = frozenset()
    carrying_ops: frozenset[str] = CARRYING_OPS
    shared_ops: frozenset[str] = frozenset()
    per_channel: bool = True
    quantized_outputs: bool = True


ONNXRUNTIME_CPU = Scheme(
    "onnxruntime-u8s8",
    activations="uint8",
    symmetric=False,
    bias="int32",
    other_ops=frozenset(
        {"Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu"}
    ),
)
"""ONNX Runtime on CPUs with VNNI: uint8 activations, int8 weights (S8S8 is slower than float)."""

TENSORRT = Scheme(
    "tensorrt-s8",
    activations="int8",
    symmetric=True,
    bias="float32",
    other_ops=frozenset({"Add", "Concat", "AveragePool", "GlobalAveragePool"}),
)
"""TensorRT: everything symmetric, biases left in float."""

TFLITE = Scheme(
    "tflite-int8",
    activations="int8",
    symmetric=False,
    bias="int32",
    other_ops=frozenset({"Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "Sigmoid"}),
    shared_ops=frozenset({"Concat"}),
)
"""LiteRT (its quantization specification): int8 asymmetric activations, int32 biases."""

COREML = Scheme(
    "coreml-w8a8",
    activations="int8",
    symmetric=True,
    bias="float32",
    other_ops=frozenset({"Add", "AveragePool", "GlobalAveragePool"}),
)
"""Core ML from iOS 17 on: symmetric int8 activations and weights, float biases."""

SCHEMES = {scheme.name: scheme for scheme in (ONNXRUNTIME_CPU, TENSORRT, TFLITE, COREML)}
