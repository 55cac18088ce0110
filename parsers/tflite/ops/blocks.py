"""Blocks of height and width moved into the channels or the batch, and back."""

from __future__ import annotations

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.layout import channels_first, channels_last
from parsers.tflite.registry import lowers
from parsers.tflite.sizes import Size, compute, size, vector


@lowers("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def depth(ctx: Context) -> None:
    """SpaceToDepth or DepthToSpace (DCR), whose order of channels is TFLite's."""
    block = int(ctx.option("blockSize", 1))
    op_type = "SpaceToDepth" if ctx.name == "SPACE_TO_DEPTH" else "DepthToSpace"
    value = ctx.add(op_type, channels_first(ctx, ctx.value(0)), blocksize=block)
    ctx.set(0, channels_last(ctx, value))


@lowers("SPACE_TO_BATCH_ND")
def space_to_batch(ctx: Context) -> None:
    """Pad, and blocks moved to the front of the batch by two Reshapes around a Transpose."""
    blocks, pads = _constants(ctx)
    count = len(blocks)
    before, after = [0, *pads[0::2]], [0, *pads[1::2]]
    rest = list(range(count + 1, ctx.rank(0)))
    padding = ctx.ints(before + [0] * len(rest) + after + [0] * len(rest))
    value = ctx.add("Pad", ctx.value(0), padding)
    batch = size(ctx, 0, 0)
    parts: list[Size] = []
    for axis, block in enumerate(blocks, 1):
        padded = compute(ctx, "Add", size(ctx, 0, axis), before[axis] + after[axis])
        parts.append(compute(ctx, "Div", padded, block))
    tail = [size(ctx, 0, axis) for axis in rest]
    split = [item for pair in zip(parts, blocks, strict=True) for item in pair]
    value = ctx.add("Reshape", value, vector(ctx, [batch, *split, *tail]))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    value = ctx.transpose(value, [*inner, 0, *outer, *range(2 * count + 1, ctx.rank(0) + count)])
    ctx.set(0, ctx.add("Reshape", value, vector(ctx, [-1, *parts, *tail])))


@lowers("BATCH_TO_SPACE_ND")
def batch_to_space(ctx: Context) -> None:
    """The way back: two Reshapes around a Transpose, and Slice."""
    blocks, crops = _constants(ctx)
    count = len(blocks)
    rest = list(range(count + 1, ctx.rank(0)))
    sizes = [size(ctx, 0, axis) for axis in range(1, count + 1)]
    tail = [size(ctx, 0, axis) for axis in rest]
    value = ctx.add("Reshape", ctx.value(0), vector(ctx, [*blocks, -1, *sizes, *tail]))
    order = [item for axis in range(count) for item in (count + 1 + axis, axis)]
    value = ctx.transpose(value, [count, *order, *range(2 * count + 1, ctx.rank(0) + count)])
    whole = [compute(ctx, "Mul", part, block) for part, block in zip(sizes, blocks, strict=True)]
    value = ctx.add("Reshape", value, vector(ctx, [-1, *whole, *tail]))
    ctx.set(0, _cropped(ctx, value, whole, crops))


def _cropped(
    ctx: Context, value: onnx_ir.Value, whole: list[Size], crops: list[int]
) -> onnx_ir.Value:
    if not any(crops):
        return value
    pairs = zip(whole, crops[1::2], strict=True)
    ends = [compute(ctx, "Sub", total, behind) for total, behind in pairs]
    axes = ctx.ints(list(range(1, len(whole) + 1)))
    return ctx.add("Slice", value, ctx.ints(crops[0::2]), vector(ctx, ends), axes)


def _constants(ctx: Context) -> tuple[list[int], list[int]]:
    blocks, pads = ctx.integers(1), ctx.integers(2)
    if blocks is None or pads is None:
        ctx.refuse("blocks, paddings or crops that aren't constant")
    return blocks, pads
