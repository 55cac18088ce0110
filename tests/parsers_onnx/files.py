"""ONNX files to read, whole and broken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from converter.request import Request
from parsers.onnx import OnnxParser
from parsers.onnx_source import OnnxSource

FLOAT = TensorProto.FLOAT


def info(name: str, shape: Sequence[Any] | None = (2,), kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any] = ("x",),
    outputs: Sequence[Any] = ("y",),
    weights: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    ir_version: int = 8,
    domains: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A model; inputs and outputs are names of float vectors of 2, or value infos."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [info(item) if isinstance(item, str) else item for item in inputs],
        [info(item) if isinstance(item, str) else item for item in outputs],
        list(weights),
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(name, number) for name, number in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **more: Any) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **more)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.ones(shape, np.float32), name)


def write(folder: Path, proto: onnx.ModelProto, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def source(path: Path, **request: Any) -> OnnxSource:
    return OnnxParser().open(Request(str(path), **request), path.parent, lambda text: None)
