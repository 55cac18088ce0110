"""How much memory the tensors of a run need at once, computed from the graph.

Every tensor is counted from the operator that makes it to the last that takes it, in the order of
the file, inputs and outputs of the model among them; weights aren't. What only looks at another
(Reshape and its like) takes nothing. Nor do the real numbers between integers: what is dequantized,
and what only goes to a QuantizeLinear. What bodies of If, Loop and Scan need within isn't counted.
A runtime that fuses operators needs less, and one that pads or keeps a workspace more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
import onnx_ir

from converter.analysis.macs import inferred_at
from converter.ir.model import BATCH, Model

_VIEWS = frozenset(
    {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "DequantizeLinear", "Dropout"}
)


def peak_activations(model: Model, sizes: Mapping[str, int]) -> int | None:
    """Bytes; None where the size of a tensor isn't known.

    Args:
        model: At any opset.
        sizes: Of the symbolic dimensions by name; 1 for those it lacks.
    """
    inputs = [spec.name for spec in model.inputs]
    for fold in (False, True):
        found = _peak(inferred_at(model, {BATCH: 1, **sizes}, fold=fold), inputs)
        if found is not None:
            return found
    return None


def _peak(graph: onnx.GraphProto, inputs: Sequence[str]) -> int | None:
    """Inputs of the graph that aren't the model's stand for its weights."""
    taken, constants = _bytes(graph), {item.name for item in graph.initializer}
    constants |= {out for node in graph.node if node.op_type == "Constant" for out in node.output}
    base = _bases(graph)
    last = _last_uses(graph, base)
    only_quantized = _only_quantized(graph)
    held: dict[str, int] = {}
    current = most = 0
    rows = [(-1, list(inputs))]
    rows += [(at, list(node.output)) for at, node in enumerate(graph.node)]
    for at, made in rows:
        for name in filter(None, made):
            if base.get(name, name) != name or name in constants or name in only_quantized:
                continue
            if name not in taken:
                return None
            held[name] = taken[name]
            current += taken[name]
        most = max(most, current)
        for name in [name for name in held if last.get(name, at) <= at]:
            current -= held.pop(name)
    return most


def _bytes(graph: onnx.GraphProto) -> dict[str, int]:
    """Of each tensor whose type and sizes are known."""
    found = {}
    for value in (*graph.value_info, *graph.input, *graph.output):
        tensor = value.type.tensor_type
        known = all(dim.HasField("dim_value") for dim in tensor.shape.dim)
        typed = tensor.elem_type not in (0, onnx.TensorProto.STRING)
        if tensor.HasField("shape") and known and typed:
            count = math.prod(dim.dim_value for dim in tensor.shape.dim)
            found[value.name] = -(-count * onnx_ir.DataType(tensor.elem_type).bitwidth // 8)
    return found


def _bases(graph: onnx.GraphProto) -> dict[str, str]:
    """By output of what only looks at a tensor, that tensor."""
    base: dict[str, str] = {}
    for node in graph.node:
        if node.op_type in _VIEWS and node.input:
            base[node.output[0]] = base.get(node.input[0], node.input[0])
    return base


def _last_uses(graph: onnx.GraphProto, base: Mapping[str, str]) -> dict[str, int]:
    """By tensor, the last node that takes it, in bodies too; after all nodes, of outputs."""
    last = {}
    for at, node in enumerate(graph.node):
        for name in _taken(node):
            last[base.get(name, name)] = at
    for value in graph.output:
        last[base.get(value.name, value.name)] = len(graph.node)
    return last


def _taken(node: onnx.NodeProto) -> list[str]:
    names = list(node.input)
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            names += [name for item in inner.node for name in _taken(item)]
            names += [value.name for value in inner.output]
    return names


def _only_quantized(graph: onnx.GraphProto) -> set[str]:
    takers: dict[str, set[str]] = {}
    for node in graph.node:
        for name in _taken(node):
            takers.setdefault(name, set()).add(node.op_type)
    kept = {value.name for value in (*graph.input, *graph.output)}
    return {name for name, ops in takers.items() if ops == {"QuantizeLinear"}} - kept
