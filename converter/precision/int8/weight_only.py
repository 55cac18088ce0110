"""int8-dynamic for targets whose kernels take int8 weights beside float activations.

    Given:   y = Conv(x, W, b)
    Result:  y = Conv(x, DequantizeLinear(W8), b)          W8 int8, a scale for each output channel
Nothing is measured beforehand, so it needs no samples: such a target's kernels round a layer's
input to eight bits themselves, by the values that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import onnx_ir

from converter.analysis.macs import macs_by_node
from converter.errors import ModelError
from converter.ir.edit import add_constant, attribute_int, constant_tensor, is_op
from converter.ir.facts import RESHAPES
from converter.ir.model import Model
from converter.precision.int8.placement import require_nodes
from converter.precision.int8.scheme import Scheme
from converter.precision.int8.weights import store_weight, weight_scales
from converter.precision.quantized import Kept, Quantized

OPS = ("Conv", "Gemm", "MatMul")

_MOVES = RESHAPES | {"Identity", "Pad", "Relu", "Transpose"}  # what hybrid kernels see through

SMALLEST = 1024
"""Elements from which a weight is stored as int8: less isn't worth what it loses. TensorFlow's
converter has the same bound."""


def quantize_weights(
    model: Model,
    scheme: Scheme,
    keep: Collection[str] = (),
    sizes: Mapping[str, int] | None = None,
) -> Quantized:
    """The model with the weights of its matrix operators as int8.

    Args:
        model: At the pipeline's opset, every node named; not changed.
        scheme: The target's; its largest stored weight counts.
        keep: Names of nodes to leave in float32.
        sizes: Of free dimensions, for counting multiply-adds; 1 for those it lacks.

    Raises:
        ModelError: It has no such operator with a constant weight that is large enough.
        UsageError: ``keep`` names a node that isn't there.
    """
    require_nodes(model, keep)
    made = model.copy()
    macs = macs_by_node(model, dict.fromkeys(model.symbols, 1) | dict(sizes or {}))
    lowered: list[str] = []
    kept: list[Kept] = []
    for node in list(made.nodes()):
        reason = _why_not(node, keep)
        if reason is None:
            _store(node, scheme)
            lowered.append(node.name or "")
        elif reason:
            kept.append(Kept(node.name or "", node.op_type, reason, macs.get(node.name or "", 0)))
    if not lowered and not keep:
        raise ModelError(
            f"int8-dynamic stores weights of {', '.join(OPS)} as int8, and the model has none of "
            f"{SMALLEST} elements or more",
            code="precision-unavailable",
            hint="Use --precision int8.",
        )
    return Quantized(
        made,
        "int8-dynamic",
        scheme.name,
        kept=kept,
        lowered=lowered,
        macs=sum(macs.values()),
        macs_lowered=sum(macs.get(name, 0) for name in lowered),
    )


HYBRID = "has int8 weights and rounds its activations as it runs"


def keep_weights_int8(
    lowered: Quantized, nodes: Collection[str], scheme: Scheme, macs: Mapping[str, int]
) -> None:
    """Has nodes that were left in float32 take int8 weights, where there are kernels for it.

    Those stay float32 wholly that take integers of the graph: a kernel would round them anew, by
    other scales.

    Args:
        lowered: Changed in place; nodes that it is done to are among those lowered then, and stay
            in ``kept`` with what they do instead.
        nodes: Names of nodes to do it to.
        scheme: The target's.
        macs: The multiply-adds by node.
    """
    done = set()
    for node in list(lowered.model.nodes()):
        if node.name in nodes and _why_not(node, ()) is None and not _takes_integers(node):
            _store(node, scheme)
            done.add(node.name or "")
    lowered.lowered += sorted(done)
    lowered.macs_lowered += sum(macs.get(name, 0) for name in done)
    lowered.kept = [
        replace(item, instead=HYBRID) if item.node in done else item for item in lowered.kept
    ]


def _why_not(node: onnx_ir.Node, keep: Collection[str]) -> str | None:
    """Why a node stays in float32, empty where it isn't one to ask of; None where it doesn't."""
    if not is_op(node, *OPS) or node.inputs[1] is None:
        return ""
    weight = constant_tensor(node.inputs[1])
    if weight is None or weight.dtype != onnx_ir.DataType.FLOAT:
        return ""
    if node.name in keep:
        return "asked for"
    if weight.size < SMALLEST:
        return f"its weight has {weight.size} elements"
    if node.op_type == "MatMul" and len(weight.shape) != 2:
        return f"its weight has {len(weight.shape)} axes"
    groups = attribute_int(node, "group", 1) if node.op_type == "Conv" else 1
    if groups != 1 and weight.shape[1] != 1:
        return "a convolution of groups has no kernel for it"
    if node.op_type == "Conv" and len(weight.shape) > 4:
        return "a convolution of three axes has no kernel for it"
    return None


def _takes_integers(node: onnx_ir.Node) -> bool:
    """Whether a DequantizeLinear gives a node's first input; what moves numbers may lie between."""
    maker = node.inputs[0].producer() if node.inputs[0] is not None else None
    while is_op(maker, *_MOVES):
        assert maker is not None
        maker = maker.inputs[0].producer() if maker.inputs[0] is not None else None
    return is_op(maker, "DequantizeLinear")


def _axis(node: onnx_ir.Node) -> int:
    """The axis of a weight's output channels."""
    if node.op_type == "MatMul":
        return 1
    return 0 if node.op_type == "Conv" or attribute_int(node, "transB", 0) else 1


def _store(node: onnx_ir.Node, scheme: Scheme) -> None:
    value, graph = node.inputs[1], node.graph
    stored = constant_tensor(value)
    assert value is not None and stored is not None and isinstance(graph, onnx_ir.Graph)
    axis, weight = _axis(node), np.asarray(stored.numpy())
    scales = weight_scales(weight, axis, scheme.weight_limit)
    parts = {
        "int8": store_weight(weight, scales, axis, scheme.weight_limit),
        "scale": scales,
    }
    inputs = [
        add_constant(graph, f"{node.name}_weight_{name}", array) for name, array in parts.items()
    ]
    made = onnx_ir.node(
        "DequantizeLinear", inputs, {"axis": axis}, name=f"{node.name}_DequantizeLinear"
    )
    made.outputs[0].name = f"{node.name}_weight_dequantized"
    made.outputs[0].type, made.outputs[0].shape = value.type, value.shape
    graph.insert_before(node, made)
    node.replace_input_with(1, made.outputs[0])
    if value.name is not None and value.name in graph.initializers and not value.uses():
        del graph.initializers[value.name]
