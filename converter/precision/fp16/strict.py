"""A lowered model as hardware with 16-bit arithmetic runs it: every tensor is rounded.

ONNX Runtime's CPU provider has few kernels for float16 and none for bfloat16. It computes in
float32 and leaves out the rounding between two such nodes, so that what overflows elsewhere
doesn't there. The model made here is all float32, with a Cast down and up after every tensor.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.model import Model

FLOAT = onnx_ir.DataType.FLOAT
HALVES = (onnx_ir.DataType.FLOAT16, onnx_ir.DataType.BFLOAT16)


def strict(lowered: Model) -> Model:
    """``lowered``, inputs and outputs float32, in float32 with all roundings written out."""
    model = lowered.copy()
    for graph in list(model.graph.graphs()):
        for value in graph.initializers.values():
            _widen_constant(value)
        for value in graph.inputs:
            if value.dtype in HALVES:
                value.type = onnx_ir.TensorType(FLOAT)
        for node in list(graph):
            for value in node.outputs:
                if value.dtype in HALVES:
                    _round(node, value)
    return model


def _widen_constant(value: onnx_ir.Value) -> None:
    tensor = value.const_value
    if tensor is not None and tensor.dtype in HALVES:
        value.const_value = _widened(tensor, value.name)
        value.type = onnx_ir.TensorType(FLOAT)


def _widened(tensor: onnx_ir.TensorProtocol, name: str | None) -> onnx_ir.TensorProtocol:
    """The same numbers in float32; of a tensor that lies elsewhere, whenever they are asked for."""

    def now() -> onnx_ir.TensorProtocol:
        return onnx_ir.Tensor(tensor.numpy().astype(np.float32), name=name)

    if not isinstance(tensor, onnx_ir.ExternalTensor | onnx_ir.LazyTensor):
        return now()
    return onnx_ir.LazyTensor(now, FLOAT, onnx_ir.Shape(tensor.shape.numpy()), name=name)


def _round(node: onnx_ir.Node, value: onnx_ir.Value) -> None:
    kind = value.dtype
    assert kind is not None and node.graph is not None
    value.type = onnx_ir.TensorType(FLOAT)
    if node.op_type == "Cast":
        node.attributes["to"] = onnx_ir.AttrInt64("to", int(FLOAT))
    if node.op_type == "ConstantOfShape":
        array = node.attributes["value"].as_tensor().numpy().astype(np.float32)
        node.attributes["value"] = onnx_ir.AttrTensor("value", onnx_ir.Tensor(array))
    down = onnx_ir.node("Cast", [value], {"to": int(kind)})
    down.outputs[0].type = onnx_ir.TensorType(kind)
    up = onnx_ir.node("Cast", [down.outputs[0]], {"to": int(FLOAT)})
    up.outputs[0].type, up.outputs[0].shape = value.type, value.shape
    down.outputs[0].name, up.outputs[0].name = f"{value.name}__half", f"{value.name}__rounded"
    value.replace_all_uses_with(up.outputs[0], replace_graph_outputs=True)
    down.replace_input_with(0, value)
    if up.outputs[0].is_graph_output():
        value.name, up.outputs[0].name = up.outputs[0].name, value.name
    node.graph.insert_after(node, [down, up])
