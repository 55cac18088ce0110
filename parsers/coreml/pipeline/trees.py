"""Tree ensembles: ``TreeEnsemble.proto`` says what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from parsers.coreml.opened import Opened
from parsers.coreml.pipeline.joint import Joint
from parsers.coreml.pipeline.taking import given, sole
from parsers.coreml.reader import DataType
from parsers.coreml.refusal import Refusal

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF")
_FLOOR, _CEIL = ("BRANCH_LEQ", "BRANCH_GT"), ("BRANCH_LT", "BRANCH_GTE")
_NONE, _SOFTMAX, _LOGISTIC, _REFERENCE = range(4)


def tree_regressor(joint: Joint, stage: Opened, message: Any) -> dict[str, onnx_ir.Value]:
    """The trees' sum, or what the logistic function makes of it, [values].

    Args:
        joint: The pipeline's graph.
        stage: The model in the pipeline.
        message: Its ``TreeEnsembleRegressor``.

    Raises:
        Refusal: The values are transformed as a classifier's.
    """
    y = _sums(joint, sole(joint, stage), message.treeEnsemble)
    if message.postEvaluationTransform == _LOGISTIC:
        y = joint.reader.node("Sigmoid", [y])
    elif message.postEvaluationTransform != _NONE:
        raise Refusal("its values go through a classifier's softmax")
    return given(stage, joint.reader.node("Reshape", [y, joint.reader.ints([-1])]))


def tree_classifier(joint: Joint, stage: Opened, message: Any) -> dict[str, onnx_ir.Value]:
    """Probabilities, [1, classes], of the trees' sums.

    Args:
        joint: The pipeline's graph.
        stage: The model in the pipeline.
        message: Its ``TreeEnsembleClassifier``.

    Raises:
        Refusal: The transform doesn't make so many classes of the sums.
    """
    reader, kind = joint.reader, message.WhichOneof("ClassLabels")
    labels = [str(label) for label in getattr(message, kind).vector] if kind else []
    sums = int(message.treeEnsemble.numPredictionDimensions)
    how = message.postEvaluationTransform
    y = _sums(joint, sole(joint, stage), message.treeEnsemble)
    if how == _REFERENCE and sums == len(labels) - 1:
        zero = reader.const([[0.0]], np.float32)
        y = reader.node("Softmax", [reader.node("Concat", [zero, y], {"axis": 1})], {"axis": 1})
    elif how == _LOGISTIC and (sums, len(labels)) == (1, 2):
        second = reader.node("Sigmoid", [y])
        first = reader.node("Sub", [reader.const([[1.0]], np.float32), second])
        y = reader.node("Concat", [first, second], {"axis": 1})
    elif how == _SOFTMAX and sums == len(labels):
        y = reader.node("Softmax", [y], {"axis": 1})
    elif how != _NONE or sums != len(labels):
        raise Refusal(f"it makes {len(labels)} classes from {sums} sums with its transform {how}")
    name = stage.spec.description.predictedProbabilitiesName
    joint.classes[name] = labels
    return {name: y}


def _sums(joint: Joint, x: onnx_ir.Value, trees: Any) -> onnx_ir.Value:
    """What the leaves of a row's trees come to, [1, sums]."""
    reader, nodes = joint.reader, trees.nodes
    modes = [_MODES[node.nodeBehavior] for node in nodes]
    leaves = [(node, info) for node, mode in zip(nodes, modes, strict=True) if mode == "LEAF"
              for info in node.evaluationInfo]  # fmt: skip
    sums = int(trees.numPredictionDimensions)
    places = zip(nodes, modes, strict=True)
    attributes: dict[str, Any] = {
        "nodes_treeids": [int(node.treeId) for node in nodes],
        "nodes_nodeids": [int(node.nodeId) for node in nodes],
        "nodes_featureids": [int(node.branchFeatureIndex) for node in nodes],
        "nodes_values": [_value(node.branchFeatureValue, mode) for node, mode in places],
        "nodes_modes": modes,
        "nodes_truenodeids": [int(node.trueChildNodeId) for node in nodes],
        "nodes_falsenodeids": [int(node.falseChildNodeId) for node in nodes],
        "nodes_missing_value_tracks_true": [int(n.missingValueTracksTrueChild) for n in nodes],
        "target_treeids": [int(node.treeId) for node, _ in leaves],
        "target_nodeids": [int(node.nodeId) for node, _ in leaves],
        "target_ids": [int(info.evaluationIndex) for _, info in leaves],
        "target_weights": [float(info.evaluationValue) for _, info in leaves],
        "n_targets": sums,
    }
    if len(trees.basePredictionValue):
        attributes["base_values"] = [float(value) for value in trees.basePredictionValue]
    row = reader.node("Reshape", [x, reader.ints([1, -1])])
    made = reader.node("TreeEnsembleRegressor", [row], attributes, DataType.FLOAT, "ai.onnx.ml")
    made.shape = onnx_ir.Shape([1, sums])
    return made


def _value(value: float, mode: str) -> float:
    """The float32 that splits float32 as a float64 does: the next one below it or above it."""
    near = np.float32(value)
    if mode in _FLOOR and float(near) > value:
        near = np.nextafter(near, np.float32(-np.inf))
    if mode in _CEIL and float(near) < value:
        near = np.nextafter(near, np.float32(np.inf))
    return float(near)
