"""Small float models of every kind of operator that a scheme quantizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx_ir

from converter.ir import IR_VERSION, OPSET, Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Net:
    """A float model as nodes, inputs and constants.

    Attributes:
        nodes: ``"y = Conv(x, w, b) strides=[2, 2] group=2"``, in order.
        inputs: Shapes of the float inputs.
        constants: Shapes of the float constants (drawn anew), or arrays.
        outputs: Names of the outputs; the last node's where empty.
    """

    nodes: tuple[str, ...]
    inputs: Mapping[str, Sequence[int]]
    constants: Mapping[str, Sequence[int] | Array]
    outputs: tuple[str, ...] = ()

    def proto(self, seed: int = 0) -> onnx.ModelProto:
        """The model, inner types inferred, nodes named after their outputs."""
        rng = np.random.default_rng(seed)
        nodes = [_node(text) for text in self.nodes]
        tensors = [
            onnx.numpy_helper.from_array(_drawn(what, rng), name)
            for name, what in self.constants.items()
        ]
        infos = [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape))
            for name, shape in self.inputs.items()
        ]
        outputs = [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
            for name in self.outputs or nodes[-1].output[:1]
        ]
        graph = onnx.helper.make_graph(nodes, "net", infos, outputs, tensors)
        opset = onnx.helper.make_opsetid("", OPSET)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)

    def model(self, seed: int = 0) -> Model:
        """The same as a Model."""
        return Model(onnx_ir.from_proto(self.proto(seed)))

    def feeds(self, seed: int = 1) -> dict[str, Array]:
        """Normal noise, a little off the middle."""
        rng = np.random.default_rng(seed)
        return {
            name: (rng.standard_normal(tuple(shape)) * 1.5 + 0.3).astype(np.float32)
            for name, shape in self.inputs.items()
        }


def _drawn(what: Sequence[int] | Array, rng: np.random.Generator) -> Array:
    if isinstance(what, np.ndarray):
        return what
    array = rng.standard_normal(tuple(what)).astype(np.float32)
    if array.ndim > 1:  # channels of different sizes are what scales by channel are for
        array *= np.geomspace(0.1, 1.0, array.shape[0], dtype=np.float32).reshape(
            -1, *[1] * (array.ndim - 1)
        )
    return array


def _node(text: str) -> onnx.NodeProto:
    """``"y, z = Op(a, b) key=value key=[1, 2]"`` as a node."""
    left, right = text.split(" = ", 1)
    call, _, rest = right.partition(")")
    op, _, arguments = call.partition("(")
    attributes = {}
    for part in rest.split(";"):
        if part.strip():
            key, value = part.strip().split("=")
            attributes[key] = _value(value)
    outputs = [name.strip() for name in left.split(",")]
    inputs = [name.strip() for name in arguments.split(",")]
    return onnx.helper.make_node(op, inputs, outputs, name=f"n_{outputs[0]}", **attributes)


def _value(text: str) -> Any:
    if text.startswith("["):
        return [int(item) for item in text.strip("[]").split(",")]
    if text.replace("-", "").isdigit():
        return int(text)
    return float(text) if text.replace("-", "").replace(".", "").isdigit() else text
