"""Has a full-integer model take and give integers: what quantizes its inputs and dequantizes its
outputs goes, and whoever runs the file does that, by the scales that the file says.

    Given:   x float32 -> QUANTIZE -> a int8 ... b int8 -> DEQUANTIZE -> y float32
    Result:  x int8 ... y int8            with the scales of a and b
uint8 is int8 with the zero point moved by 128, by a QUANTIZE that only moves.
"""

from __future__ import annotations

from converter.errors import Unsupported
from emitters.tflite.graph import DataType, Operator, Quant, Subgraph, Tensor, TfliteModel, uses_of
from emitters.tflite.simplify import drop_unused

_HINT = "leave --io-dtype out: inputs and outputs stay float32"


def make_integer(model: TfliteModel, dtype: DataType) -> list[Unsupported]:
    """Changes the model in place.

    Args:
        model: Lowered, of int8.
        dtype: INT8 or UINT8.

    Returns:
        Inputs and outputs of float32 that aren't quantized, and why; the model isn't to be used
        then.
    """
    graph, problems = model.subgraphs[0], []
    inputs = dict(model.inputs)
    for name, tensor in inputs.items():
        if tensor.dtype == DataType.FLOAT:
            found = _input(graph, tensor, dtype)
            inputs[name] = found or tensor
            if found is None:
                reason = "something that reads it computes in float32"
                problems.append(Unsupported(name, "input", reason, _HINT))
    outputs = dict(model.outputs)
    for name, tensor in outputs.items():
        if tensor.dtype == DataType.FLOAT:
            found = _output(graph, tensor, dtype)
            outputs[name] = found or tensor
            if found is None:
                reason = "its producer computes in float32, or makes another output too"
                problems.append(Unsupported(name, "output", reason, _HINT))
    model.inputs, model.outputs = inputs, outputs
    graph.inputs, graph.outputs = list(inputs.values()), list(outputs.values())
    drop_unused(graph)
    return problems


def _input(graph: Subgraph, tensor: Tensor, dtype: DataType) -> Tensor | None:
    users = uses_of(graph).get(tensor, [])
    made = [user.outputs[0] for user in users if user.op == "QUANTIZE"]
    if not made or len(made) != len(users) or tensor in graph.outputs:
        return None
    first = made[0]
    same = all(t.quant is not None and t.quant.same(first.quant) for t in made)
    if first.quant is None or first.dtype != DataType.INT8 or not same:
        return None
    stored = Tensor(tensor.name, tensor.shape, dtype, None, _quant(first.quant, dtype))
    read = stored
    graph.operators = [op for op in graph.operators if op not in users]
    if dtype == DataType.UINT8:
        graph.operators.insert(0, Operator("QUANTIZE", [stored], [first], {}, tensor.name))
        read = first
    for operator in graph.operators:
        operator.inputs = [read if item in made else item for item in operator.inputs]
    if dtype == DataType.UINT8:
        graph.operators[0].inputs = [stored]
    return stored


def _output(graph: Subgraph, tensor: Tensor, dtype: DataType) -> Tensor | None:
    maker = next((op for op in graph.operators if tensor in op.outputs), None)
    source = maker.inputs[0] if maker is not None and maker.op == "DEQUANTIZE" else None
    if source is None or source.quant is None or source.dtype != DataType.INT8:
        return None
    name, tensor.name = tensor.name, f"{tensor.name}_float"
    if dtype == DataType.UINT8:
        stored = Tensor(name, source.shape, dtype, None, _quant(source.quant, dtype))
        graph.operators.append(Operator("QUANTIZE", [source], [stored], {}, name))
        return stored
    if source in graph.outputs or source in graph.inputs or source.is_constant:
        return None
    graph.outputs = [source if item is tensor else item for item in graph.outputs]
    source.name = name
    return source


def _quant(quant: Quant, dtype: DataType) -> Quant:
    moved = 128 if dtype == DataType.UINT8 else 0
    return Quant(quant.scale, quant.zero_point + moved, quant.axis)
