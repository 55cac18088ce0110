"""Quantizing to a part of a type's range."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
from onnxscript.onnx_opset import opset18 as op


def _quantize_per_tensor(
    input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: int
) -> Any:
    """quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max,
    ScalarType dtype) -> Tensor: clamp(round(input / scale) + zero_point, quant_min, quant_max)"""
    kind = onnx_ir.DataType(dtype)

    def number(value: Any) -> Any:
        if isinstance(value, int):
            return op.Constant(value=onnx_ir.tensor(value, dtype=kind))
        return op.Cast(value, to=dtype)

    result = op.QuantizeLinear(input, op.CastLike(scale, input), number(zero_point))
    limits = np.iinfo(kind.numpy())
    if (quant_min, quant_max) == (limits.min, limits.max):
        return result
    return op.Clip(result, number(quant_min), number(quant_max))


_NAME = "quantized_decomposed.quantize_per_tensor"
TABLE = {
    f"{_NAME}.{overload}": _quantize_per_tensor for overload in ("default", "tensor", "tensor2")
}
