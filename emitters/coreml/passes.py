"""The passes of coremltools that programs of ours go through: its own, less those that change what
a program computes.

- ``int_op_canonicalization`` has a reshape between dequantize and quantize move the integers
  themselves, whatever their scales: where the two differ, numbers change.
- ``dequantize_quantize_pair_elimination`` holds scales and zero points against one another and not
  types: int8 would pass for uint8. What cancels is left out when lowering.
- ``fuse_elementwise_to_batchnorm`` makes x * a + b a batch_norm with an epsilon that nobody asked
  for, of float32 in float16 programs, and also where ``a`` has more channels than x.
- ``add_fp16_cast`` and ``add_int16_cast`` bring a program to other types than its own.
"""

from __future__ import annotations

from typing import Any

from converter.coreml_file import coremltools

LEFT_OUT = frozenset(
    {"common::int_op_canonicalization", "common::dequantize_quantize_pair_elimination",
     "common::fuse_elementwise_to_batchnorm", "common::add_fp16_cast", "common::add_int16_cast"}
)  # fmt: skip


def pipeline() -> Any:
    """coremltools' ``PassPipeline``."""
    made = coremltools().PassPipeline()
    made.remove_passes(LEFT_OUT)
    return made
