"""What tables ask of constants that become a layer's tensors."""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import constant_tensor, is_op
from emitters.code.context import shape_of
from emitters.code.steps import Value

_FLOATS = {
    onnx_ir.DataType.FLOAT,
    onnx_ir.DataType.FLOAT16,
    onnx_ir.DataType.BFLOAT16,
    onnx_ir.DataType.DOUBLE,
}


def is_weight(value: Value | None, rank: int | None = None) -> bool:
    """Whether a value is a constant of floats, of so many axes."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.dtype not in _FLOATS:
        return False
    return rank is None or len(tensor.shape) == rank


def only_use(value: Value) -> onnx_ir.Node | None:
    """The one node that takes a value, once."""
    uses = list(value.uses())
    if value.is_graph_output() or len(uses) != 1:
        return None
    return uses[0].node


def bias_of(value: Value, size: int) -> tuple[onnx_ir.Node, Value] | None:
    """The Add behind a product that adds a constant to its last axis."""
    node = only_use(value)
    if node is None or not is_op(node, "Add"):
        return None
    for other in node.inputs:
        if other is not value and is_weight(other):
            shape = shape_of(other) or []
            if shape and shape[-1] == size and all(dim == 1 for dim in shape[:-1]):
                rank = shape_of(value)
                if rank is not None and len(rank) >= len(shape):
                    assert other is not None
                    return node, other
    return None


def is_row(value: Value, shape: list[int | str | None], across: int) -> bool:
    """Whether a Gemm adds a row of as many elements as its result has columns.

    Args:
        value: What is added.
        shape: The Gemm's matrix; a free size is a name or None.
        across: Whether the matrix is transposed, and so has the columns on its first axis.
    """
    own = shape_of(value) or []
    size = shape[0 if across else 1] if len(shape) == 2 else None
    return bool(own) and own[-1] == size and all(dim == 1 for dim in own[:-1])
