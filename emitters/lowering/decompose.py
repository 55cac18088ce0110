"""Writes operators that a target hasn't as simpler ONNX ones, before layouts are chosen.

Simpler operators let transposes pass where the whole one would hold them: a normalization over
channels is right in any layout once it is written as means and products.

    1. BatchNormalization: x * scale + shift, with a number for each channel.
    2. InstanceNormalization, GroupNormalization: means over the axes of an instance or group.
    3. LpNormalization: x / norm along an axis.
    4. MeanVarianceNormalization: (x - mean) / deviation.
    5. log(1 + exp(x)) is Softplus, which keeps small values.
    6. QLinearMatMul, QLinearConv: the operator on real numbers between DQ and Q, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.graph.edit import add_constant, all_nodes, constant, is_op
from emitters.lowering.attributes import floating
from emitters.lowering.decompose_convolution import REWRITES as CONVOLUTIONS

Array = np.ndarray[Any, Any]
Rewrite = Callable[["Piece"], onnx_ir.Value | None]


class Piece:
    """New nodes in the place of one."""

    def __init__(self, node: onnx_ir.Node, graph: onnx_ir.Graph) -> None:
        self.node = node
        self._graph = graph
        self._count = 0
        self.made: list[onnx_ir.Node] = []

    def name(self) -> str:
        """A name for a part."""
        self._count += 1
        return f"{self.node.name or self.node.op_type}_part{self._count}"

    def add(
        self,
        op: str,
        inputs: Sequence[onnx_ir.Value | None],
        shape: Sequence[int | str | None],
        **attributes: int | float | Sequence[int],
    ) -> onnx_ir.Value:
        """The output of a new node, of the old one's type."""
        new = onnx_ir.node(op, inputs, attributes, name=self.name())
        output = new.outputs[0]
        output.name = new.name
        output.type, output.shape = self.node.outputs[0].type, onnx_ir.Shape(shape)
        self.made.append(new)
        return output

    def constant(self, array: Array) -> onnx_ir.Value:
        """A new initializer."""
        return add_constant(self._graph, self.name(), array)

    def number(self, x: float) -> onnx_ir.Value:
        """A new initializer of no axes, of the node's type."""
        dtype = self.node.outputs[0].dtype or onnx_ir.DataType.FLOAT
        return self.constant(np.asarray(x, dtype.numpy()))

    def mean(self, x: onnx_ir.Value, axes: Sequence[int]) -> onnx_ir.Value:
        """The mean over axes, which stay with one element."""
        shape = [1 if axis in axes else dim for axis, dim in enumerate(dims(x))]
        inputs = [x, self.constant(np.asarray(axes, np.int64))]
        return self.add("ReduceMean", inputs, shape, keepdims=1)

    def standardized(self, x: onnx_ir.Value, axes: Sequence[int], epsilon: float) -> onnx_ir.Value:
        """(x - mean) / sqrt(variance + epsilon)."""
        centred = self.add("Sub", [x, self.mean(x, axes)], dims(x))
        square = self.add("Mul", [centred, centred], dims(x))
        variance = self.mean(square, axes)
        raised = self.add("Add", [variance, self.number(epsilon)], dims(variance))
        root = self.add("Sqrt", [raised], dims(variance))
        return self.add("Div", [centred, root], dims(x))


def decompose(model: onnx_ir.Model, wanted: Collection[str] | None = None) -> None:
    """Rewrites the model in place, subgraphs too; what can't be written so stays.

    Args:
        model: Changed in place.
        wanted: Which of :data:`REWRITTEN`; all, unless said.
    """
    for node in all_nodes(model):
        chosen = wanted is None or node.op_type in wanted
        rewrite = _REWRITES.get(node.op_type) if chosen and is_op(node, *_REWRITES) else None
        known = node.inputs and node.inputs[0] is not None and node.inputs[0].shape is not None
        if rewrite is None or not known or node.outputs[0].shape is None:
            continue
        graph = node.graph
        assert isinstance(graph, onnx_ir.Graph)
        piece = Piece(node, graph)
        made = rewrite(piece)
        if made is not None:
            _put_in(piece, made, graph)


def _put_in(piece: Piece, made: onnx_ir.Value, graph: onnx_ir.Graph) -> None:
    old = piece.node.outputs[0]
    graph.insert_before(piece.node, piece.made)
    name = old.name
    old.replace_all_uses_with(made, replace_graph_outputs=True)
    made.shape = old.shape
    graph.remove(piece.node, safe=True)
    old.name = None
    made.name = name


def dims(value: onnx_ir.Value) -> list[int | str | None]:
    """A value's shape, whose rank is known."""
    assert value.shape is not None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


# -- rewrites ----------------------------------------------------------------------------


def _batch_normalization(piece: Piece) -> onnx_ir.Value | None:
    """With constant statistics; not while training, which has other outputs."""
    node, x = piece.node, piece.node.inputs[0]
    training = node.attributes.get("training_mode")
    numbers = [constant(value) for value in node.inputs[1:5]]
    if x is None or (training is not None and training.as_int()):
        return None
    if any(array is None for array in numbers):
        return None
    scale, bias, mean, variance = (np.asarray(array, np.float64) for array in numbers)
    factor = scale / np.sqrt(variance + floating(node, "epsilon", 1e-5))
    dtype = (node.outputs[0].dtype or onnx_ir.DataType.FLOAT).numpy()
    shape = (-1, *[1] * (len(dims(x)) - 2))
    products = piece.constant(factor.reshape(shape).astype(dtype))
    shift = piece.constant((bias - mean * factor).reshape(shape).astype(dtype))
    return piece.add("Add", [piece.add("Mul", [x, products], dims(x)), shift], dims(x))


def _instance_normalization(piece: Piece) -> onnx_ir.Value | None:
    node, x = piece.node, piece.node.inputs[0]
    assert x is not None
    rank = len(dims(x))
    made = piece.standardized(x, range(2, rank), floating(node, "epsilon", 1e-5))
    return _scaled(piece, made, rank)


def _scaled(piece: Piece, x: onnx_ir.Value, rank: int) -> onnx_ir.Value | None:
    """``x`` times a number for each channel, and another added."""
    parts = []
    for value in piece.node.inputs[1:3]:
        array = constant(value)
        if array is not None:
            parts.append(piece.constant(array.reshape(-1, *[1] * (rank - 2))))
            continue
        assert value is not None
        shape = piece.constant(np.asarray([-1, *[1] * (rank - 2)], np.int64))
        target = [*dims(value)[:1], *[1] * (rank - 2)]
        parts.append(piece.add("Reshape", [value, shape], target))
    return piece.add("Add", [piece.add("Mul", [x, parts[0]], dims(x)), parts[1]], dims(x))


def _group_normalization(piece: Piece) -> onnx_ir.Value | None:
    """Opset 18 has a scale for each group, 21 for each channel: told apart by their number."""
    node, x = piece.node, piece.node.inputs[0]
    assert x is not None
    groups, shape = node.attributes["num_groups"].as_int(), dims(x)
    channels = shape[1]
    if not isinstance(channels, int) or any(not isinstance(dim, int) for dim in shape[2:]):
        return None
    split = [shape[0], groups, channels // groups, *shape[2:]]
    target = piece.constant(np.asarray([0, *split[1:]], np.int64))
    grouped = piece.add("Reshape", [x, target], split)
    made = piece.standardized(grouped, range(2, len(split)), floating(node, "epsilon", 1e-5))
    count = dims(node.inputs[1])[0] if node.inputs[1] is not None else None
    if count == groups and groups != channels:
        scaled = _scaled(piece, made, len(split))
        assert scaled is not None
        made = scaled
    whole = piece.constant(np.asarray([0, *shape[1:]], np.int64))
    made = piece.add("Reshape", [made, whole], shape)
    return made if count == groups and groups != channels else _scaled(piece, made, len(shape))


def _lp_normalization(piece: Piece) -> onnx_ir.Value | None:
    node, x = piece.node, piece.node.inputs[0]
    assert x is not None
    axis = node.attributes.get("axis")
    order = node.attributes.get("p")
    place = (axis.as_int() if axis is not None else -1) % len(dims(x))
    kept = [1 if a == place else dim for a, dim in enumerate(dims(x))]
    op = "ReduceL1" if order is not None and order.as_int() == 1 else "ReduceL2"
    axes = piece.constant(np.asarray([place], np.int64))
    norm = piece.add(op, [x, axes], kept, keepdims=1)
    tiny = piece.number(float(np.finfo(np.float32).tiny))  # nothing by nothing is nothing here
    return piece.add("Div", [x, piece.add("Max", [norm, tiny], kept)], dims(x))


def _mean_variance(piece: Piece) -> onnx_ir.Value | None:
    node, x = piece.node, piece.node.inputs[0]
    assert x is not None
    attribute = node.attributes.get("axes")
    axes = [a % len(dims(x)) for a in (attribute.as_ints() if attribute is not None else (0, 2, 3))]
    centred = piece.add("Sub", [x, piece.mean(x, axes)], dims(x))
    square = piece.add("Mul", [centred, centred], dims(x))
    variance = piece.mean(square, axes)
    root = piece.add("Sqrt", [variance], dims(variance))
    raised = piece.add("Add", [root, piece.number(1e-9)], dims(variance))
    return piece.add("Div", [centred, raised], dims(x))


def _softplus(piece: Piece) -> onnx_ir.Value | None:
    """A Log of 1 + exp(x), where nothing else wants the sum."""
    sum_ = piece.node.inputs[0]
    add = sum_.producer() if sum_ is not None else None
    if add is None or not is_op(add, "Add") or sum_ is None or len(sum_.uses()) != 1:
        return None
    for power, one in (add.inputs, add.inputs[::-1]):
        exp = power.producer() if power is not None else None
        number = constant(one)
        if exp is None or not is_op(exp, "Exp") or number is None or number.size != 1:
            continue
        x = exp.inputs[0]
        if float(number.reshape(-1)[0]) == 1.0 and x is not None and x.shape is not None:
            return piece.add("Softplus", [x], dims(x))
    return None


def _real(piece: Piece, index: int, axis: int) -> onnx_ir.Value | None:
    """The real numbers of the integers at ``index``; scale and zero point are the next inputs."""
    stored, scale, zero = piece.node.inputs[index : index + 3]
    if stored is None or stored.shape is None or scale is None:
        return None
    made = piece.add("DequantizeLinear", [stored, scale, zero], dims(stored), axis=axis)
    made.type = onnx_ir.TensorType(onnx_ir.DataType.FLOAT)
    return made


def _qlinear_matmul(piece: Piece) -> onnx_ir.Value | None:
    node = piece.node
    a, b = _real(piece, 0, -2), _real(piece, 3, -1)
    if a is None or b is None or node.outputs[0].shape is None:
        return None
    product = piece.add("MatMul", [a, b], dims(node.outputs[0]))
    product.type = a.type
    return piece.add("QuantizeLinear", [product, *node.inputs[6:8]], dims(product))


def _qlinear_conv(piece: Piece) -> onnx_ir.Value | None:
    """The bias is int32 of scale x * weights."""
    node = piece.node
    x, weights = _real(piece, 0, 1), _real(piece, 3, 0)
    first, second = (constant(node.inputs[index]) for index in (1, 4))
    if x is None or weights is None or node.outputs[0].shape is None:
        return None
    inputs = [x, weights]
    if len(node.inputs) > 8 and node.inputs[8] is not None:
        if first is None or second is None:
            return None
        scale = piece.constant(np.asarray(first * second, np.float32))
        bias = node.inputs[8]
        inputs.append(piece.add("DequantizeLinear", [bias, scale], dims(bias), axis=0))
        inputs[-1].type = x.type
    made = piece.add("Conv", inputs, dims(node.outputs[0]))
    for name, attribute in node.attributes.items():
        piece.made[-1].attributes[name] = attribute
    made.type = x.type
    return piece.add("QuantizeLinear", [made, *node.inputs[6:8]], dims(made))


_REWRITES: dict[str, Rewrite] = {
    **CONVOLUTIONS,
    "BatchNormalization": _batch_normalization,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "Log": _softplus,
    "LpNormalization": _lp_normalization,
    "MeanVarianceNormalization": _mean_variance,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
}

REWRITTEN = frozenset(_REWRITES)
"""The operators that may be written as simpler ones."""
