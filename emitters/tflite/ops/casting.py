"""Cast and CastLike."""

from __future__ import annotations

import onnx_ir

from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType
from emitters.tflite.registry import lowers


@lowers("Cast", "CastLike")
def cast(context: Context, node: onnx_ir.Node) -> None:
    """CAST; between float16 and float32 nothing, since float16 is computed in float32."""
    x = context.tensor(node.inputs[0])
    wanted = context.dtype(node.outputs[0])
    if x.dtype != wanted and DataType.UINT64 in (x.dtype, wanted) and x.data is None:
        raise Refused("LiteRT's CAST doesn't take uint64", "cast to int64 in the model")
    context.give(node.outputs[0], build.cast(context, x, wanted))
