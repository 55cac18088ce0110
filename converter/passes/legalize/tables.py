"""What models of tables are written in (ai.onnx.ml), in plain arithmetic.

Scaler: (x - offset) * scale. Linear models: x W + b, and of classes Sigmoid or Softmax of that, the
label being that of the largest. Normalizer: x / |x|, a row of zeros as it is.

Source: the operator pages of ai.onnx.ml, and ONNX Runtime where these leave something open.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from converter.passes.legalize.builder import Array, Builder, DataType, Rewrite, Value, rank

_SCORES_TOO = "have the model give its scores too: a label that is text is left out beside them"
_SCORES = {"NONE": "", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}


def scaler(b: Builder, node: onnx_ir.Node) -> Value:
    """(x - offset) * scale, in float32."""
    x = b.cast(_taken(node), DataType.FLOAT)
    offset, scale = (np.asarray(_floats(node, name), np.float32) for name in ("offset", "scale"))
    if offset.any():
        x = b.op("Sub", x, offset)
    return b.op("Mul", x, scale)


def normalizer(b: Builder, node: onnx_ir.Node) -> Value:
    """Each row over its norm."""
    x = b.cast(_taken(node), DataType.FLOAT)
    norm = _text(node, "norm", "MAX")
    if norm not in ("L1", "L2"):
        raise Refused(f"a Normalizer by {norm}", "use L1 or L2")
    size = b.reduce(f"Reduce{norm}", x, [rank(x) - 1])
    empty = b.op("Equal", size, b.number(0.0, size))
    return b.op("Div", x, b.op("Where", empty, b.number(1.0, size), size))


def linear_regressor(b: Builder, node: onnx_ir.Node) -> Value:
    """x W + b."""
    if (after := _text(node, "post_transform", "NONE")) != "NONE":
        raise Refused(f"a LinearRegressor with the post-transform {after}")
    targets = node.attributes.get_int("targets", 1) or 1
    return _linear(b, node, targets)


def linear_classifier(b: Builder, node: onnx_ir.Node) -> tuple[Value | None, Value]:
    """The label, where it is a number, and the scores."""
    integers = _ints(node, "classlabels_ints")
    count = len(integers) or len(_texts(node, "classlabels_strings"))
    after = _text(node, "post_transform", "NONE")
    if after not in _SCORES:
        raise Refused(f"a LinearClassifier with the post-transform {after}")
    if len(_floats(node, "coefficients")) % count or len(_floats(node, "intercepts")) != count:
        raise Refused("a LinearClassifier that doesn't give a score for each class")
    plain = _linear(b, node, count)
    kind = _SCORES[after]
    more = {"axis": 1} if kind == "Softmax" else {}
    scores = b.op(kind, plain, **more) if kind else plain
    label = None
    if _is_used(node.outputs[0]):
        if not integers:
            raise Refused("a label that is text", _SCORES_TOO)
        place = b.op("ArgMax", plain, axis=1, keepdims=0)
        label = b.op("Gather", np.asarray(integers, np.int64), place, axis=0)
    return label, scores


def extractor(b: Builder, node: onnx_ir.Node) -> Value:
    """Places of the last axis."""
    x, places = _taken(node), b.input(1)
    assert places is not None
    if rank(x) == 1:
        x = b.unsqueeze(x, [0])
    return b.op("Gather", x, b.op("Reshape", places, np.asarray([-1])), axis=-1)


def binarizer(b: Builder, node: onnx_ir.Node) -> Value:
    """1 above the threshold, else 0."""
    x = _taken(node)
    assert x.dtype is not None
    given = node.attributes.get("threshold")
    threshold = b.number(given.as_float() if given is not None else 0.0, x)
    return b.cast(b.op("Greater", x, threshold), x.dtype)


REWRITES: dict[str, Rewrite] = {
    "ai.onnx.ml::ArrayFeatureExtractor": extractor,
    "ai.onnx.ml::Binarizer": binarizer,
    "ai.onnx.ml::LinearClassifier": linear_classifier,
    "ai.onnx.ml::LinearRegressor": linear_regressor,
    "ai.onnx.ml::Normalizer": normalizer,
    "ai.onnx.ml::Scaler": scaler,
}


def _linear(b: Builder, node: onnx_ir.Node, count: int) -> Value:
    """x W + b [rows, count]; W lies in the node row by row of its results."""
    x = _taken(node)
    if rank(x) != 2:
        raise Refused(f"a {node.op_type} of {rank(x)} axes")
    weights: Array = np.asarray(_floats(node, "coefficients"), np.float32).reshape(count, -1)
    made = b.op("MatMul", b.cast(x, DataType.FLOAT), np.ascontiguousarray(weights.T))
    intercepts = np.asarray(_floats(node, "intercepts") or [0.0] * count, np.float32)
    return b.op("Add", made, intercepts)


def _taken(node: onnx_ir.Node) -> Value:
    x = node.inputs[0]
    assert x is not None
    return x


def _is_used(value: Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _floats(node: onnx_ir.Node, name: str) -> Sequence[float]:
    found = node.attributes.get(name)
    return list(found.as_floats()) if found is not None else []


def _ints(node: onnx_ir.Node, name: str) -> Sequence[int]:
    found = node.attributes.get(name)
    return list(found.as_ints()) if found is not None else []


def _texts(node: onnx_ir.Node, name: str) -> Sequence[str]:
    found = node.attributes.get(name)
    return list(found.as_strings()) if found is not None else []


def _text(node: onnx_ir.Node, name: str, default: str) -> str:
    found = node.attributes.get(name)
    return found.as_string() if found is not None else default
