"""In which numbers a TFLite model computes: floats, integers, or floats made integers on the fly.

Source: the quantization specification of LiteRT. Operators whose activations are quantized
compute in integers. Those with float activations and integer weights are *hybrid*: LiteRT
quantizes the activations of each run by their range ("dynamic range quantization"), so its
results carry a rounding that the float computation with the same weights doesn't have.
Weights that a DEQUANTIZE turns into floats first are floats.
"""

from __future__ import annotations

from parsers.tflite.checks import called
from parsers.tflite.model import Operator, Subgraph, TfliteModel

FLOAT, INTEGER, HYBRID = "float32", "int8", "hybrid"

_CONVERSIONS = {"QUANTIZE", "DEQUANTIZE", "CAST", "DENSIFY"}
_HYBRID = {
    *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "TRANSPOSE_CONV"),
    *("SVDF", "RNN", "LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    *("BIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_LSTM", "CONV_3D"),
}


def arithmetic(model: TfliteModel, subgraph: int) -> str:
    """:data:`INTEGER` where any operator computes in integers, else :data:`HYBRID` where any is
    hybrid, else :data:`FLOAT`; subgraphs that it runs included."""
    found = {
        kind
        for graph in _reached(model, subgraph)
        for operator in graph.operators
        if (kind := _of(graph, operator)) is not None
    }
    return next((kind for kind in (INTEGER, HYBRID) if kind in found), FLOAT)


def _reached(model: TfliteModel, subgraph: int) -> list[Subgraph]:
    seen, waiting = {subgraph}, [subgraph]
    while waiting:
        for operator in model.subgraphs[waiting.pop()].operators:
            new = set(called(operator)) - seen
            seen |= new
            waiting += new
    return [model.subgraphs[index] for index in sorted(seen)]


def _of(graph: Subgraph, operator: Operator) -> str | None:
    if operator.name in _CONVERSIONS:
        return None
    inputs = [graph.tensors[index] for index in operator.inputs if index >= 0]
    if any(tensor.quantization and tensor.data is None for tensor in inputs):
        return INTEGER
    weights = any(tensor.quantization and tensor.data is not None for tensor in inputs)
    floats = bool(inputs) and inputs[0].dtype == "float32"
    return HYBRID if operator.name in _HYBRID and weights and floats else None
