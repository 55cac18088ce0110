"""Models of a pipeline that are no graphs: scalers, vectors of features, linear models, trees,
and suppression of boxes. Sources: ``Scaler.proto``, ``FeatureVectorizer.proto``,
``ArrayFeatureExtractor.proto``, ``GLMRegressor.proto``, ``GLMClassifier.proto``,
``NonMaximumSuppression.proto``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir

from parsers.coreml.description import shapes
from parsers.coreml.opened import Opened
from parsers.coreml.pipeline.joint import Joint
from parsers.coreml.pipeline.taking import given, sole, taken
from parsers.coreml.pipeline.trees import tree_classifier, tree_regressor
from parsers.coreml.reader import DataType
from parsers.coreml.refusal import Refusal

FLOAT, INT64, BOOL = DataType.FLOAT, DataType.INT64, DataType.BOOL
Reading = Callable[[Joint, Opened, Any], dict[str, onnx_ir.Value]]


def read_small(joint: Joint, stage: Opened) -> None:
    """Adds one of these models.

    Raises:
        Refusal: It is of a form that can't be expressed.
        ModelError: Nothing gives what it takes.
    """
    message = getattr(stage.spec, stage.kind)
    joint.give(_READINGS[stage.kind](joint, stage, message), {})


def _scaler(joint: Joint, stage: Opened, message: Any) -> dict[str, onnx_ir.Value]:
    """``(x + shift) * scale``, where each has a value for all or for each."""
    reader, x = joint.reader, sole(joint, stage)
    for kind, numbers in (("Add", message.shiftValue), ("Mul", message.scaleValue)):
        if len(numbers):
            x = reader.node(kind, [x, reader.const(list(numbers), np.float32)])
    return given(stage, x)


def _vector(joint: Joint, stage: Opened, message: Any) -> dict[str, onnx_ir.Value]:
    """The features one behind the other."""
    known = {feature.name: feature for feature in stage.spec.description.input}
    flat = []
    for column in message.inputList:
        if column.inputColumn not in known:
            raise Refusal(f"it has no input {column.inputColumn}")
        x = taken(joint, known[column.inputColumn])
        flat.append(joint.reader.node("Reshape", [x, joint.reader.ints([-1])]))
    return given(stage, joint.reader.node("Concat", flat, {"axis": 0}))


def _extractor(joint: Joint, stage: Opened, message: Any) -> dict[str, onnx_ir.Value]:
    """Those of an array's values that are named by their places."""
    x = joint.reader.node("Reshape", [sole(joint, stage), joint.reader.ints([-1])])
    places = joint.reader.ints([int(place) for place in message.extractIndex])
    return given(stage, joint.reader.node("Gather", [x, places], {"axis": 0}))


def _linear(joint: Joint, stage: Opened, message: Any) -> onnx_ir.Value:
    """``W x + b``, [rows]."""
    reader = joint.reader
    weights = np.array([list(row.value) for row in message.weights], np.float32)
    x = reader.node("Reshape", [sole(joint, stage), reader.ints([-1])])
    product = reader.node("MatMul", [reader.const(weights), x])
    return reader.node("Add", [product, reader.const(list(message.offset), np.float32)])


def _regressor(joint: Joint, stage: Opened, message: Any) -> dict[str, onnx_ir.Value]:
    """A linear model's values, or what the logistic function makes of them."""
    y = _linear(joint, stage, message)
    if message.postEvaluationTransform == message.Logit:
        y = joint.reader.node("Sigmoid", [y])
    elif message.postEvaluationTransform != message.NoTransform:
        raise Refusal("its values go through the normal distribution (Probit)")
    return given(stage, y)


def _classifier(joint: Joint, stage: Opened, message: Any) -> dict[str, onnx_ir.Value]:
    """Probabilities of two classes by the logistic function, the first standing for reference."""
    kind = message.WhichOneof("ClassLabels")
    labels = [str(label) for label in getattr(message, kind).vector] if kind else []
    if len(labels) != 2 or len(message.weights) != 1 or message.classEncoding:
        raise Refusal("it has more than two classes, or no reference class")
    if message.postEvaluationTransform != message.Logit:
        raise Refusal("its values go through the normal distribution (Probit)")
    reader = joint.reader
    second = reader.node("Sigmoid", [_linear(joint, stage, message)])
    first = reader.node("Sub", [reader.const([1.0], np.float32), second])
    name = stage.spec.description.predictedProbabilitiesName
    joint.classes[name] = labels
    row = reader.node("Concat", [first, second], {"axis": 0})
    return {name: reader.node("Unsqueeze", [row, reader.ints([0])])}


def _suppression(joint: Joint, stage: Opened, message: Any) -> dict[str, onnx_ir.Value]:
    """The boxes that stay, the best first: [n, classes] scores and [n, 4] places.

    A box's score is that of its best class; it suppresses those that overlap it by more than the
    threshold, of its own class alone where that is asked for (``perClass``). Thresholds that could
    be inputs are the file's own.
    """
    reader = joint.reader
    features = {feature.name: feature for feature in stage.spec.description.input}
    names = (message.confidenceInputFeatureName, message.coordinatesInputFeatureName)
    if missing := [name for name in names if name not in features]:
        raise Refusal(f"it has no input {missing[0]}")
    scores, places = (
        reader.node("Reshape", [taken(joint, features[name]), reader.ints([-1, size])])
        for name, size in zip(names, (_classes(joint, features[names[0]]), 4), strict=True)
    )
    chosen = _kept(joint, scores, places, message)
    if message.iouThresholdInputFeatureName or message.confidenceThresholdInputFeatureName:
        joint.notes.append(
            "THRESHOLDS ARE FIXED: the file takes those of its boxes as inputs; in the converted "
            f"model they are its own: overlap {message.iouThreshold:g}, score "
            f"{message.confidenceThreshold:g}."
        )
    kind = message.WhichOneof("ClassLabels")
    labels = [str(label) for label in getattr(message, kind).vector] if kind else []
    out = (message.confidenceOutputFeatureName, message.coordinatesOutputFeatureName)
    joint.answer.append({
        "kind": "boxes", "output": out[1], "scores": out[0], "format": "cxcywh", "relative": True,
        "labels": labels, "threshold": float(message.confidenceThreshold),
    })  # fmt: skip
    kept = [reader.node("Gather", [x, chosen], {"axis": 0}) for x in (scores, places)]
    least, most = _rows(stage, out)
    return {name: _limited(joint, x, least, most) for name, x in zip(out, kept, strict=True)}


def _rows(stage: Opened, names: tuple[str, str]) -> tuple[int, int]:
    """How many boxes its outputs have at least and at most, by their sizes; -1 is without end."""
    found = {(0, -1)}
    flexible = shapes(stage.spec.description, outputs=True)
    for feature in stage.spec.description.output:
        own = flexible.get(feature.name, {})
        if feature.name not in names:
            continue
        if "from" in own:
            found.add((own["from"][0][0], own["to"][0][0]))
        elif own:
            raise Refusal(f"its output {feature.name} has several possible sizes")
        elif len(feature.type.multiArrayType.shape):
            found.add((feature.type.multiArrayType.shape[0],) * 2)
    least = max(low for low, _ in found)
    most = min((high for _, high in found if high >= 0), default=-1)
    if least not in (0, most):
        raise Refusal(f"its outputs have {least} boxes at least, and {most} at most")
    return least, most


def _limited(joint: Joint, x: onnx_ir.Value, least: int, most: int) -> onnx_ir.Value:
    """The first boxes; where they are as many always, those that are missing are zeros."""
    reader = joint.reader
    if least:
        x = reader.node("Pad", [x, reader.ints([0, 0, least, 0])])
    if most < 0:
        return x
    return reader.node("Slice", [x, reader.ints([0]), reader.ints([most]), reader.ints([0])])


def _classes(joint: Joint, feature: Any) -> int:
    """The last size of the scores."""
    known = joint.values.get(feature.name)
    shape = list(known.shape or ()) if known is not None else []
    shape = shape or list(feature.type.multiArrayType.shape)
    if not shape or not isinstance(shape[-1], int):
        raise Refusal(f"the number of classes of {feature.name} isn't known")
    return int(shape[-1])


def _kept(
    joint: Joint, scores: onnx_ir.Value, places: onnx_ir.Value, message: Any
) -> onnx_ir.Value:
    """The numbers of the boxes that stay, [n], by falling score. ONNX keeps what is above a score,
    Core ML what has it, too."""
    reader, least = joint.reader, np.float32(message.confidenceThreshold)
    above = np.nextafter(least, np.float32(-1)) if least > 0 else np.float32(-0.5)
    best = reader.node("ReduceMax", [scores, reader.ints([1])], {"keepdims": 1})
    if message.pickTop.perClass:
        depth = reader.node("Shape", [scores], {"start": 1, "end": 2}, INT64)
        first = reader.node("ArgMax", [scores], {"axis": 1, "keepdims": 0}, INT64)
        hot = reader.node("OneHot", [first, depth, reader.const([0.0, 1.0], np.float32)],
                          {"axis": 1}, FLOAT)  # fmt: skip
        marked = reader.node("Cast", [hot], {"to": int(BOOL)}, BOOL)
        ranked = reader.node("Where", [marked, scores, reader.const(-1.0, np.float32)], None, FLOAT)
    else:
        ranked = best
    rows = reader.node("Unsqueeze", [reader.node("Transpose", [ranked], {"perm": [1, 0]}),
                                     reader.ints([0])])  # fmt: skip
    boxes = reader.node("Unsqueeze", [places, reader.ints([0])])
    found = reader.node(
        "NonMaxSuppression",
        [boxes, rows, reader.const([np.iinfo(np.int32).max], np.int64),
         reader.const([message.iouThreshold], np.float32),
         reader.const([above], np.float32)],
        {"center_point_box": 1}, INT64,
    )  # fmt: skip
    numbers = reader.node("Gather", [found, reader.const(2, np.int64)], {"axis": 1})
    own = reader.node("Reshape", [reader.node("Gather", [best, numbers], {"axis": 0}, FLOAT),
                                  reader.ints([-1])])  # fmt: skip
    count = reader.node("Shape", [numbers], None, INT64)
    _, order = reader.nodes_of("TopK", [own, count], 2, {"axis": 0})
    order.type = onnx_ir.TensorType(INT64)
    return reader.node("Gather", [numbers, order], {"axis": 0})


_READINGS: dict[str, Reading] = {
    "scaler": _scaler,
    "featureVectorizer": _vector,
    "arrayFeatureExtractor": _extractor,
    "glmRegressor": _regressor,
    "glmClassifier": _classifier,
    "nonMaximumSuppression": _suppression,
    "treeEnsembleRegressor": tree_regressor,
    "treeEnsembleClassifier": tree_classifier,
}
