"""Cast and CastLike."""

from __future__ import annotations

import onnx_ir

from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.registry import lowers


@lowers("Cast", "CastLike")
def cast(context: Context, node: onnx_ir.Node) -> None:
    """CAST; between float16 and float32 nothing, since float16 is computed in float32."""
    x = context.tensor(node.inputs[0])
    context.give(node.outputs[0], build.cast(context, x, context.dtype(node.outputs[0])))
