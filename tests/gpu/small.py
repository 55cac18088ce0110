"""Small graphs whose engines build in seconds."""

import numpy as np
import onnx
import onnx.parser
import onnx_ir
from onnx import numpy_helper

from converter.ir import Model


def convolution() -> Model:
    """``x`` float32 (batch, 3, 16, 16) through a convolution and Relu to ``y``."""
    weight = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    proto = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 20]>
        g (float[batch, 3, 16, 16] x) => (float[batch, 8, 16, 16] y) {
            conv = Conv <pads = [1, 1, 1, 1]> (x, w)
            y = Relu (conv)
        }""")
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return _model(proto)


def nonzero() -> Model:
    """``x`` float32 (batch, 8) to ``y`` int64 (2, how many aren't zero): known after a run only."""
    proto = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 20]>
        g (float[batch, 8] x) => (int64[2, count] y) { y = NonZero (x) }""")
    return _model(proto)


def loop() -> Model:
    """``x`` float32 (batch, 8), added to itself three times in a Loop."""
    proto = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 20]>
        g (float[batch, 8] x) => (float[batch, 8] y)
        <int64 trips = {3}, bool go = {1}> {
            y = Loop (trips, go, x) <body = b (int64 i, bool c, float[batch, 8] v)
                => (bool more, float[batch, 8] w) { more = Identity (c) w = Add (v, x) }>
        }""")
    return _model(proto)


def _model(proto: onnx.ModelProto) -> Model:
    for index, node in enumerate(proto.graph.node):
        node.name = f"{node.op_type}_{index}"
    onnx.checker.check_model(proto)
    return Model(onnx_ir.from_proto(proto))
