"""How a target wants its int8 numbers laid out: declared by its emitter, carried out here.

Weights are int8, symmetric, in every scheme: ``real = stored * scale``, one scale for each
output channel. What differs between targets is the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from converter.graph.facts import MATRIX_PRODUCTS, MOVES

CLIPPING_OPS = frozenset({"Relu", "Clip"})
"""Activations that quantization does by itself: ranges are taken after them."""

_IN_FLOAT = {"Compress", "GatherElements", "GatherND", "ReverseSequence"}
CARRYING_OPS = MOVES - _IN_FLOAT | {"MaxPool"}
"""The usual operators that move numbers: input and output share scale and zero point."""


@dataclass(frozen=True)
class Scheme:
    """A target's int8.

    Attributes:
        name: ``onnxruntime-u8s8``...
        activations: The type of quantized activations.
        symmetric: Whether their zero point is 0 (for uint8: 128).
        bias: ``float32``: left alone; ``int32``: quantized with scale_input * scale_weight.
        matrix_ops: Operators whose inputs and weights are quantized.
        other_ops: Operators without weights that the target computes in int8 between quantized
            neighbours: Add, Concat, AveragePool, Sigmoid...
        carrying_ops: Operators whose output has the input's scale and zero point.
        blending_resize: Whether a Resize that isn't ``nearest`` carries integers too.
        shared_ops: Those of ``other_ops`` all of whose inputs and outputs must have one scale
            (a Concat in some targets).
        output_ops: Operators whose kernel writes integers only, so that their output is
            quantized even where what follows is computed in float. Others write integers where
            something in int8 follows, float where not.
        fixed_outputs: Scale and zero point that an operator's output must have.
        per_channel: Whether weights have a scale for each output channel, else one.
        weight_limit: Largest stored weight; the smallest is its negative. See
            :mod:`converter.quantize.weights_int8`.
        skips_only: Whether an Add takes what a matrix operator hands it, and it alone, as it is,
            and only its other inputs are quantized: the two become one kernel then.
        clip_needs_output: Whether a Relu or Clip right behind a matrix operator keeps it in float
            unless Q follows.
        merges_bias: Whether the target makes one product of a MatMul and the bias Add behind it,
            and computes that in float unless its bias is quantized too.
        quantizes_kept: Whether the target quantizes an operator in float between Q and DQ by
            itself (:mod:`converter.quantize.guards`).
        hybrid: Whether its kernels take int8 weights beside float activations, which they round as
            they run: what a budget takes out of int8 keeps int8 weights then.
        whole: Whether an operator that can be int8 is, even where only float follows.
    """

    name: str
    activations: Literal["uint8", "int8", "int16"]
    symmetric: bool
    bias: Literal["float32", "int32"]
    matrix_ops: frozenset[str] = MATRIX_PRODUCTS
    other_ops: frozenset[str] = frozenset()
    carrying_ops: frozenset[str] = CARRYING_OPS
    blending_resize: bool = False
    shared_ops: frozenset[str] = frozenset()
    output_ops: frozenset[str] = frozenset()
    fixed_outputs: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    per_channel: bool = True
    weight_limit: int = 127
    skips_only: bool = False
    clip_needs_output: bool = False
    merges_bias: bool = False
    quantizes_kept: bool = False
    hybrid: bool = False
    whole: bool = False


_ORT_OTHER = frozenset(
    {"Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu", "Softmax"}
)

ONNXRUNTIME_CPU = Scheme(
    "onnxruntime-u8s8",
    activations="uint8",
    symmetric=False,
    bias="int32",
    matrix_ops=MATRIX_PRODUCTS - {"ConvTranspose"},
    other_ops=_ORT_OTHER,
    carrying_ops=(CARRYING_OPS - {"DepthToSpace", "SpaceToDepth"})
    | {"ReduceMax", "ReduceMin", "Resize"},
    output_ops=_ORT_OTHER | {"Conv"},
    clip_needs_output=True,
    merges_bias=True,
    quantizes_kept=True,
)
"""ONNX Runtime on CPUs with VNNI: uint8 activations, int8 weights (S8S8 is slower than float).

Which operators: those that its optimizer turns into QLinear kernels for the CPU, or drops Q and
DQ around (``qdq_selector_action_transformer.cc``; no ConvTranspose, DepthToSpace, SpaceToDepth).
A convolution needs Q behind it, a MatMul and a Gemm write float where there is none, unless a
Relu or Clip follows (``qdq_selectors.cc``: a clip without Q behind it ends the match). Before that,
MatMul and Add become a Gemm (``matmul_add_fusion.cc``), which no longer matches with a float bias.
"""

ONNXRUNTIME_CPU_REDUCED = Scheme(
    "onnxruntime-u8s7",
    activations="uint8",
    symmetric=False,
    bias="int32",
    matrix_ops=ONNXRUNTIME_CPU.matrix_ops,
    other_ops=ONNXRUNTIME_CPU.other_ops,
    carrying_ops=ONNXRUNTIME_CPU.carrying_ops,
    output_ops=ONNXRUNTIME_CPU.output_ops,
    clip_needs_output=True,
    merges_bias=True,
    quantizes_kept=True,
    weight_limit=63,
)
"""ONNX Runtime on x86 CPUs without VNNI: weights of 7 bits, or sums of two products saturate
(``reduce_range`` in its documentation, "Quantize ONNX models")."""

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
)
"""LiteRT, from its "8-bit quantization specification": activations int8 in [-128, 127] with any
zero point; weights int8 in [-127, 127] for each output channel; biases int32 with
scale_input * scale_weight and zero point 0; equal scales in and out of CONCATENATION,
MAX_POOL_2D, RESHAPE, GATHER, SLICE, TRANSPOSE, SQUEEZE...; LOGISTIC and SOFTMAX write
(1/256, -128), TANH (1/128, 0).
"""

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
)  # fmt: skip
"""LiteRT with activations of 16 bits ("16x8" of its quantization specification): int16 with a zero
point of 0 beside int8 weights; LOGISTIC, SOFTMAX, TANH write (1/32768, 0). Biases are int64, which
ONNX has no scales for: they stay float32 in the graph, and the emitter rounds them. What a budget
takes out stays float32: hybrid kernels would round to eight bits what had sixteen."""

SIXTEEN = {TFLITE.name: TFLITE_INT16.name}
"""The scheme of int16x8 of targets that have it, by that of their int8."""

COREML = Scheme(
    "coreml-w8a8",
    activations="int8",
    symmetric=True,
    bias="float32",
    other_ops=frozenset({"Add", "AveragePool", "GlobalAveragePool", "Concat"}),
)
"""Core ML from iOS 17 on (coremltools, ``linear_quantize_activations`` with mode
``linear_symmetric``): symmetric int8 activations and weights, float biases; Q and DQ before
operators, outputs not by themselves."""

SCHEMES = {
    scheme.name: scheme
    for scheme in (
        ONNXRUNTIME_CPU,
        ONNXRUNTIME_CPU_REDUCED,
        TENSORRT,
        TFLITE,
        TFLITE_INT16,
        COREML,
    )
}
