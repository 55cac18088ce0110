"""Writes ConvInteger and GlobalLpPool as simpler ONNX operators.

1. ConvInteger: Conv of float32, in which whole numbers below 2^24 are exact; x is taken in two
   parts where sums may be larger.
2. GlobalLpPool: the norm over the spatial axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir

from converter.graph.edit import constant_tensor
from emitters.lowering.attributes import number

if TYPE_CHECKING:
    from emitters.lowering.decompose import Piece

Array = np.ndarray[Any, Any]
DataType = onnx_ir.DataType

EXACT = 1 << 24
"""Whole numbers up to this one are exact in float32."""


def _values(value: onnx_ir.Value | None) -> Array | None:
    stored = constant_tensor(value)
    return None if stored is None else np.asarray(stored.numpy())


def _dims(value: onnx_ir.Value) -> list[int | str | None]:
    assert value.shape is not None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def _typed(value: onnx_ir.Value, dtype: DataType) -> onnx_ir.Value:
    value.type = onnx_ir.TensorType(dtype)
    return value


def _attributes(node: onnx_ir.Node) -> Mapping[str, Any]:
    return {name: attribute.value for name, attribute in node.attributes.items()}


# -- ConvInteger -------------------------------------------------------------------------


def conv_integer(piece: Piece) -> onnx_ir.Value | None:
    """Conv(x - x_zero_point, w - w_zero_point), its sums exact."""
    node = piece.node
    x, w = node.inputs[0], node.inputs[1]
    weights, zero = _values(w), _values(_input(node, 3))
    if x is None or weights is None or (_input(node, 3) is not None and zero is None):
        return None
    if zero is None:
        zero = np.zeros((), weights.dtype)
    zeros = zero.reshape(-1, *[1] * (weights.ndim - 1)).astype(np.int64)
    centred = weights.astype(np.int64) - zeros
    most = int(np.abs(centred).sum(axis=tuple(range(1, weights.ndim))).max(initial=0))
    real = _centred(piece, x, _input(node, 2))
    kernel = piece.constant(centred.astype(np.float32))
    if most * 255 < EXACT:
        return _convolved(piece, real, kernel)
    if most * 16 >= EXACT:
        return None
    return _in_two_parts(piece, real, kernel)


def _input(node: onnx_ir.Node, index: int) -> onnx_ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _centred(piece: Piece, x: onnx_ir.Value, zero: onnx_ir.Value | None) -> onnx_ir.Value:
    """x - zero point, in float32."""
    real = _cast(piece, x)
    if zero is None:
        return real
    return _typed(piece.add("Sub", [real, _cast(piece, zero)], _dims(x)), DataType.FLOAT)


def _cast(piece: Piece, x: onnx_ir.Value) -> onnx_ir.Value:
    shape = _dims(x) if x.shape is not None else []
    return _typed(piece.add("Cast", [x], shape, to=int(DataType.FLOAT)), DataType.FLOAT)


def _convolved(piece: Piece, x: onnx_ir.Value, kernel: onnx_ir.Value) -> onnx_ir.Value:
    """In int32."""
    shape = _dims(piece.node.outputs[0])
    made = _typed(piece.add("Conv", [x, kernel], shape, **_attributes(piece.node)), DataType.FLOAT)
    return piece.add("Cast", [made], shape, to=int(DataType.INT32))


def _in_two_parts(piece: Piece, x: onnx_ir.Value, kernel: onnx_ir.Value) -> onnx_ir.Value:
    """x = 16 * high + low, with low of 0 to 15 and high of -16 to 15."""

    def real(op: str, *inputs: onnx_ir.Value) -> onnx_ir.Value:
        return _typed(piece.add(op, inputs, _dims(x)), DataType.FLOAT)

    sixteen = piece.constant(np.asarray(16, np.float32))
    high = real("Floor", real("Mul", x, piece.constant(np.asarray(1 / 16, np.float32))))
    low = real("Sub", x, real("Mul", high, sixteen))
    shape = _dims(piece.node.outputs[0])
    above, below = _convolved(piece, high, kernel), _convolved(piece, low, kernel)
    times = piece.add("Mul", [above, piece.constant(np.asarray(16, np.int32))], shape)
    return piece.add("Add", [times, below], shape)


# -- GlobalLpPool ------------------------------------------------------------------------


def global_lp_pool(piece: Piece) -> onnx_ir.Value | None:
    """(sum |x|^p)^(1/p) over all axes but batch and channels."""
    node, x = piece.node, piece.node.inputs[0]
    assert x is not None
    order, shape = number(node, "p", 2), _dims(x)
    axes = piece.constant(np.arange(2, len(shape), dtype=np.int64))
    kept = [*shape[:2], *[1] * (len(shape) - 2)]
    if order in (1, 2):
        return piece.add(f"ReduceL{order}", [x, axes], kept, keepdims=1)
    powers = piece.add("Pow", [piece.add("Abs", [x], shape), piece.number(order)], shape)
    total = piece.add("ReduceSum", [powers, axes], kept, keepdims=1)
    return piece.add("Pow", [total, piece.number(1.0 / order)], kept)


REWRITES = {
    "ConvInteger": conv_integer,
    "GlobalLpPool": global_lp_pool,
}
