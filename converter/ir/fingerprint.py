"""What a model holds, as one digest."""

from __future__ import annotations

import hashlib

import onnx_ir

from converter.ir.external import SHA256, replaced
from converter.ir.model import Model


def model_digest(model: Model) -> str:
    """The sha256 over all that a model's file would hold: graph, weights and metadata.

    It doesn't depend on where the weights lie; none is copied but one at a time.
    """
    stand_ins = {
        value: _named_by_content(value.name or "", tensor)
        for value in model.initializers()
        if (tensor := value.const_value) is not None and tensor.dtype != onnx_ir.DataType.STRING
    }
    with replaced(stand_ins):
        proto = model.to_proto()
    return hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()


def _named_by_content(name: str, tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    """A reference to a file that is called by the sha256 of what the tensor holds."""
    return onnx_ir.ExternalTensor(
        tensor.meta.get(SHA256) or hashlib.sha256(tensor.tobytes()).hexdigest(),
        0,
        tensor.nbytes,
        tensor.dtype,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        name=name,
    )
