"""How a target wants its int8 numbers laid out: declared by its emitter, carried out here.

Weights are int8, symmetric, in every scheme: ``real = stored * scale``, one scale for each
output channel. What differs between targets is the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from converter import plugins
from converter.errors import InternalError, ModelyardError
from converter.ir.facts import MATRIX_PRODUCTS, MOVES

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
            :mod:`converter.precision.int8.weights`.
        skips_only: Whether an Add takes what a matrix operator hands it, and it alone, as it is,
            and only its other inputs are quantized: the two become one kernel then.
        clip_needs_output: Whether a Relu or Clip right behind a matrix operator keeps it in float
            unless Q follows.
        merges_bias: Whether the target makes one product of a MatMul and the bias Add behind it,
            and computes that in float unless its bias is quantized too.
        quantizes_kept: Whether the target quantizes an operator in float between Q and DQ by
            itself (:mod:`converter.precision.int8.guards`).
        hybrid: Whether its kernels take int8 weights beside float activations, which they round as
            they run: what a budget takes out of int8 keeps int8 weights then.
        whole: Whether an operator that can be int8 is, even where only float follows.
        elsewhere: Whether it runs in another runtime than the one that budgets are searched with.
        sixteen: The scheme of the same target's int16x8; None where it has none.
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
    elsewhere: bool = False
    sixteen: Scheme | None = None


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

_REFERENCE = {scheme.name: scheme for scheme in (ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_REDUCED)}


def scheme_of(name: str) -> Scheme:
    """The scheme of that name: ONNX Runtime's, or a target's.

    Raises:
        InternalError: No target that can be loaded here has it.
    """
    if name in _REFERENCE:
        return _REFERENCE[name]
    targets = plugins.available("emitters")
    for target in sorted(targets, key=lambda each: targets[each].module not in sys.modules):
        with suppress(ModelyardError):
            own: Scheme | None = plugins.load("emitters", target).scheme
            for scheme in (own, own.sixteen) if own else ():
                if scheme is not None and scheme.name == name:
                    return scheme
    raise InternalError(f"no target has the int8 scheme {name}")
