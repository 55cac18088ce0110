"""Integers that stand for real numbers."""

from __future__ import annotations

import onnx_ir

from converter.ir.model import dtype_name
from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.pytorch.registry import op
from emitters.pytorch.types import torch_type


def _is_whole(node: onnx_ir.Node) -> bool:
    """Whether its integers are of types that PyTorch has, and scales aren't of blocks."""
    return "block_size" not in node.attributes or not node.attributes["block_size"].as_int()


def _scale(c: Context) -> str:
    """``axis`` where there is a scale for each channel."""
    return f", axis={c.attr('axis', 1)}" if c.rank(1) == 1 and (c.shape(1) or [1]) != [1] else ""


@op("QuantizeLinear", legal=_is_whole)
def quantize(c: Context) -> None:
    """Rounded to half even, cut off at the type's ends."""
    gives = c.out_dtype()
    if gives not in ("int8", "uint8", "int16", "uint16", "int32"):
        raise Refused(f"PyTorch has no tensors of {gives}", "use int8 or uint8")
    zero = c.arg(2) if c.has(2) else "None"
    if c.has(2) and dtype_name(c.value(2).dtype) == "uint16":
        zero = f"{zero}"
    name = c.helper("quantize")
    c.emit(f"{name}({c.arg(0)}, {c.arg(1)}, {zero}, {torch_type(gives)}{_scale(c)})")


@op("DequantizeLinear", legal=_is_whole)
def dequantize(c: Context) -> None:
    """As real numbers."""
    torch_type(c.dtype(0))
    zero = c.arg(2) if c.has(2) else "None"
    c.emit(f"{c.helper('dequantize')}({c.arg(0)}, {c.arg(1)}, {zero}{_scale(c)})")


@op("MatMulInteger")
def matmul_integer(c: Context) -> None:
    """Sums of products in 32 bits."""
    left, right = (f"{c.operand(at)}.int()" for at in (0, 1))
    if c.has(2):
        zero = c.operand(2)
        one = (c.rank(2) or 0) == 1 and (c.shape(2) or [1]) != [1]
        left = f"({left} - {zero}.int(){'.unsqueeze(-1)' if one else ''})"
    if c.has(3):
        right = f"({right} - {c.operand(3)}.int())"
    c.emit(f"{left} @ {right}", 7)
