"""What models of a pipeline that are no graphs take, and give."""

from __future__ import annotations

from typing import Any

import onnx_ir

from parsers.coreml.opened import Opened
from parsers.coreml.pipeline.joint import Joint
from parsers.coreml.reader import DataType
from parsers.coreml.refusal import Refusal

FLOAT = DataType.FLOAT


def taken(joint: Joint, feature: Any) -> onnx_ir.Value:
    """A feature as float32: an array of its sizes, or a number as an array of one."""
    kind = feature.type.WhichOneof("Type")
    if kind not in ("multiArrayType", "doubleType", "int64Type"):
        raise Refusal(f"it takes {feature.name} of the kind {kind}")
    shape = [int(size) for size in feature.type.multiArrayType.shape] or [1]
    known = joint.values.get(feature.name)
    if known is not None:
        return joint.reader.cast(known, FLOAT)
    like = onnx_ir.Value(shape=onnx_ir.Shape(shape), type=onnx_ir.TensorType(FLOAT))
    return joint.take(feature.name, like)


def sole(joint: Joint, stage: Opened) -> onnx_ir.Value:
    """A model's one feature."""
    features = stage.spec.description.input
    if len(features) != 1:
        raise Refusal(f"it takes {len(features)} features, where one is expected")
    return taken(joint, features[0])


def given(stage: Opened, value: onnx_ir.Value) -> dict[str, onnx_ir.Value]:
    """A value as the feature that a model gives."""
    return {stage.spec.description.output[0].name: value}
