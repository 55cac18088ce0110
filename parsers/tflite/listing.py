"""What a TFLite file holds, in its own terms: operators, types, sizes, quantization."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.ir.listing import Listing
from modelyard.containers.tflite import VERSION, unpack
from parsers.tflite.model import Operator, Subgraph, Tensor, TfliteModel
from parsers.tflite.names import find_entry
from parsers.tflite.reader import structures, type_name


def listing(path: Path, signature: str | None) -> Listing:
    """What is in a file, seen through one of its signatures.

    Raises:
        ModelError, UnsupportedError: As :func:`parsers.tflite.reader.structures`.
        UsageError: It has no such signature, or several and none is the usual one.
    """
    source = unpack(path.read_bytes(), path.name)
    model = structures(source, path.name)
    entry = find_entry(model, signature, path.name)
    graph = model.subgraphs[entry.subgraph]
    parameters, stored = _weights(source)
    return Listing(
        format=f"TFLite, schema version {VERSION}",
        inputs=[_described(name, graph.tensors[i]) for name, i in entry.inputs.items()],
        outputs=[_described(name, graph.tensors[i]) for name, i in entry.outputs.items()],
        op_types=_op_types(model),
        parameters=parameters,
        stored=stored,
        quantization=_quantization(model),
    )


def _op_types(model: TfliteModel) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            found.setdefault(operator.name, Counter())[_type_of(operator, graph)] += 1
    order = sorted(found.items(), key=lambda item: -item[1].total())
    return {name: dict(types.most_common()) for name, types in order}


def _type_of(operator: Operator, graph: Subgraph) -> str:
    """What an operator gives; what its weights are stored in, where that is another type."""
    tensors = [
        graph.tensors[index] for index in (*operator.outputs, *operator.inputs) if index >= 0
    ]
    if not tensors:
        return "nothing"
    given = [graph.tensors[index] for index in operator.inputs[1:2] if index >= 0]
    weights = next((t.dtype for t in given if t.data is not None and len(t.shape) > 1), "")
    mixed = weights and weights != tensors[0].dtype
    return f"{tensors[0].dtype} with {weights} weights" if mixed else tensors[0].dtype


def _weights(source: Any) -> tuple[int, Mapping[str, int]]:
    """How many numbers the constants hold, and their bytes by type; buffers count once.

    Integers without scales are sizes and axes, and single numbers aren't weights.
    """
    tensors = {t.buffer: t for graph in source.subgraphs for t in graph.tensors}
    parameters, stored = 0, Counter[str]()
    for index, tensor in tensors.items():
        data = source.buffers[index].data if index < len(source.buffers) else None
        if data is None or len(data) == 0:
            continue
        dtype = type_name(tensor.type)
        stored[dtype] += len(data)
        scaled = tensor.quantization is not None and tensor.quantization.scale is not None
        size = math.prod(int(s) for s in (() if tensor.shape is None else tensor.shape))
        if size > 1 and (scaled or "float" in dtype):
            parameters += size
    return parameters, dict(stored.most_common())


def _quantization(model: TfliteModel) -> dict[str, int]:
    """How many tensors have scales, by type: ``int8``, ``int8 by channel``."""
    found: Counter[str] = Counter()
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.quantization is not None:
                many = " by channel" if tensor.quantization.axis is not None else ""
                found[tensor.dtype + many] += 1
    return dict(found.most_common())


def _described(name: str, tensor: Tensor) -> dict[str, Any]:
    shape = ["?" if size < 0 else size for size in tensor.shape]
    told: dict[str, Any] = {"name": name, "dtype": tensor.dtype, "shape": shape}
    if tensor.quantization is not None and tensor.quantization.axis is None:
        told["scale"] = float(tensor.quantization.scale[0])
        told["zero_point"] = int(tensor.quantization.zero_point[0])
    return told
