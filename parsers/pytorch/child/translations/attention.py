"""Attention with a mask: a row that sees nothing gives 0, as in torch.

Softmax of such a row is 1/n everywhere, or NaN where the mask is -inf; torch's softmax there is 0
(``_safe_softmax``). So what such rows give is replaced: a choice by row, of the result.

    seen = ReduceMax(mask, -1);  Where(seen, attention(...), 0)

Where a mask is known to let something through in each row, the pass ``fuse-attention`` drops it.
"""

from __future__ import annotations

from typing import Any

import onnx_ir
from onnxscript import opset18 as op
from onnxscript.function_libs.torch_lib.ops import nn as torchlib

_LAST = (-1,)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """aten.scaled_dot_product_attention; causal attention always sees the first key."""
    added = attn_mask
    if attn_mask is not None and attn_mask.dtype == onnx_ir.DataType.BOOL:
        added = op.Where(attn_mask, _number(query, 0.0), _number(query, query.dtype.min))
    given = torchlib.aten_scaled_dot_product_attention(
        query, key, value, added, dropout_p, is_causal, scale, enable_gqa
    )
    if attn_mask is None:
        return given
    return op.Where(_seen(attn_mask), given, _number(query, 0.0))


def _seen(mask: Any) -> Any:
    """Whether a row lets anything through."""
    last = op.Constant(value_ints=_LAST)
    if mask.dtype == onnx_ir.DataType.BOOL:
        numbers = op.Cast(mask, to=onnx_ir.DataType.INT32)
        return op.Cast(op.ReduceMax(numbers, last, keepdims=1), to=onnx_ir.DataType.BOOL)
    largest = op.ReduceMax(mask, last, keepdims=1)
    return op.Greater(largest, _number(mask, float("-inf")))


def _number(like: Any, number: float) -> Any:
    return op.Constant(value=onnx_ir.tensor(number, dtype=like.dtype))


def _attention_on_cpu(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Any:
    """aten._scaled_dot_product_flash_attention_for_cpu, as programs that were decomposed have it;
    its second result is training's, and torch's translation of it stands."""
    given = _attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    _, trained_by = torchlib.aten__scaled_dot_product_flash_attention_for_cpu(query, key, value)
    return given, trained_by


TABLE: dict[str, Any] = {
    "aten.scaled_dot_product_attention.default": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": _attention_on_cpu,
}
