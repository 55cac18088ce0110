"""Integers that stand for real numbers, in float arithmetic."""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.registry import op

_ENDS = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
}


def _places(c: Context) -> str:
    """``axis`` where there is a scale for each channel, ``block`` where for each block."""
    axis, block = c.attr("axis", 1), c.attr("block_size", 0)
    if block:
        return f", axis={axis}, block={block}"
    return f", axis={axis}" if c.rank(1) == 1 and (c.shape(1) or [1]) != [1] else ""


@op("QuantizeLinear")
def quantize(c: Context) -> None:
    """Rounded to half even, cut off at the type's ends."""
    gives = c.out_dtype()
    if gives not in _ENDS:
        raise Refused(f"Keras can't round to {gives}", "use int8 or uint8")
    zero = c.arg(2) if c.has(2) else "None"
    low, high = _ENDS[gives]
    told = f'{c.arg(0)}, {c.arg(1)}, {zero}, "{gives}", ({low}, {high}){_places(c)}'
    c.emit(f"{c.helper('quantize')}({told})")


@op("DequantizeLinear")
def dequantize(c: Context) -> None:
    """As real numbers."""
    if c.dtype(0) not in {*_ENDS, "int32"}:
        raise Refused(f"Keras has no tensors of {c.dtype(0)}", "use int8 or uint8")
    zero = c.arg(2) if c.has(2) else "None"
    c.emit(f"{c.helper('dequantize')}({c.arg(0)}, {c.arg(1)}, {zero}{_places(c)})")


@op("MatMulInteger")
def matmul_integer(c: Context) -> None:
    """Sums of products in 32 bits."""
    left, right = (f'ops.cast({c.arg(at)}, "int32")' for at in (0, 1))
    if c.has(2):
        zero = f'ops.cast({c.arg(2)}, "int32")'
        if c.rank(2) == 1 and (c.shape(2) or [1]) != [1]:
            zero = f"ops.expand_dims({zero}, -1)"
        left = f"{left} - {zero}"
    if c.has(3):
        right = f'{right} - ops.cast({c.arg(3)}, "int32")'
    c.emit(f"ops.matmul({left}, {right})")
