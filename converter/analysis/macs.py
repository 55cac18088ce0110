"""Multiply-adds of each node, counted from the shapes at given sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

import onnx
import onnx_ir

from converter.analysis.observed_shapes import HEAVY, observed_shapes
from converter.ir.model import BATCH, Model
from converter.ir.weight_placeholders import without_weights

PLAIN_RATE = 16e9
"""Multiply-adds a second that two cores of today work through in ONNX Runtime, one operator after
the other."""

Shapes = Mapping[str, tuple[int, ...]]


def node_macs(
    model: Model, sizes: Mapping[str, int], *, bodies: bool = False
) -> dict[onnx_ir.Node, int | None]:
    """Multiply-adds of each Conv, ConvTranspose, Gemm, MatMul, Einsum and recurrent node, and of
    those in integers.

    How often a body of an If, a Loop or a Scan runs isn't known: their nodes are left out, or
    each is counted as if it ran once. Shapes are inferred with every free dimension at its size.

    Args:
        model: At any opset.
        sizes: Of the symbolic dimensions by name; 1 for those it lacks.
        bodies: Whether to count the nodes of bodies.

    Returns:
        For each such node of ``model`` its count, None where a shape wasn't found.
    """
    nodes = list(model.nodes()) if bodies else list(model.graph.graph)
    shapes: Shapes = {}
    missing: set[str] = set()
    finders: tuple[Callable[[], Shapes], ...] = (
        partial(shapes_at, model, {BATCH: 1, **sizes}),
        partial(shapes_at, model, {BATCH: 1, **sizes}, fold=True),  # where sizes are computed
        lambda: observed_shapes(model, sizes, missing),  # where nothing else tells
    )
    for find in finders:
        shapes = {**shapes, **find()}
        found = _counts(nodes, shapes)
        missing = {
            value.name or ""
            for node, count in found.items()
            if count is None
            for value in (*node.inputs, *node.outputs)
            if value is not None and value.name not in shapes
        }
        if not missing:
            break
    return found


def _counts(nodes: Iterable[onnx_ir.Node], shapes: Shapes) -> dict[onnx_ir.Node, int | None]:
    found: dict[onnx_ir.Node, int | None] = {}
    for node in nodes:
        count = _COUNTERS.get(node.op_type)
        if count is None:
            continue
        try:
            found[node] = count(node, shapes)
        except (KeyError, TypeError, IndexError, ValueError):  # a shape that inference didn't find
            found[node] = None
    return found


def macs_by_node(model: Model, sizes: Mapping[str, int]) -> dict[str, int]:
    """As :func:`node_macs`, with bodies, by the nodes' names; those that couldn't be counted are
    left out."""
    counts = node_macs(model, sizes, bodies=True)
    return {node.name or "": count for node, count in counts.items() if count is not None}


def shapes_at(
    model: Model, sizes: Mapping[str, int], *, fold: bool = False
) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors by name, as far as inference finds them; see :func:`inferred_at`.

    Args:
        model: The graph, which isn't changed.
        sizes: Of free dimensions by name.
        fold: Whether what depends on these sizes alone is computed, which finds more shapes.
    """
    return dict(_known(inferred_at(model, sizes, fold=fold)))


def inferred_at(model: Model, sizes: Mapping[str, int], *, fold: bool = False) -> onnx.GraphProto:
    """The graph, with types and shapes as far as inference finds them, and without large weights.

    Args:
        model: At any opset.
        sizes: Of the symbolic dimensions by name; 1 for those it lacks.
        fold: Whether to compute sizes that the graph computes of shapes, first.
    """
    light, _ = without_weights(model.graph, HEAVY)  # inference looks at shapes alone
    for given in light.graph.inputs:
        if given.shape is not None:
            dims = (
                dim if isinstance(dim, int) else sizes.get(str(dim.value), 1) for dim in given.shape
            )
            given.shape = onnx_ir.Shape(dims)
    if fold:
        _fold(light)
    proto = onnx_ir.to_proto(light)
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    if proto.ByteSize() < onnx.checker.MAXIMUM_PROTOBUF:
        # where inference can't tell, a run does
        with suppress(onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
            proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    return proto.graph


def _fold(light: onnx_ir.Model) -> None:
    """Has sizes that are computed from shapes in the graph as constants, which inference needs."""
    from onnxscript import optimizer

    for node in light.graph.all_nodes():
        for output in node.outputs:
            output.shape = None
    with suppress(Exception):  # whatever trips the library, a run tells
        optimizer.fold_constants(light)


def _known(graph: onnx.GraphProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What a graph and the bodies in it say of shapes."""
    for value in (*graph.value_info, *graph.input, *graph.output):
        shape = value.type.tensor_type.shape.dim
        whole = all(dim.HasField("dim_value") and dim.dim_value > 0 for dim in shape)
        if value.type.tensor_type.HasField("shape") and whole:
            yield value.name, tuple(dim.dim_value for dim in shape)
    for tensor in graph.initializer:
        yield tensor.name, tuple(tensor.dims)
    for node in graph.node:
        for attribute in node.attribute:
            yield from _known(attribute.g)


def _shape(shapes: Shapes, value: onnx_ir.Value | None) -> tuple[int, ...]:
    return shapes[(value and value.name) or ""]


def _conv(node: onnx_ir.Node, shapes: Shapes) -> int:
    weights = _shape(shapes, node.inputs[1])
    return math.prod(_shape(shapes, node.outputs[0])) * math.prod(weights[1:])


def _conv_transpose(node: onnx_ir.Node, shapes: Shapes) -> int:
    weights = _shape(shapes, node.inputs[1])
    return math.prod(_shape(shapes, node.inputs[0])) * math.prod(weights[1:])


def _gemm(node: onnx_ir.Node, shapes: Shapes) -> int:
    first = _shape(shapes, node.inputs[0])
    transposed = node.attributes.get_int("transA", 0)
    return math.prod(_shape(shapes, node.outputs[0])) * first[0 if transposed else 1]


def _matmul(node: onnx_ir.Node, shapes: Shapes) -> int:
    return math.prod(_shape(shapes, node.outputs[0])) * _shape(shapes, node.inputs[0])[-1]


def _recurrent(node: onnx_ir.Node, shapes: Shapes) -> int:
    steps, batch = _shape(shapes, node.inputs[0])[:2]
    weights = math.prod(_shape(shapes, node.inputs[1]))
    return steps * batch * (weights + math.prod(_shape(shapes, node.inputs[2])))


def _linear_conv(node: onnx_ir.Node, shapes: Shapes) -> int:
    weights = _shape(shapes, node.inputs[3])
    return math.prod(_shape(shapes, node.outputs[0])) * math.prod(weights[1:])


def _einsum(node: onnx_ir.Node, shapes: Shapes) -> int | None:
    """As many as there are places for all its letters; none where nothing is summed over."""
    equation = node.attributes.get_string("equation", "") or ""
    terms, _, result = equation.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for term, value in zip(terms.split(","), node.inputs, strict=True):
        if "." in term or len(term) != len(_shape(shapes, value)):
            return None
        sizes |= {
            letter: max(size, sizes.get(letter, 1))
            for letter, size in zip(term, _shape(shapes, value), strict=True)
        }
    return math.prod(sizes.values()) if len(node.inputs) > 1 and set(sizes) - set(result) else 0


_COUNTERS = {
    "Conv": _conv,
    "ConvInteger": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "QGemm": _gemm,
    "QLinearConv": _linear_conv,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "MatMulNBits": _matmul,
    "QLinearMatMul": _matmul,
    "DynamicQuantizeLSTM": _recurrent,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
