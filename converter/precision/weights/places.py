"""Which weights of a node are worth storing in fewer bits, and where their channels lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, constant_tensor, is_op
from converter.ir.facts import RECURRENT, WEIGHTED
from converter.precision.weights.forms import Array

SMALLEST = 1024
"""Elements from which a weight is stored in fewer bits: less isn't worth what it loses."""

OPS = sorted(WEIGHTED | {"Gather"})

_FLOATS = (onnx_ir.DataType.FLOAT, onnx_ir.DataType.FLOAT16)


@dataclass(frozen=True)
class Weight:
    """A node's weight: which input, and its axes of output and input channels.

    Attributes:
        index: Of the input.
        value: The initializer.
        out, into: Its axes.
        flat: Whether it is stored as a matrix: all axes but the last in one, which is ``out``.
    """

    index: int
    value: onnx_ir.Value
    out: int
    into: int
    flat: bool = False

    @property
    def array(self) -> Array:
        """Its numbers, as they are stored: of two axes where it is ``flat``."""
        tensor = constant_tensor(self.value)
        assert tensor is not None
        array: Array = tensor.numpy()
        return array.reshape(-1, array.shape[-1]) if self.flat else array

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its type."""
        tensor = constant_tensor(self.value)
        assert tensor is not None
        return tensor.dtype.numpy()

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the initializer."""
        tensor = constant_tensor(self.value)
        assert tensor is not None
        return tuple(int(size) for size in tensor.shape.numpy())

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        tensor = constant_tensor(self.value)
        assert tensor is not None
        return int(tensor.size)


def weights_of(node: onnx_ir.Node) -> list[Weight]:
    """A node's constant weights of float32 or float16 that are worth storing in fewer bits."""
    if not is_op(node, *OPS):
        return []
    if node.op_type in RECURRENT:
        found = [_found(node, index, 0, 1, flat=True) for index in (1, 2)]
        return [weight for weight in found if weight is not None and len(weight.shape) == 3]
    index = 0 if node.op_type == "Gather" else 1
    tensor = constant_tensor(node.inputs[index]) if len(node.inputs) > index else None
    rank = 0 if tensor is None else len(tensor.shape)
    axes = _axes(node, rank)
    weight = None if rank < 2 or axes is None else _found(node, index, *axes)
    return [] if weight is None else [weight]


def _found(
    node: onnx_ir.Node, index: int, out: int, into: int, *, flat: bool = False
) -> Weight | None:
    value = node.inputs[index] if len(node.inputs) > index else None
    tensor = constant_tensor(value)
    if value is None or tensor is None or tensor.dtype not in _FLOATS or tensor.size < SMALLEST:
        return None
    return Weight(index, value, out, into, flat)


def _axes(node: onnx_ir.Node, rank: int) -> tuple[int, int] | None:
    """The axes of output and input channels; None for a Gather of something else than rows."""
    if node.op_type == "Gather":
        return (0, 1) if rank == 2 and not attribute_int(node, "axis", 0) else None
    if node.op_type == "Conv" or (node.op_type == "Gemm" and attribute_int(node, "transB", 0)):
        return 0, 1
    return (rank - 1, rank - 2) if node.op_type == "MatMul" else (1, 0)
