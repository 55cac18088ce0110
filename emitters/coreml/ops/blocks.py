"""DepthToSpace and SpaceToDepth: pixels in other places."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import number, text
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers


@lowers("DepthToSpace")
def depth_to_space(context: Context, node: onnx_ir.Node) -> None:
    """depth_to_space, which takes channels as rows, columns, channels of a block: ONNX's DCR; and
    pixel_shuffle, as channels, rows, columns: CRD. Integers go by reshape and transpose."""
    x, block = context.var(node.inputs[0]), number(node, "blocksize", 1)
    crd = text(node, "mode", "DCR") == "CRD"
    if block == 1:
        made = x
    elif context.type_of(x) not in ("fp16", "fp32"):
        made = _spread(context, x, block, crd)
    elif crd:
        made = context.op("pixel_shuffle", x=x, upscale_factor=block)
    else:
        made = context.op("depth_to_space", x=x, block_size=block)
    context.give(node.outputs[0], made)


def _spread(context: Context, x: Var, block: int, crd: bool) -> Var:
    """[N, C * b * b, H, W] -> [N * C, b, b, H, W] -> [N * C, H, b, W, b] -> [N, C, H * b, W * b];
    of DCR, blocks and channels are swapped before."""
    n, depth, height, width = sizing.sizes(context, x)
    channels = sizing.compute(context, "floor_div", depth, block * block)
    if not crd:
        area = sizing.compute(context, "mul", height, width)
        x = sizing.reshape(context, x, [n, block * block, channels, area])
        x = context.op("transpose", x=x, perm=[0, 2, 1, 3])
    images = sizing.compute(context, "mul", n, channels)
    x = sizing.reshape(context, x, [images, block, block, height, width])
    x = context.op("transpose", x=x, perm=[0, 3, 1, 4, 2])
    wide = [sizing.compute(context, "mul", size, block) for size in (height, width)]
    return sizing.reshape(context, x, [n, channels, *wide])


@lowers("SpaceToDepth")
def space_to_depth(context: Context, node: onnx_ir.Node) -> None:
    """space_to_depth, in ONNX's order: rows and columns of a block, then channels."""
    x, block = context.var(node.inputs[0]), number(node, "blocksize", 1)
    if block == 1:
        made = x
    elif context.type_of(x) in ("fp16", "fp32"):
        made = context.op("space_to_depth", x=x, block_size=block)
    else:
        made = _gathered(context, x, block)
    context.give(node.outputs[0], made)


def _gathered(context: Context, x: Var, block: int) -> Var:
    """[N, C, H * b, W * b] -> [N * C, H, b, W, b] -> [N * C, b, b, H, W] -> [N, b * b * C, H, W]"""
    n, channels, *wide = sizing.sizes(context, x)
    height, width = (sizing.compute(context, "floor_div", size, block) for size in wide)
    images = sizing.compute(context, "mul", n, channels)
    x = sizing.reshape(context, x, [images, height, block, width, block])
    x = context.op("transpose", x=x, perm=[0, 2, 4, 1, 3])
    area = sizing.compute(context, "mul", height, width)
    x = sizing.reshape(context, x, [n, channels, block * block, area])
    x = context.op("transpose", x=x, perm=[0, 2, 1, 3])
    depth = sizing.compute(context, "mul", channels, block * block)
    return sizing.reshape(context, x, [n, depth, height, width])
