"""The real numbers of constants, stored as such or as integers behind DequantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, constant_tensor, is_op

Array = np.ndarray[Any, Any]


def real_numbers(value: onnx_ir.Value | None) -> Array | None:
    """What a constant stands for; None where it isn't one.

    Args:
        value: A constant; what DequantizeLinear gives of constants; that, in another shape of
            known sizes or other order.
    """
    tensor, maker = constant_tensor(value), value.producer() if value is not None else None
    if tensor is not None:
        return np.asarray(tensor.numpy())
    if is_op(maker, "Reshape", "Transpose"):
        assert maker is not None
        moved, shape = real_numbers(maker.inputs[0]), maker.outputs[0].shape
        if moved is None or shape is None or not shape.is_static():
            return None
        if maker.op_type == "Reshape":
            return moved.reshape(shape.numpy())
        perm = maker.attributes.get("perm")
        return moved.transpose(perm.as_ints() if perm is not None else None)
    return _dequantized(maker) if maker is not None and is_op(maker, "DequantizeLinear") else None


def _dequantized(node: onnx_ir.Node) -> Array | None:
    """(x - zero point) * scale, each scale for all, for an index of an axis, or for a block."""
    tensors = [constant_tensor(value) for value in node.inputs if value is not None]
    arrays = [np.asarray(tensor.numpy()) for tensor in tensors if tensor is not None]
    axis = attribute_int(node, "axis", 1)
    if len(arrays) < len(tensors) or axis is None:
        return None
    x, *settings = arrays
    block = attribute_int(node, "block_size", 0) or 0
    for place, each in enumerate(settings):
        if block:
            settings[place] = each.repeat(block, axis).take(range(x.shape[axis]), axis)
        elif each.size > 1:
            settings[place] = each.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    scale, *zero = settings
    whole = x.astype(np.int64) - (zero[0].astype(np.int64) if zero else 0)
    return (whole.astype(np.float32) * scale.astype(np.float32)).astype(scale.dtype)
