"""Hand-made ONNX models of a node or two, and the folders that a Triton server reads them from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

Shape = Sequence[int | str]
Tensors = Mapping[str, tuple[int, Shape]]

OPSET = 21
IR_VERSION = 10


def model_bytes(
    nodes: Sequence[onnx.NodeProto],
    inputs: Tensors,
    outputs: Tensors,
    initializers: Sequence[TensorProto] = (),
) -> bytes:
    """Serialize a checked model out of its nodes and the types and shapes of its tensors."""
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, *tensor) for name, tensor in inputs.items()],
        [helper.make_tensor_value_info(name, *tensor) for name, tensor in outputs.items()],
        list(initializers),
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def adder(shape: Shape = ("batch", 3), increment: float = 1.0) -> bytes:
    """A model of `y = x + increment` on 32-bit floats."""
    tensor = (TensorProto.FLOAT, shape)
    step = helper.make_tensor("step", TensorProto.FLOAT, [], [increment])
    return model_bytes(
        [helper.make_node("Add", ["x", "step"], ["y"])], {"x": tensor}, {"y": tensor}, [step]
    )


def identity(element_type: int, shape: Shape = ("batch", 3)) -> bytes:
    """A model that gives its input `x` back as `y`."""
    tensor = (element_type, shape)
    return model_bytes([helper.make_node("Identity", ["x"], ["y"])], {"x": tensor}, {"y": tensor})


def put_model(
    repository: Path,
    name: str,
    config: str,
    versions: Mapping[int, bytes],
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a model folder; a version without bytes is left empty, as ensembles have it."""
    folder = repository / name
    for version, model in versions.items():
        (folder / str(version)).mkdir(parents=True)
        if model:
            (folder / str(version) / "model.onnx").write_bytes(model)
    for path, content in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "config.pbtxt").write_text(config, encoding="utf-8")
    return folder
