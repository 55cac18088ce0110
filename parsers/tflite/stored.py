"""Constants as they are stored, and the step between stored integers and real numbers.

ONNX pages: DequantizeLinear, QuantizeLinear (opset 19: int8, uint8; int32 only in the former,
without a zero point). Other integer types are written out in Cast, Mul, Round and Clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir

from parsers.tflite.builder import Builder
from parsers.tflite.model import Array, Quantization, Tensor

_NARROW = ("int8", "uint8", "int4")
_QUANTIZED = (*_NARROW, "int16")
"""Types that stand for real numbers wherever they have a scale."""


@dataclass(frozen=True)
class StoredConstant:
    """A constant.

    Attributes:
        data: As in the file.
        dtype: The tensor's type.
        quantization: How ``data`` stands for real numbers; None where it is what it says.
        name: The tensor's.
        folded: Whether it is the result of a DEQUANTIZE, float32 however it is stored.
    """

    data: Array
    dtype: str
    quantization: Quantization | None
    name: str
    folded: bool = False

    @classmethod
    def of(cls, tensor: Tensor) -> StoredConstant:
        """The value of a constant tensor."""
        assert tensor.data is not None
        quantization = tensor.quantization if is_quantized(tensor) else None
        return cls(tensor.data, tensor.dtype, quantization, tensor.name)

    def numbers(self) -> Array:
        """What it stands for: float32 where it is quantized."""
        if self.quantization is None:
            return self.data.astype(np.float32) if self.folded else self.data
        return numbers(self.data, self.quantization)

    def permuted(self, permutation: Sequence[int]) -> StoredConstant:
        """With its dimensions permuted, and the axis of its scales with them."""
        data = np.ascontiguousarray(np.transpose(self.data, permutation))
        quantization = self.quantization
        if quantization is not None and quantization.axis is not None:
            axis = list(permutation).index(quantization.axis % self.data.ndim)
            quantization = replace(quantization, axis=axis)
        return replace(self, data=data, quantization=quantization)

    def initializer(self, builder: Builder) -> onnx_ir.Value:
        """An initializer of ``data``."""
        data = self.data.astype(np.int8) if self.dtype == "int4" else self.data
        return builder.const(data, self.name)

    def real(self, builder: Builder) -> onnx_ir.Value:
        """A value of what it stands for."""
        value = self.initializer(builder)
        if self.quantization is not None:
            return dequantize(builder, value, self.dtype, self.quantization)
        if self.folded and self.dtype != "float32":
            to = int(onnx_ir.DataType.FLOAT)
            return builder.add("Cast", [value], to=to).outputs[0]
        return value


def numbers(data: Array, quantization: Quantization) -> Array:
    """The real numbers, float32, that stored integers stand for."""
    scale, zero = _aligned(quantization, data.ndim)
    result: Array = (data.astype(np.float32) - zero.astype(np.float32)) * scale
    return result


def is_quantized(tensor: Tensor) -> bool:
    """Whether a tensor's integers stand for real numbers. Wide ones do as constants (biases);
    as indices and counts they may have a scale that nothing looks at."""
    if tensor.quantization is None:
        return False
    is_wide = tensor.dtype in ("int32", "int64")
    return tensor.dtype in _QUANTIZED or (is_wide and tensor.data is not None)


def same_scale(first: Tensor, second: Tensor) -> bool:
    """Whether equal stored elements of the two stand for equal numbers."""
    a, b = first.quantization, second.quantization
    if first.dtype != second.dtype:
        return False
    if first.dtype not in _QUANTIZED:
        return True
    if a is None or b is None:
        return a is b
    if a.axis is not None or b.axis is not None:
        return False
    return np.array_equal(a.scale, b.scale) and np.array_equal(a.zero_point, b.zero_point)


def dequantize(
    builder: Builder, value: onnx_ir.Value, dtype: str, quantization: Quantization
) -> onnx_ir.Value:
    """Real numbers, in float32, out of stored integers.

    Args:
        builder: Takes the nodes.
        value: The integers.
        dtype: Their type.
        quantization: Their scales and zero points.
    """
    zero = quantization.zero_point
    if dtype in _NARROW or (dtype == "int32" and not np.any(zero)):
        inputs = [value, _scale(builder, quantization)]
        if dtype in _NARROW:
            inputs.append(_zero_point(builder, quantization, dtype))
        axis = quantization.axis
        return builder.add("DequantizeLinear", inputs, axis=axis).outputs[0]
    # 16-bit activations and their 64-bit biases. Their numbers are exact in float32 up to 2^24;
    # above, a bias loses what its sum with the products would lose as well.
    rank = 0 if quantization.axis is None else len(value.shape or ())
    scale, shift = _aligned(quantization, rank)
    real = builder.add("Cast", [value], to=int(onnx_ir.DataType.FLOAT)).outputs[0]
    if np.any(shift):
        real = builder.add("Sub", [real, builder.const(shift.astype(np.float32))]).outputs[0]
    return builder.add("Mul", [real, builder.const(scale)]).outputs[0]


def quantize(
    builder: Builder, value: onnx_ir.Value, dtype: str, quantization: Quantization
) -> onnx_ir.Value:
    """Stored integers out of real numbers.

    Args:
        builder: Takes the nodes.
        value: The real numbers, in float32.
        dtype: The integers' type.
        quantization: Their scales and zero points.
    """
    if dtype in _NARROW:
        scale, zero = _scale(builder, quantization), _zero_point(builder, quantization, dtype)
        inputs = [value, scale, zero]
        return builder.add("QuantizeLinear", inputs, axis=quantization.axis).outputs[0]
    limits = np.iinfo(np.dtype(dtype))
    scale, shift = (builder.const(part.reshape(())) for part in _float_parts(quantization))
    high = np.float32(limits.max)
    if float(high) > limits.max:  # 2^31 - 1 isn't a float32, and 2^31 doesn't fit
        high = np.nextafter(high, np.float32(0))
    steps = builder.add("Div", [value, scale]).outputs[0]
    steps = builder.add("Round", [steps]).outputs[0]
    steps = builder.add("Add", [steps, shift]).outputs[0]
    ends = [builder.const(np.array(end, np.float32)) for end in (limits.min, high)]
    clipped = builder.add("Clip", [steps, *ends]).outputs[0]
    to = int(onnx_ir.DataType.from_numpy(np.dtype(dtype)))
    return builder.add("Cast", [clipped], to=to).outputs[0]


def _float_parts(quantization: Quantization) -> tuple[Array, Array]:
    return quantization.scale.astype(np.float32), quantization.zero_point.astype(np.float32)


def _scale(builder: Builder, quantization: Quantization) -> onnx_ir.Value:
    return builder.const(_shaped(quantization.scale, quantization).astype(np.float32), "scale")


def _zero_point(builder: Builder, quantization: Quantization, dtype: str) -> onnx_ir.Value:
    kind = np.dtype("int8" if dtype == "int4" else dtype)
    zero = np.broadcast_to(quantization.zero_point, np.shape(quantization.scale))
    return builder.const(_shaped(zero, quantization).astype(kind), "zero_point")


def _shaped(items: Array, quantization: Quantization) -> Array:
    """A scalar for one scale, a vector for one a slice."""
    return np.reshape(items, (-1,) if quantization.axis is not None else ())


def _aligned(quantization: Quantization, rank: int) -> tuple[Array, Array]:
    """Scale and zero point in a shape that broadcasts against a tensor of ``rank``."""
    scale = quantization.scale.astype(np.float32)
    zero = np.broadcast_to(quantization.zero_point, scale.shape)
    if quantization.axis is None:
        return scale.reshape(()), zero.reshape(())
    shape = [1] * rank
    shape[quantization.axis] = -1
    return scale.reshape(shape), zero.reshape(shape)
