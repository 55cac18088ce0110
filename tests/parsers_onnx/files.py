"""ONNX files to read, whole and broken."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto

from converter.options.request import Request
from parsers.onnx.parser import OnnxParser
from parsers.onnx.source import OnnxSource

VECTOR = "g (float[2] x) => (float[2] y)"
"""What most models here have for their ends."""
RELU = f"{VECTOR} {{ y = Relu (x) }}"
ADD = f"{VECTOR} <float[2] w = {{1, 1}}> {{ y = Add (x, w) }}"
PLUS = f"{VECTOR} {{ y = Add (x, w) }}"
"""A model that lacks its weight w."""


def model(text: str, *weights: TensorProto, opset: int = 17, ir: int = 8,
          **more: int) -> onnx.ModelProto:  # fmt: skip
    """A model from onnx's text; ``more`` are versions of further domains."""
    domains = "".join(f', "{name}" : {number}' for name, number in more.items())
    head = f'<ir_version: {ir}, opset_import: ["" : {opset}{domains}]>'
    proto = onnx.parser.parse_model(f"{head} {text}")
    proto.graph.initializer.extend(weights)
    return proto


def weight(name: str, *shape: int) -> TensorProto:
    return onnx.numpy_helper.from_array(np.ones(shape, np.float32), name)


def write(folder: Path, proto: onnx.ModelProto | str, name: str = "model.onnx") -> Path:
    proto = model(proto) if isinstance(proto, str) else proto
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def external(folder: Path, proto: onnx.ModelProto, location: str = "w.bin") -> Path:
    """The model's file; its weights lie beside it."""
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def sparse(values: TensorProto, indices: TensorProto, *dims: int) -> onnx.SparseTensorProto:
    return onnx.helper.make_sparse_tensor(values, indices, list(dims))


def source(path: Path, **request: object) -> OnnxSource:
    return OnnxParser().open(Request(str(path), **request), path.parent, lambda text: None)
