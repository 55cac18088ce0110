"""PAD, PADV2, MIRROR_PAD."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.registry import lowers
from parsers.tflite.stored import is_quantized

_SYMMETRIC = 1
"""``MirrorPadMode``; 0 is REFLECT."""


@lowers("PAD", "PADV2")
def pad(ctx: Context) -> None:
    """Pad with zero, or with the third input."""
    if ctx.name == "PADV2" and ctx.has(2):
        value, filler = ctx.moved(0, 2)
        if ctx.rank(2):
            filler = ctx.add("Reshape", filler, ctx.ints([]))
        ctx.set_moved(0, ctx.add("Pad", value, _pads(ctx), filler))
        return
    (value,) = ctx.moved(0)
    ctx.set_moved(0, ctx.add("Pad", value, _pads(ctx), _zero(ctx, value)))


def _zero(ctx: Context, value: onnx_ir.Value) -> onnx_ir.Value | None:
    """What zero is stored as, where the stored integers are padded; None for a real 0."""
    quantization = ctx.input(0).quantization
    if quantization is None or not is_quantized(ctx.input(0)) or not ctx.moves_stored:
        return None
    kind = np.dtype("int8" if ctx.input(0).dtype == "int4" else ctx.input(0).dtype)
    return ctx.const(quantization.zero_point.astype(kind).reshape(()))


def _pads(ctx: Context) -> onnx_ir.Value:
    """ONNX wants all begins and then all ends; TFLite has a row for each dimension."""
    found = ctx.integers(1)
    if found is not None:
        return ctx.ints(found[0::2] + found[1::2])
    columns = ctx.transpose(ctx.raw(1), [1, 0])
    return ctx.cast(ctx.reshape(columns, [-1]), onnx_ir.DataType.INT64)


@lowers("MIRROR_PAD")
def mirror_pad(ctx: Context) -> None:
    """Pad by reflection. ONNX has none that repeats the border (SYMMETRIC): there the elements
    are gathered by their mirrored indices."""
    (value,) = ctx.moved(0)
    if ctx.option("mode") != _SYMMETRIC:
        ctx.set_moved(0, ctx.add("Pad", value, _pads(ctx), mode="reflect"))
        return
    pads = ctx.integers(1)
    if pads is None:
        ctx.refuse("symmetric padding that isn't constant")
    for axis, (before, after) in enumerate(zip(pads[0::2], pads[1::2], strict=True)):
        if not before and not after:
            continue
        size = ctx.shape(0)[axis]
        if size < 0 or max(before, after) > size:
            ctx.refuse("symmetric padding of a free dimension, or by more than there is")
        indices = np.pad(np.arange(size), (before, after), mode="symmetric")
        value = ctx.add("Gather", value, ctx.ints(indices.tolist()), axis=axis)
    ctx.set_moved(0, value)
