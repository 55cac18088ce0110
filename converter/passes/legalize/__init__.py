"""Brings a model to operators that a target has: ONNX to ONNX, as MLIR's dialect conversion does.

A target says of each node whether it is legal. What isn't is rewritten by its operator's rewrite,
and what that gives again, until all is legal or can't be: then the node stays, and why is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import onnx_ir

from converter.ir.edit import all_nodes
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Builder, Rewrite, key_of

FAMILIES = {
    "borders": ("Pad",),
    "deformable": ("DeformConv",),
    "determinant": ("Det",),
    "einsum": ("Einsum",),
    "elements": ("GatherElements", "GatherND", "OneHot", "ScatterElements"),
    "elementwise": (
        *("Atanh", "CastLike", "Celu", "Cosh", "Dropout", "Elu", "HardSigmoid", "HardSwish"),
        *("IsInf", "Mean", "Selu", "Shrink", "Sinh", "Softsign", "Tan", "ThresholdedRelu"),
    ),
    "extremes": ("ArgMax", "ArgMin"),
    "grids": ("AffineGrid", "GridSample"),
    "hyperbolic": ("Acosh", "Asinh"),
    "integers": ("ConvInteger", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"),
    "normalization": (
        *("BatchNormalization", "GlobalLpPool", "GroupNormalization", "InstanceNormalization"),
        *("Log", "LpNormalization", "LpPool", "MeanVarianceNormalization"),
    ),
    "places": (
        *("CenterCropPad", "Col2Im", "Compress", "DepthToSpace", "EyeLike", "Hardmax"),
        *("SpaceToDepth", "Trilu"),
    ),
    "pooling": ("AveragePool", "Conv", "MaxPool"),
    "recurrent": ("GRU", "LSTM", "RNN"),
    "reductions": (
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
        *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Size"),
    ),
    "regions": ("RoiAlign",),
    "resizing": ("Resize", "Upsample"),
    "scans": ("Scan",),
    "spectrum": ("DFT", "MelWeightMatrix", "STFT"),
    "tables": (
        *("ai.onnx.ml::ArrayFeatureExtractor", "ai.onnx.ml::Binarizer", "ai.onnx.ml::Normalizer"),
        *("ai.onnx.ml::LinearClassifier", "ai.onnx.ml::LinearRegressor", "ai.onnx.ml::Scaler"),
    ),
    "unique": ("Unique",),
    "unpooling": ("MaxUnpool",),
}
"""Modules here, and the operators whose rewrites each of them has, in its ``REWRITES``; of another
domain than ONNX's by its :func:`key_of`."""


def _of(family: str, key: str) -> Rewrite:
    """A rewrite whose module is imported when it is first done."""

    def rewrite(builder: Builder, node: onnx_ir.Node) -> Any:
        return import_module(f"{__name__}.{family}").REWRITES[key](builder, node)

    return rewrite


REWRITES: Mapping[str, Rewrite] = {
    key: _of(family, key) for family, keys in FAMILIES.items() for key in keys
}
"""By operator."""

_OF_ANY_RANK = {*FAMILIES["elementwise"], *FAMILIES["reductions"]}
"""Operators whose rewrites ask for no shape."""

WHY = "modelyard-illegal"
"""Key in a node's ``meta``: the :class:`Refused` of its rewrite."""


@dataclass(frozen=True)
class Rewritten:
    """A rewrite that was done.

    Attributes:
        key: The node's name; of an operator that ONNX defines by others, ``::`` and its name,
            for all nodes of it together, and so of a pass over the whole graph.
        node: The node's name; empty for several.
        op_type: Its operator.
        way: What it is now, for people.
    """

    key: str
    node: str
    op_type: str
    way: str = "written as simpler operators"


def legalize(
    model: onnx_ir.Model,
    legal: Callable[[onnx_ir.Node], bool],
    rewrites: Mapping[str, Rewrite] = REWRITES,
) -> list[Rewritten]:
    """Rewrites what isn't legal, in place, subgraphs too.

    Args:
        model: Its values have the shapes that follow; every node has a name.
        legal: Whether a target takes a node as it is.
        rewrites: By operator, where a target has its own.

    Returns:
        What was rewritten, in order: a node before those that its rewrite made.
    """
    opset, done = model.opset_imports.get("", 0), list[Rewritten]()
    waiting = all_nodes(model)
    while found := [node for node in waiting if key_of(node) in rewrites and not legal(node)]:
        made: list[onnx_ir.Node] = []
        for node in found:
            new = _rewritten(node, opset, rewrites[key_of(node)])
            if new is not None:
                done.append(Rewritten(node.name or "", node.name or "", node.op_type))
                made += [inner for each in new for inner in _with_inner(each)]
        waiting = iter(made)
    return done


def _with_inner(node: onnx_ir.Node) -> Iterator[onnx_ir.Node]:
    """A node, and those of its graphs."""
    yield node
    for attribute in node.attributes.values():
        if attribute.type == onnx_ir.AttributeType.GRAPH:
            yield from list(onnx_ir.traversal.RecursiveGraphIterator(attribute.as_graph()))


def _rewritten(node: onnx_ir.Node, opset: int, rewrite: Rewrite) -> Sequence[onnx_ir.Node] | None:
    """The nodes that took a node's place; None where it stays."""
    unknown = any(value is not None and value.shape is None for value in node.inputs[:1])
    if unknown and node.op_type not in _OF_ANY_RANK:
        return None
    builder = Builder(node, opset)
    try:
        made = rewrite(builder, node)
    except Refused as error:
        node.meta[WHY] = error
        made = None
    if made is None:
        builder.discard()
        return None
    return builder.put(made if isinstance(made, tuple) else (made,))


def why_illegal(node: onnx_ir.Node) -> Refused | None:
    """Why a node's rewrite couldn't be; None where it has none, or none was tried."""
    found = node.meta.get(WHY)
    return found if isinstance(found, Refused) else None
