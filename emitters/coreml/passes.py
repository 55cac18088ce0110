"""The passes of coremltools that programs of ours go through: its own, less those that change what
a program computes.

- ``int_op_canonicalization`` has a reshape between dequantize and quantize move the integers
  themselves, whatever their scales: where the two differ, numbers change.
- ``dequantize_quantize_pair_elimination`` holds scales and zero points against one another and not
  types: int8 would pass for uint8. What cancels is left out when lowering.
- ``fuse_elementwise_to_batchnorm`` makes x * a + b a batch_norm with an epsilon that nobody asked
  for, of float32 in float16 programs, and also where ``a`` has more channels than x.
- ``fuse_conv_bias`` negates what is subtracted where it lies, for all who have that constant, and
  ends where a weight is compressed and a transpose follows; ``fuse_conv_scale`` ends at
  transposed convolutions of three axes. What there is to fuse is fused before lowering.
- ``fuse_matmul_weight_bias`` takes ``c - x W`` for ``x W - c``, ends where a product is an output
  too, and makes a ``linear`` of more axes than that takes; products of fewer are one anyway.
- ``fuse_gelu_tanh_approximation`` takes parts of the formula away that others read, and has x's
  shape where constants had one axis more; Gelus are one operator before lowering.
- ``fuse_pad_conv`` ends at borders of the batch between a transpose and a convolution.
- ``reduce_transposes`` gives an operation that takes both a tensor and its transpose the transpose
  twice; the pass ``transposes`` took those away before lowering that can go.
- ``fuse_transpose_matmul`` counts the axes of a transpose from the end, where they lie: passes
  that join transposes then take it for another. Products are of what was transposed from the start.
- ``add_fp16_cast`` and ``add_int16_cast`` bring a program to other types than its own.
"""

from __future__ import annotations

from typing import Any

from converter.files.coreml import coremltools

LEFT_OUT = frozenset(
    {"common::int_op_canonicalization", "common::dequantize_quantize_pair_elimination",
     "common::fuse_elementwise_to_batchnorm", "common::fuse_conv_bias", "common::fuse_conv_scale",
     "common::fuse_matmul_weight_bias", "common::fuse_gelu_tanh_approximation",
     "common::fuse_pad_conv", "common::reduce_transposes", "common::fuse_transpose_matmul",
     "common::add_fp16_cast", "common::add_int16_cast"}
)  # fmt: skip


def pipeline() -> Any:
    """coremltools' ``PassPipeline``."""
    made = coremltools().PassPipeline()
    made.remove_passes(LEFT_OUT)
    return made
