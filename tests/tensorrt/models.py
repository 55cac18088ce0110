"""Small models for the tests of TensorRT, as Models and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir

from converter.ir import IR_VERSION, OPSET, Model
from converter.request import Request

FLOAT, HALF = onnx_ir.DataType.FLOAT, onnx_ir.DataType.FLOAT16
REQUEST = Request("model.onnx")


def request(**options: Any) -> Request:
    """A request with these options."""
    return Request("model.onnx", **options)


def text_model(text: str, opsets: str = f'"": {OPSET}') -> Model:
    """A model from ONNX's text form of its graph."""
    header = f"<ir_version: {IR_VERSION}, opset_import: [{opsets}]>\n"
    model = Model.wrap(onnx_ir.from_onnx_text(header + text))
    for index, node in enumerate(model.nodes()):
        node.name = node.name or f"{node.op_type}_{index}"
    return model


def conv_model(dtype: onnx_ir.DataType = FLOAT) -> Model:
    """Two convolutions with a Relu, at a free batch; every tensor but the border of ``dtype``."""
    rng = np.random.default_rng(0)
    kind = "float16" if dtype == HALF else "float"
    number = int(dtype)
    body = f"""g (float[batch, 3, 16, 16] x) => (float[batch, 4, 16, 16] y) {{
            a = Cast<to={number}>(x)
            b = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(a, w1)
            c = Relu(b)
            d = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(c, w2)
            y = Cast<to=1>(d)
        }}"""
    model = text_model(body)
    numpy_type = np.float16 if kind == "float16" else np.float32
    for name, shape in {"w1": (8, 3, 3, 3), "w2": (4, 8, 3, 3)}.items():
        add_weight(model, name, rng.normal(0, 0.2, shape).astype(numpy_type))
    return typed(model)


def plain_model() -> Model:
    """The same without the casts at its border: all float32."""
    model = conv_model()
    for node in [node for node in model.graph.graph if node.op_type == "Cast"]:
        source, made = node.inputs[0], node.outputs[0]
        assert source is not None
        if made.is_graph_output():
            source.name, made.name = made.name, f"{made.name}__cast"
        made.replace_all_uses_with(source, replace_graph_outputs=True)
        model.graph.graph.remove(node, safe=True)
    return typed(model)


def add_weight(model: Model, name: str, array: np.ndarray[Any, Any]) -> None:
    """Gives the dangling value ``name`` its contents."""
    graph = model.graph.graph
    value = next(v for node in graph for v in node.inputs if v is not None and v.name == name)
    value.const_value = onnx_ir.Tensor(array, name=name)
    value.type, value.shape = onnx_ir.TensorType(value.const_value.dtype), value.const_value.shape
    graph.register_initializer(value)


def typed(model: Model) -> Model:
    """The model with the types of its inner values."""
    import onnx

    return Model.wrap(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(model.to_proto())))


def saved(model: Model, folder: Path) -> Path:
    """``folder/model.onnx``."""
    folder.mkdir(parents=True, exist_ok=True)
    model.copy().save(folder / "model.onnx")
    return folder / "model.onnx"
