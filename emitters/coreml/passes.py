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
- ``const_deduplication`` takes constants for one that differ by up to 1e-12, and copies those that
  lie transposed, to look at their beginnings; :func:`_deduplication` is in its place.
- ``add_fp16_cast`` and ``add_int16_cast`` bring a program to other types than its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from modelyard.containers.coreml import coremltools

LEFT_OUT = frozenset(
    {"common::int_op_canonicalization", "common::dequantize_quantize_pair_elimination",
     "common::fuse_elementwise_to_batchnorm", "common::fuse_conv_bias", "common::fuse_conv_scale",
     "common::fuse_matmul_weight_bias", "common::fuse_gelu_tanh_approximation",
     "common::fuse_pad_conv", "common::reduce_transposes", "common::fuse_transpose_matmul",
     "common::add_fp16_cast", "common::add_int16_cast"}
)  # fmt: skip

_OURS = "modelyard"
_DEDUPLICATION = "const_deduplication"


def pipeline() -> Any:
    """coremltools' ``PassPipeline``."""
    made = coremltools().PassPipeline()
    made.remove_passes(LEFT_OUT)
    _deduplication()
    theirs, ours = f"common::{_DEDUPLICATION}", f"{_OURS}::{_DEDUPLICATION}"
    made.passes = [ours if name == theirs else name for name in made.passes]
    return made


@cache
def _deduplication() -> None:
    """Registers coremltools' pass with constants that are the same bit for bit."""
    from coremltools.converters.mil.mil.passes.defs.cleanup import const_deduplication
    from coremltools.converters.mil.mil.passes.pass_registry import register_pass
    from coremltools.converters.mil.mil.var import ListVar

    @register_pass(namespace=_OURS, name=_DEDUPLICATION)
    class Deduplication(const_deduplication):  # type: ignore[misc]
        @staticmethod
        def find_constants(blocks: Iterable[Any]) -> dict[Any, list[Any]]:
            """Constants that others are the same as, by the first of them."""
            first: dict[tuple[object, ...], list[Any]] = {}
            found: dict[Any, list[Any]] = {}
            for operation in (one for block in blocks for one in block.operations):
                var = operation.outputs[0] if operation.op_type == "const" else None
                if isinstance(var, ListVar | None):
                    continue
                if not const_deduplication.should_be_deduplicated(var.val):
                    continue
                weight = getattr(operation, "weight_key", None)
                alike = first.setdefault((weight, var.dtype, var.shape, _beginning(var.val)), [])
                known = next((other for other in alike if _same(other.val, var.val)), None)
                if known is None:
                    alike.append(var)
                    found[var] = []
                else:
                    found[known].append(var)
            return found


def _beginning(array: np.ndarray[Any, Any]) -> bytes:
    return array.flat[:64].tobytes()


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays of one type and shape are the same, bit for bit."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
