"""Takes Q and DQ away around operators that compute in integers, and leaves integers there.

    Given:   y = Q(Relu(Conv(DQ(x), DQ(W), DQ(b))))       x, y, W int8, b int32
    Result:  y = Relu(Conv(x, W, b))                      all integers; each value's scale and
                                                          zero point in its ``meta``
What is left of Q and DQ becomes QUANTIZE and DEQUANTIZE.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.edit import all_nodes, attribute_int, constant_tensor, is_op
from emitters.tflite.context import QUANT
from emitters.tflite.graph import Quant
from emitters.tflite.registry import lowering_of
from emitters.tflite.scales import spread_scales

ACTIVATIONS = ("Relu", "Clip")
"""What may stand between an operator and its Q: its integers are clipped alike."""


SIXTEEN_BITS = frozenset(
    {"Add", "Concat", "Conv", "Flatten", "Gather", "Gemm", "GlobalAveragePool", "Identity",
     "LeakyRelu", "Linear", "MatMul", "MaxPool", "Mul", "Pad", "ReduceMean", "Reshape", "Sigmoid",
     "Slice", "Softmax", "Split", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Operators whose kernels compute on int16, or move it."""


def fold_quantization(model: onnx_ir.Model) -> None:
    """Rewrites the model in place, subgraphs too."""
    _carry_into_integers(model)
    for node in all_nodes(model):
        if is_op(node, "QuantizeLinear"):
            _undo(node)
    for node in all_nodes(model):
        if not is_op(node, "QuantizeLinear", "DequantizeLinear"):
            _fold(node)
    for kind in ("QuantizeLinear", "DequantizeLinear"):  # what makes integers says what they are
        for node in all_nodes(model):
            if is_op(node, kind):
                _note(node)
    spread_scales(model)
    for node in reversed(list(all_nodes(model))):
        output = node.outputs[0]
        unused = not output.uses() and not output.is_graph_output()
        if unused and is_op(node, "QuantizeLinear", "DequantizeLinear"):
            assert node.graph is not None
            node.graph.remove(node, safe=True)


def quant_of(node: onnx_ir.Node) -> Quant | None:
    """The scales of a QuantizeLinear or DequantizeLinear; None where they aren't constant, or
    in blocks."""
    if attribute_int(node, "block_size", 0) != 0:
        return None
    stored = constant_tensor(node.inputs[1])
    if stored is None:
        return None
    scale = np.atleast_1d(stored.numpy()).astype(np.float32)
    point = constant_tensor(node.inputs[2]) if len(node.inputs) > 2 else None
    if len(node.inputs) > 2 and node.inputs[2] is not None and point is None:
        return None
    zero = np.zeros(scale.shape, np.int64)
    if point is not None:
        zero = np.atleast_1d(point.numpy()).astype(np.int64)
    data = node.inputs[0]
    if scale.size == 1:
        return Quant(scale, zero)
    axis, shape = attribute_int(node, "axis", 1), data.shape if data is not None else None
    if axis is None or shape is None:
        return None
    return Quant(scale, zero, axis % len(shape))


def _note(node: onnx_ir.Node) -> None:
    """Says of the integers beside a Q or DQ what they stand for."""
    found = quant_of(node)
    value = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
    if found is not None and value is not None:
        value.meta.setdefault(QUANT, found)


# -- integers first ----------------------------------------------------------------------


def _carry_into_integers(model: onnx_ir.Model) -> None:
    """A Transpose or Reshape behind a DQ goes before it, one before a Q behind it: so that
    nothing stands between operators and their Q and DQ.

        Given:   b = Transpose(DQ(a))      Result:   b = DQ(Transpose(a))
    """
    nodes = list(all_nodes(model))
    for node in nodes:
        if is_op(node, "Transpose", "Reshape"):
            maker = node.inputs[0].producer() if node.inputs[0] is not None else None
            if maker is not None and is_op(maker, "DequantizeLinear") and _one_scale(maker):
                _swap_behind(maker, node)
    for node in reversed(nodes):
        if is_op(node, "QuantizeLinear") and _one_scale(node):
            maker = node.inputs[0].producer() if node.inputs[0] is not None else None
            if maker is not None and is_op(maker, "Transpose", "Reshape"):
                _swap_before(maker, node)


def _undo(quantize: onnx_ir.Node) -> None:
    """``Q(DQ(x))`` of the same scales is ``x``."""
    value = quantize.inputs[0]
    maker = value.producer() if value is not None else None
    if maker is None or not is_op(maker, "DequantizeLinear"):
        return
    stored, output = maker.inputs[0], quantize.outputs[0]
    before, after = quant_of(maker), quant_of(quantize)
    if stored is None or stored.dtype != output.dtype or output.is_graph_output():
        return
    if before is None or not before.same(after):
        return
    stored.meta.setdefault(QUANT, before)
    for use in list(output.uses()):
        use.node.replace_input_with(use.idx, stored)


def _one_scale(node: onnx_ir.Node) -> bool:
    found = quant_of(node)
    return found is not None and found.axis is None


def _swap_behind(dequantize: onnx_ir.Node, move: onnx_ir.Node) -> None:
    """``move(DQ(x))`` becomes ``DQ(move(x))``."""
    stored, output = dequantize.inputs[0], move.outputs[0]
    assert stored is not None and move.graph is not None
    again = onnx_ir.node("DequantizeLinear", [output, *dequantize.inputs[1:]])
    again.name = f"{move.name}_dequantized"
    _put_behind(move, again)
    move.replace_input_with(0, stored)
    output.type = stored.type
    found = quant_of(dequantize)
    if found is not None:
        output.meta[QUANT] = found


def _swap_before(move: onnx_ir.Node, quantize: onnx_ir.Node) -> None:
    """``Q(move(x))`` becomes ``move(Q(x))``, where nothing else takes ``move(x)``."""
    between, output = move.outputs[0], quantize.outputs[0]
    source = move.inputs[0]
    if len(between.uses()) != 1 or between.is_graph_output() or source is None:
        return
    first = onnx_ir.node("QuantizeLinear", [source, *quantize.inputs[1:]])
    first.name, first.outputs[0].name = f"{quantize.name}_first", f"{output.name}_first"
    first.outputs[0].type, first.outputs[0].shape = output.type, source.shape
    found = quant_of(quantize)
    if found is not None:
        first.outputs[0].meta[QUANT] = output.meta[QUANT] = found
    assert move.graph is not None
    move.graph.insert_before(move, first)
    move.replace_input_with(0, first.outputs[0])
    _take_over(quantize, between)


def _put_behind(node: onnx_ir.Node, new: onnx_ir.Node) -> None:
    """Has all users of ``node`` use ``new``, which takes its name, and stands behind it."""
    old, made = node.outputs[0], new.outputs[0]
    made.type, made.shape = old.type, old.shape
    assert node.graph is not None
    node.graph.insert_after(node, new)
    for use in list(old.uses()):
        if use.node is not new:
            use.node.replace_input_with(use.idx, made)
    name = old.name
    if old.is_graph_output():
        for place, value in enumerate(node.graph.outputs):
            if value is old:
                node.graph.outputs[place] = made
    old.name, made.name = f"{name}_stored", name


def _take_over(old: onnx_ir.Node, value: onnx_ir.Value) -> None:
    """Drops a Q: ``value``, integers now, is its output, by its name."""
    output, graph = old.outputs[0], old.graph
    assert graph is not None
    value.type, value.shape = output.type, output.shape
    value.meta.update(output.meta)
    for use in list(output.uses()):
        use.node.replace_input_with(use.idx, value)
    for place, item in enumerate(graph.outputs):
        if item is output:
            graph.outputs[place] = value
    name = output.name
    graph.remove(old, safe=True)
    output.name = None
    value.name = name


# -- operators in integers ---------------------------------------------------------------


def _fold(node: onnx_ir.Node) -> None:
    """Has a node compute in integers, if all it takes and gives has scales."""
    lowering = lowering_of(node)
    if lowering is None or not lowering.integer or node.op_type in ACTIVATIONS:
        return
    taken = _integers_taken(node)
    types = {value.dtype for value, _ in (taken or {}).values()}
    if onnx_ir.DataType.INT16 in types and node.op_type not in SIXTEEN_BITS:
        return
    given = [_chain(output) for output in node.outputs if output.uses() or output.is_graph_output()]
    if taken is None or not given or any(chain is None for chain in given):
        return
    for index, (value, quant) in taken.items():
        value.meta.setdefault(QUANT, quant)
        node.replace_input_with(index, value)
    for chain in given:
        assert chain is not None
        _end(*chain)


def _integers_taken(node: onnx_ir.Node) -> dict[int, tuple[onnx_ir.Value, Quant]] | None:
    """The integers behind each floating input; None where one has none."""
    found: dict[int, tuple[onnx_ir.Value, Quant]] = {}
    for index, value in enumerate(node.inputs):
        if value is None or value.dtype != onnx_ir.DataType.FLOAT or _is_setting(node, index):
            continue
        if index == 2 and _is_wide_bias(value, found):
            continue
        maker = value.producer()
        if maker is None or not is_op(maker, "DequantizeLinear"):
            return None
        quant, stored = quant_of(maker), maker.inputs[0]
        if quant is None or stored is None:
            return None
        if quant.axis is not None and constant_tensor(stored) is None:
            return None
        before = stored.meta.get(QUANT)
        if before is not None and not before.same(quant):  # integers that stand for two things
            if constant_tensor(stored) is None:
                return None
            stored = _again(stored, node)
        found[index] = (stored, quant)
    return found or None


def _is_wide_bias(value: onnx_ir.Value, taken: dict[int, tuple[onnx_ir.Value, Quant]]) -> bool:
    """Whether it is a bias of float32 beside int16, which becomes int64 with the kernel's scale."""
    sixteen = any(stored.dtype == onnx_ir.DataType.INT16 for stored, _ in taken.values())
    return sixteen and constant_tensor(value) is not None


def _again(value: onnx_ir.Value, node: onnx_ir.Node) -> onnx_ir.Value:
    """A constant's tensor once more, by another name; ``node`` is where it is used."""
    graph, count = node.graph, 1
    assert isinstance(graph, onnx_ir.Graph)
    while f"{value.name}_{count}" in graph.initializers:
        count += 1
    made = onnx_ir.Value(
        name=f"{value.name}_{count}",
        shape=value.shape,
        type=value.type,
        const_value=constant_tensor(value),
    )
    graph.register_initializer(made)
    return made


def _is_setting(node: onnx_ir.Node, index: int) -> bool:
    """Whether an input says how to do it and holds no data: the scales of a Resize, what a Pad
    puts around."""
    if node.op_type == "Pad":
        return index == 2 and constant_tensor(node.inputs[2]) is not None
    return index > 0 and node.op_type in ("Resize", "Upsample")


def _chain(
    output: onnx_ir.Value,
) -> tuple[onnx_ir.Value, list[onnx_ir.Node], list[onnx_ir.Node]] | None:
    """An output, the activations behind it, and the Qs behind those; None where there is
    another use of one of them."""
    activations: list[onnx_ir.Node] = []
    value = output
    while True:
        users = [use.node for use in value.uses()]
        if value.is_graph_output() or not users:
            return None
        if all(is_op(user, "QuantizeLinear") for user in users):
            quants = [quant_of(user) for user in users]
            first = quants[0]
            if first is None or first.axis is not None or not all(first.same(q) for q in quants):
                return None
            if len({user.outputs[0].dtype for user in users}) != 1:
                return None
            return output, activations, users
        if len(users) != 1 or not is_op(users[0], *ACTIVATIONS):
            return None
        activations.append(users[0])
        value = users[0].outputs[0]


def _end(
    output: onnx_ir.Value, activations: list[onnx_ir.Node], quantizes: list[onnx_ir.Node]
) -> None:
    """Takes the Qs at the end of a chain away: all of it is integers of their scale now."""
    quant = quant_of(quantizes[0])
    stored_type = quantizes[0].outputs[0].type
    values = [output, *(node.outputs[0] for node in activations)]
    for value in values:
        value.type = stored_type
        if quant is not None:
            value.meta[QUANT] = quant
    for quantize in quantizes:
        _take_over(quantize, values[-1])
