"""DepthToSpace and SpaceToDepth: pixels in other places."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import number, text
from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.coreml.types import DataType


def _takes(node: onnx_ir.Node, _target: int) -> bool:
    """Of integers there are none."""
    x = node.inputs[0]
    return x is not None and x.dtype in (DataType.FLOAT16, DataType.FLOAT)


@lowers("DepthToSpace", "SpaceToDepth", legal=_takes)
def blocks(context: Context, node: onnx_ir.Node) -> None:
    """depth_to_space, which takes channels as rows, columns, channels of a block: ONNX's DCR; and
    pixel_shuffle, as channels, rows, columns: CRD. space_to_depth, in ONNX's order: rows and
    columns of a block, then channels."""
    x, block = context.var(node.inputs[0]), number(node, "blocksize", 1)
    if block == 1:
        made = x
    elif node.op_type == "SpaceToDepth":
        made = context.op("space_to_depth", x=x, block_size=block)
    elif text(node, "mode", "DCR") == "CRD":
        made = context.op("pixel_shuffle", x=x, upscale_factor=block)
    else:
        made = context.op("depth_to_space", x=x, block_size=block)
    context.give(node.outputs[0], made)
