"""The numbers, few, that sizes of other constants hang on, where ONNX's inference loses sight.

    ConstantOfShape(Neg(Neg([60000, 60000])))        its data propagation knows no Neg

Only operators that give no more numbers than their inputs' sizes say are computed here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.ir.edit import add_constant, constant, is_op

_SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("ConstantOfShape", "HannWindow", "HammingWindow", "BlackmanWindow"), (0,)),
    **dict.fromkeys(("Expand", "Tile", "Reshape", "Pad", "Upsample", "OneHot", "DFT"), (1,)),
    "Range": (0, 1, 2),
    "Resize": (2, 3),
    "MelWeightMatrix": (0, 1),
    "CenterCropPad": (1,),
}
"""The inputs of an operator that say how large what it gives is."""

_COMPUTED = frozenset((
    *("Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr"),
    *("BitwiseXor", "Cast", "Ceil", "Clip", "Concat", "Constant", "Div", "Equal", "Exp", "Flatten"),
    *("Floor", "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log"),
    *("Max", "Mean", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "ReduceMax"),
    *("ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Round", "Shape", "Sign"),
    *("Size", "Slice", "Sqrt", "Squeeze", "Sub", "Sum", "Transpose", "Trunc", "Unsqueeze"),
    *("Where", "Xor"),
))  # fmt: skip
_FEW = 64
"""Elements of an input at most: a shape has as many dimensions."""

_MOST = 2000
"""Nodes at most: each takes half a millisecond."""

Array = np.ndarray[Any, Any]


def with_small_values(model: onnx_ir.Model) -> onnx_ir.Model:
    """A copy in which such numbers are stored; the model itself where there are none."""
    known: dict[str, Array] = {}
    for node in _needed(model.graph):
        given = [_value(value, known) for value in node.inputs if value is not None]
        if all(array is not None and array.size <= _FEW for array in given):
            known.update(_computed(node, [array for array in given if array is not None], model))
    if not known:
        return model
    copy = model.clone()
    for node in list(copy.graph):
        for output in node.outputs:
            if output.name in known and not output.is_graph_output():
                stored = add_constant(copy.graph, f"{output.name}?stored", known[output.name])
                output.replace_all_uses_with(stored)
    return copy


def _value(value: onnx_ir.Value, known: dict[str, Array]) -> Array | None:
    return known[value.name] if value.name in known else constant(value)


def _needed(graph: onnx_ir.Graph) -> list[onnx_ir.Node]:
    """The main graph's nodes that sizes hang on and that are computed, first those that come first;
    none where they are too many."""
    sizes = [
        node.inputs[place]
        for node in graph
        for place in _SIZES.get(node.op_type, ())
        if place < len(node.inputs)
    ]
    waiting = [value.producer() for value in sizes if value is not None]
    found: set[onnx_ir.Node] = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found and is_op(node, *_COMPUTED):
            found.add(node)
            waiting += [value.producer() for value in node.inputs if value is not None]
    return [node for node in graph if node in found] if len(found) <= _MOST else []


def _computed(node: onnx_ir.Node, given: list[Array], model: onnx_ir.Model) -> dict[str, Array]:
    """What a node gives; nothing where it can't be told, as of a damaged one."""
    from onnx.reference import ReferenceEvaluator

    proto = onnx_ir.to_proto(node)
    names = [name for name in proto.input if name]
    graph = onnx.helper.make_graph(
        [proto], "g", [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names)],
        [onnx.ValueInfoProto(name=name) for name in proto.output if name],
    )  # fmt: skip
    opset = {"": min(model.graph.opset_imports.get("", 1), onnx.defs.onnx_opset_version())}
    with suppress(Exception), np.errstate(all="ignore"):  # whatever the evaluator raises
        evaluator = ReferenceEvaluator(graph, opsets=opset)
        results = evaluator.run(None, dict(zip(names, given, strict=True)))
        made = zip(evaluator.output_names, results, strict=True)
        return {name: np.asarray(array) for name, array in made if array is not None}
    return {}
