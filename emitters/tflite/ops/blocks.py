"""DepthToSpace and SpaceToDepth: pixels in other places."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number, text
from converter.ir.refused import Refused
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.registry import lowers

TAKEN = {DataType.FLOAT, DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64}
"""What DEPTH_TO_SPACE and SPACE_TO_DEPTH take."""


def _takes(node: onnx_ir.Node) -> bool:
    x = node.inputs[0]
    return x is not None and (x.dtype in TAKEN or number(node, "blocksize", 1) == 1)


@lowers("DepthToSpace", domain=CHANNELS_LAST, integer=True, legal=_takes)
def depth_to_space(context: Context, node: onnx_ir.Node) -> None:
    """DEPTH_TO_SPACE, which takes a pixel's channels as rows, columns, channels: ONNX's DCR. For
    CRD, channels, rows, columns, a GATHER puts them in that order first."""
    x, size = context.tensor(node.inputs[0]), node.attributes["blocksize"].as_int()
    if text(node, "mode", "DCR") == "CRD":
        x = _reordered(context, x, size)
    _between(context, node, "DEPTH_TO_SPACE", x, size)


@lowers("SpaceToDepth", domain=CHANNELS_LAST, integer=True, legal=_takes)
def space_to_depth(context: Context, node: onnx_ir.Node) -> None:
    """SPACE_TO_DEPTH, in ONNX's order: rows and columns of a block, then channels."""
    x = context.tensor(node.inputs[0])
    _between(context, node, "SPACE_TO_DEPTH", x, node.attributes["blocksize"].as_int())


def _between(context: Context, node: onnx_ir.Node, op: str, x: Tensor, size: int) -> None:
    if size == 1:
        context.give(node.outputs[0], _rescaled(context, node, x))
        return
    shape = context.shape(node.outputs[0])
    made = context.emit(op, [x], shape, quant=x.quant, options={"blockSize": size})
    context.give(node.outputs[0], _rescaled(context, node, made))


def _rescaled(context: Context, node: onnx_ir.Node, x: Tensor) -> Tensor:
    """With the scales of the node's output, which may differ from its input's."""
    quant = node.outputs[0].meta.get(QUANT)
    if quant is None or quant.same(x.quant):
        return x
    return context.emit("QUANTIZE", [x], x.shape, x.dtype, quant=quant)


def _reordered(context: Context, x: Tensor, size: int) -> Tensor:
    """The channels of [C, rows, columns] as [rows, columns, C]."""
    depth = x.shape[-1]
    if not isinstance(depth, int):
        raise Refused("a DepthToSpace with an unknown number of channels")
    order = np.arange(depth, dtype=np.int32).reshape(-1, size * size).T.ravel()
    return context.emit(
        "GATHER",
        [x, context.constant(order)],
        x.shape,
        quant=x.quant,
        options={"axis": x.rank - 1, "batchDims": 0},
    )
