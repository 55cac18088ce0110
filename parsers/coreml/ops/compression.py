"""Compressed constants (``constexpr_*``): quantized ones stay so where ONNX has the same,
DequantizeLinear per tensor or per channel; others are expanded.

Until iOS17 what belongs to them are attributes, from iOS18 on inputs, which may be the outputs of
other such operations: one that is expanded is a constant again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from parsers.coreml import decompression
from parsers.coreml.operation import Constant, Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads

Array = np.ndarray[Any, Any]

_LARGE = 1 << 22
"""Elements from which what is looked up isn't held."""


def _constant(reader: Reader, op: Operation, name: str) -> Constant | None:
    return op.attributes.get(name) or reader.constant(op, name)


def _optional(reader: Reader, op: Operation, name: str) -> Array | None:
    constant = _constant(reader, op, name)
    if constant is not None and constant.tensor is not None:
        return np.asarray(constant.tensor.numpy())
    if not reader.has(op, name):
        return None
    found = dequantized(reader.value(op, name))
    if found is None:
        raise Refusal(f"its {name} isn't a constant of numbers")
    return found


def dequantized(x: onnx_ir.Value) -> Array | None:
    """What a quantized constant stands for; None for what is none."""
    node = x.producer()
    if node is None or node.op_type != "DequantizeLinear":
        return None
    parts = [None if item is None else item.const_value for item in node.inputs]
    data, scale, zero = (None if part is None else np.asarray(part.numpy()) for part in parts)
    if data is None or scale is None:
        return None
    axis = node.attributes["axis"].as_int() if scale.ndim else 0
    shape = [-1 if at == axis else 1 for at in range(data.ndim)]
    scales, zeros = (y if y is None or not y.ndim else y.reshape(shape) for y in (scale, zero))
    assert scales is not None
    return decompression.shifted_and_scaled(data, scales, zeros)


def _array(reader: Reader, op: Operation, name: str) -> Array:
    found = _optional(reader, op, name)
    if found is None:
        raise Refusal(f"it has no {name}")
    return found


def _number(reader: Reader, op: Operation, name: str) -> int | None:
    found = _optional(reader, op, name)
    return None if found is None else int(found.item())


def _expanded(reader: Reader, op: Operation, *arrays: Array) -> None:
    """Says that the operation's outputs are constants, of the types that it declares."""
    for output, array in zip(op.outputs, arrays, strict=True):
        dtype = output.type.dtype
        typed = array if dtype is None else array.astype(dtype.numpy(), copy=False)
        tensor = onnx_ir.Tensor(np.ascontiguousarray(typed), name=output.name)
        reader.bind(output.name, Constant(output.type, tensor))


def _looked_up(reader: Reader, op: Operation, table: Array, numbers: Array) -> None:
    """What numbers find in a table; a large one is made when it is asked for."""
    output = op.outputs[0]
    dtype = output.type.dtype or onnx_ir.DataType.from_numpy(table.dtype)
    typed = table.astype(dtype.numpy(), copy=False)
    if numbers.size < _LARGE:
        _expanded(reader, op, typed[numbers])
        return

    def made() -> onnx_ir.TensorProtocol:
        return onnx_ir.Tensor(typed.take(numbers), name=output.name)

    shape = onnx_ir.Shape(numbers.shape)
    tensor = onnx_ir.LazyTensor(made, dtype, shape, cache=False, name=output.name)
    reader.bind(output.name, Constant(output.type, tensor))


@reads("constexpr_affine_dequantize")
def affine_dequantize(reader: Reader, op: Operation) -> None:
    """scale (data - zero point), both per tensor or along an axis."""
    data, scale = _array(reader, op, "quantized_data"), _array(reader, op, "scale")
    zero = _array(reader, op, "zero_point")
    axis = (_number(reader, op, "axis") or 0) % max(data.ndim, 1)
    if zero.dtype == data.dtype:
        _kept(reader, op, "quantized_data", scale, zero, axis)
        return
    shape = [-1 if at == axis else 1 for at in range(data.ndim)]
    scales, zeros = (x.reshape(shape) if x.ndim else x for x in (scale, zero))
    _expanded(reader, op, decompression.shifted_and_scaled(data, scales, zeros))


@reads("constexpr_blockwise_shift_scale")
def blockwise_shift_scale(reader: Reader, op: Operation) -> None:
    """scale (data - offset), of each block its own; in ONNX where a block is a channel or all."""
    data, scale = _array(reader, op, "data"), _array(reader, op, "scale")
    offset = _optional(reader, op, "offset")
    zero = np.zeros(scale.shape, data.dtype) if offset is None else offset
    axis = _channel_axis(data, scale)
    if axis is not None and data.dtype in (np.int8, np.uint8) and zero.dtype == data.dtype:
        scalar = scale.size == 1
        scales, zeros = (x.reshape(() if scalar else (-1,)) for x in (scale, zero))
        _kept(reader, op, "data", scales, zeros, axis)
    else:
        _expanded(reader, op, decompression.shifted_and_scaled(data, scale, offset))


def _channel_axis(data: Array, scale: Array) -> int | None:
    """The one axis that has scales, for each place one; None where there are blocks."""
    axes = [axis for axis, count in enumerate(scale.shape) if count > 1]
    if not axes:
        return 0
    one = len(axes) == 1 and scale.shape[axes[0]] == data.shape[axes[0]]
    return axes[0] if one else None


def _kept(reader: Reader, op: Operation, data: str, scale: Array, zero: Array, axis: int) -> None:
    """DequantizeLinear; a scale and a zero point are both per tensor, or both along the axis."""
    shape = np.broadcast_shapes(scale.shape, zero.shape)
    name = op.outputs[0].name
    constant = _constant(reader, op, data)
    assert constant is not None
    inputs = [
        reader.held(constant, f"{name}_quantized"),
        reader.const(np.broadcast_to(scale, shape), name=f"{name}_scale"),
        reader.const(np.broadcast_to(zero, shape), name=f"{name}_zero_point"),
    ]
    attributes = {"axis": axis} if shape else {}
    reader.give(op, reader.node("DequantizeLinear", inputs, attributes, inputs[1].dtype))


@reads("constexpr_cast")
def cast(reader: Reader, op: Operation) -> None:
    """The constant in another type."""
    _expanded(reader, op, _array(reader, op, "source_val"))


@reads("constexpr_lut_to_dense")
def lut_to_dense(reader: Reader, op: Operation) -> None:
    """Indices into tables; until iOS17 into one, and packed to bits."""
    indices, table = _array(reader, op, "indices"), _array(reader, op, "lut")
    shape = _optional(reader, op, "shape")
    if shape is not None:
        bits, sizes = int(np.log2(table.size)), shape.astype(np.int64)
        numbers = decompression.unpacked(indices, bits, int(np.prod(sizes)))
        _looked_up(reader, op, table, numbers.reshape(sizes))
    else:
        axis = _number(reader, op, "vector_axis")
        _expanded(reader, op, decompression.looked_up(indices, table, axis))


@reads("constexpr_sparse_to_dense")
def sparse_to_dense(reader: Reader, op: Operation) -> None:
    """What isn't zero, and a mask of where it is; until iOS17 packed to bits."""
    values, mask = _array(reader, op, "nonzero_data"), _array(reader, op, "mask")
    shape = _optional(reader, op, "shape")
    if shape is not None:
        count = int(np.prod(shape, dtype=np.int64))
        mask = decompression.unpacked(mask, 1, count).reshape(shape.astype(np.int64))
    _expanded(reader, op, decompression.dense(values, mask))


@reads("constexpr_lut_to_sparse")
def lut_to_sparse(reader: Reader, op: Operation) -> None:
    """Gives a mask and what isn't zero, looked up in tables."""
    mask, values = _array(reader, op, "indices_mask"), _array(reader, op, "indices_nonzero_data")
    table, axis = _array(reader, op, "lut"), _number(reader, op, "vector_axis")
    all_values = decompression.looked_up(decompression.dense(values, mask), table, axis)
    if table.shape[-1] > 1:
        mask = np.repeat(mask, table.shape[-1], axis)
    _expanded(reader, op, mask, all_values[mask != 0])


@reads("constexpr_sparse_blockwise_shift_scale")
def sparse_blockwise_shift_scale(reader: Reader, op: Operation) -> None:
    """Gives a mask and what isn't zero, shifted and scaled."""
    mask, values = _array(reader, op, "data_mask"), _array(reader, op, "nonzero_data")
    scale, offset = _array(reader, op, "scale"), _optional(reader, op, "offset")
    whole = decompression.shifted_and_scaled(decompression.dense(values, mask), scale, offset)
    _expanded(reader, op, mask, whole[mask != 0])
