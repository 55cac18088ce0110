"""In the build's process: a network's layers as plain data, with the types they compute in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_NODE = re.compile(r"\[ONNX Layer: ([^\]]*)\]")

_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "FP8": "float8",
    "FP4": "float4",
}

MATRIX_LAYERS = ("CONVOLUTION", "DECONVOLUTION", "MATRIX_MULTIPLY", "EINSUM")
"""Kinds of layer that hold nearly all arithmetic."""

_MOVING = ("SHUFFLE", "IDENTITY", "SQUEEZE", "UNSQUEEZE", "SLICE", "GATHER", "CONCATENATION")
"""Kinds that hand numbers on as they are."""

_STEPS = 8
"""How many of these are looked through for a DEQUANTIZE."""


def describe(trt: Any, network: Any) -> dict[str, Any]:
    """The layers of a network, its inputs and its outputs.

    A layer is ``name``, ``kind``, ``nodes`` (names of the ONNX nodes it comes from), ``type``
    (what it computes in) and ``shape`` (of its first output; -1 where free).
    """
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    made_by = {
        layer.get_output(index).name: layer
        for layer in layers
        for index in range(layer.num_outputs)
        if layer.get_output(index) is not None
    }
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    outputs = [network.get_output(index) for index in range(network.num_outputs)]
    return {
        "layers": [_layer(layer, made_by) for layer in layers],
        "inputs": [_tensor(tensor) for tensor in inputs],
        "outputs": [_tensor(tensor) for tensor in outputs],
    }


def type_name(dtype: Any) -> str:
    """``float32``, ``int8``...: as in the IR."""
    name = str(dtype).rsplit(".", 1)[-1]
    return _TYPES.get(name, name.lower())


def _tensor(tensor: Any) -> dict[str, Any]:
    return {"name": tensor.name, "type": type_name(tensor.dtype), "shape": _dims(tensor)}


def _dims(tensor: Any) -> list[int] | None:
    try:
        return [int(size) for size in tensor.shape]
    except ValueError:  # a rank that isn't known yet
        return None


def _kind(layer: Any) -> str:
    return str(layer.type).rsplit(".", 1)[-1]


def _layer(layer: Any, made_by: Mapping[str, Any]) -> dict[str, Any]:
    output = layer.get_output(0) if layer.num_outputs else None
    return {
        "name": layer.name,
        "kind": _kind(layer),
        "nodes": _NODE.findall(getattr(layer, "metadata", "") or ""),
        "type": _computes_in(layer, made_by),
        "shape": None if output is None else _dims(output),
    }


def _computes_in(layer: Any, made_by: Mapping[str, Any]) -> str:
    """The type a layer was asked to compute in.

    A matrix layer whose operands all come out of a DEQUANTIZE of int8 is int8: that is how a
    strongly typed network asks for it. Any other computes in what its first operand is.
    """
    kind, inputs = _kind(layer), list(_inputs(layer))
    if kind in ("QUANTIZE", "DEQUANTIZE"):
        tensor = layer.get_output(0) if kind == "QUANTIZE" else layer.get_input(0)
        return type_name(tensor.dtype)
    if kind in MATRIX_LAYERS:
        stored = [_dequantized(tensor, made_by) for tensor in inputs[:2]]
        if len(stored) == 2 and all(stored) and len(set(stored)) == 1:
            return stored[0]
    if inputs:
        return type_name(inputs[0].dtype)
    output = layer.get_output(0) if layer.num_outputs else None
    return "" if output is None else type_name(output.dtype)


def _inputs(layer: Any) -> Iterator[Any]:
    for index in range(layer.num_inputs):
        tensor = layer.get_input(index)
        if tensor is not None:
            yield tensor


def _dequantized(tensor: Any, made_by: Mapping[str, Any]) -> str:
    """The stored type that a tensor was dequantized from; empty where it wasn't."""
    for _ in range(_STEPS):
        layer = made_by.get(tensor.name)
        if layer is None:
            return ""
        kind = _kind(layer)
        if kind == "DEQUANTIZE":
            return type_name(layer.get_input(0).dtype)
        if kind not in _MOVING:
            return ""
        tensor = layer.get_input(0)
    return ""
