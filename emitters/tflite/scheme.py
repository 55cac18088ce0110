"""LiteRT's int8 and int16x8."""

from __future__ import annotations

from converter.ir.facts import MATRIX_PRODUCTS
from converter.precision.int8.scheme import CARRYING_OPS, Scheme

_TFLITE_OTHER_16 = frozenset(
    {"Add", "Sub", "Mul", "Concat", "GlobalAveragePool", "ReduceMean", "Sigmoid", "Tanh",
     "LeakyRelu", "Softmax"}
)  # fmt: skip

TFLITE_INT16 = Scheme(
    "tflite-int16x8",
    activations="int16",
    symmetric=True,
    bias="float32",
    matrix_ops=MATRIX_PRODUCTS - {"ConvTranspose"},
    other_ops=_TFLITE_OTHER_16,
    carrying_ops=frozenset(
        {"Flatten", "Gather", "Identity", "MaxPool", "Pad", "Reshape", "Slice", "Split", "Squeeze",
         "Transpose", "Unsqueeze"}
    ),
    shared_ops=frozenset({"Concat"}),
    output_ops=MATRIX_PRODUCTS | _TFLITE_OTHER_16,
    fixed_outputs=dict.fromkeys(("Sigmoid", "Softmax", "Tanh"), (1 / 32768, 0)),
    whole=True,
    elsewhere=True,
)  # fmt: skip
"""LiteRT with activations of 16 bits ("16x8" of its quantization specification): int16 with a zero
point of 0 beside int8 weights; LOGISTIC, SOFTMAX, TANH write (1/32768, 0). Biases are int64, which
ONNX has no scales for: they stay float32 in the graph, and the emitter rounds them. What a budget
takes out stays float32: hybrid kernels would round to eight bits what had sixteen."""

_TFLITE_OTHER = frozenset(
    {"Add", "Sub", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "ReduceMean", "Sigmoid",
     "Tanh", "LeakyRelu", "PRelu", "HardSwish", "Softmax"}
)  # fmt: skip

TFLITE = Scheme(
    "tflite-int8",
    activations="int8",
    symmetric=False,
    bias="int32",
    other_ops=_TFLITE_OTHER,
    carrying_ops=CARRYING_OPS | {"Pad", "ReduceMax", "ReduceMin", "Resize"},
    blending_resize=True,
    shared_ops=frozenset({"Concat"}),
    output_ops=MATRIX_PRODUCTS | _TFLITE_OTHER,
    fixed_outputs={
        "Sigmoid": (1 / 256, -128),
        "Softmax": (1 / 256, -128),
        "Tanh": (1 / 128, 0),
    },
    hybrid=True,
    whole=True,
    elsewhere=True,
    sixteen=TFLITE_INT16,
)
"""LiteRT, from its "8-bit quantization specification": activations int8 in [-128, 127] with any
zero point; weights int8 in [-127, 127] for each output channel; biases int32 with
scale_input * scale_weight and zero point 0; equal scales in and out of CONCATENATION,
MAX_POOL_2D, RESHAPE, GATHER, SLICE, TRANSPOSE, SQUEEZE...; LOGISTIC and SOFTMAX write
(1/256, -128), TANH (1/128, 0).
"""
