"""The toy model: linear layers, some with a Relu behind. A layer is (weights, bias, relu)."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx

Layer = Tuple[Any, Any, bool]


def is_stored(path: Path) -> bool:
    """Whether it is a file that :func:`store` wrote."""
    return zipfile.is_zipfile(path) and "weights0.npy" in zipfile.ZipFile(path).namelist()


def stored(path: Path) -> List[Layer]:
    """The layers in a file of arrays. Raises KeyError, OSError or ValueError."""
    with np.load(path) as file:
        count = sum(name.startswith("weights") for name in file)
        return [
            (file[f"weights{n}"], file[f"bias{n}"], bool(file[f"relu{n}"])) for n in range(count)
        ]


def store(path: Path, layers: List[Layer], compressed: bool) -> None:
    """Write the layers as arrays: float32, (inputs, outputs) and (outputs,)."""
    arrays: Dict[str, Any] = {}
    for number, layer in enumerate(layers):
        for name, value in zip(("weights", "bias", "relu"), layer):  # noqa: B905 - Python 3.9
            arrays[f"{name}{number}"] = np.asarray(value)
    (np.savez_compressed if compressed else np.savez)(path, **arrays)


def run(layers: List[Layer], x: Any) -> Any:
    """What the model gives for (batch, inputs)."""
    for weights, bias, relu in layers:
        x = x @ weights + bias
        x = np.maximum(x, 0) if relu else x
    return x


def to_onnx(layers: List[Layer]) -> Any:
    """The model as ONNX: a Gemm a layer."""
    nodes, weights, value = [], [], "x"
    for number, (matrix, bias, relu) in enumerate(layers):
        for name, array in ((f"w{number}", matrix), (f"b{number}", bias)):
            weights.append(onnx.numpy_helper.from_array(np.asarray(array, np.float32), name))
        made = f"layer{number}"
        nodes.append(onnx.helper.make_node("Gemm", [value, f"w{number}", f"b{number}"], [made]))
        value = made
        if relu:
            value = f"relu{number}"
            nodes.append(onnx.helper.make_node("Relu", [made], [value]))
    nodes[-1].output[0] = "y"
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", int(width)])
        for name, width in (("x", layers[0][0].shape[0]), ("y", layers[-1][0].shape[1]))
    ]
    graph = onnx.helper.make_graph(nodes, "toy", ends[:1], ends[1:], weights)
    opset = onnx.helper.make_opsetid("", 20)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)
