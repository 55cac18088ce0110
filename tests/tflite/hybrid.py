"""Hybrid operators: integer weights, float activations.

LiteRT computes them by rounding the activations to 8 bits anew at each run, and its two sets of
kernels do that differently: on the emotion network of the package fer, XNNPACK's and the
built-in ones are 0.055 apart in a probability. That belongs to a runtime, not to the model. The
imported graph takes the weights for the real numbers that they stand for, and so does the model
that is written here, so that LiteRT can be held against it in float32.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from parsers.tflite_import.model import Operator, Subgraph, Tensor, TfliteModel
from parsers.tflite_import.stored import numbers

_OPERATORS = {"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL"}
_OPERATORS |= {"RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN", "SVDF", "LSTM"}
_OPERATORS |= {"UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"}


def hybrid_operators(model: TfliteModel) -> int:
    """How many operators of a file have integer weights and float activations."""
    return sum(bool(_weights(graph, op)) for graph in model.subgraphs for op in graph.operators)


def make_float(source: Any, model: TfliteModel) -> None:
    """Changes ``source`` in place so that hybrid operators have float32 weights.

    Args:
        source: The ``schema.ModelT``.
        model: The same as structures, with dense constants.
    """
    for graph, raw in zip(model.subgraphs, source.subgraphs, strict=True):
        made: dict[int, int] = {}
        for operator, target in zip(graph.operators, raw.operators, strict=True):
            for number in set(_weights(graph, operator)) - set(made):
                made[number] = len(raw.tensors)
                raw.tensors.append(_float(source, raw.tensors[number], graph.tensors[number]))
            if _weights(graph, operator):
                inputs = [made.get(number, number) for number in operator.inputs]
                target.inputs = np.array(inputs, np.int32)


def _weights(graph: Subgraph, operator: Operator) -> list[int]:
    """The operator's quantized constants, where its output is float32."""
    real = operator.name in _OPERATORS and not operator.custom
    if not real or graph.tensors[operator.outputs[0]].dtype != "float32":
        return []
    given = (graph.tensors[number] for number in operator.inputs if number >= 0)
    narrow = (one for one in given if one.dtype in ("int4", "int8", "uint8"))
    return [one.index for one in narrow if one.data is not None and one.quantization is not None]


def _float(source: Any, raw: Any, tensor: Tensor) -> Any:
    """The same constant in float32, in a buffer of its own."""
    assert tensor.data is not None and tensor.quantization is not None
    buffer, made = schema.BufferT(), copy(raw)
    real = np.ascontiguousarray(numbers(tensor.data, tensor.quantization))
    buffer.data = np.frombuffer(real.tobytes(), np.uint8)
    source.buffers.append(buffer)
    made.type, made.buffer = schema.TensorType.FLOAT32, len(source.buffers) - 1
    made.quantization = made.sparsity = None
    return made
