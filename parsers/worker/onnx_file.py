"""Write an ONNX model: nothing in it but the model, many weights in a file beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple, Union

import onnx_ir as ir

# From this many bytes on the weights go to a file beside the model: from there they are mapped,
# which is quicker than a message's copies of them, and takes less memory.
EXTERNAL_FROM = 16_000_000

_DTYPES = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "BOOL": "bool",
}

Value = Dict[str, Any]


def _graphs(model: Any) -> Iterator[Any]:
    """Every graph of a model: the main one, functions, and those inside nodes' attributes."""
    waiting = [model.graph, *model.functions.values()]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    waiting.append(attribute.value)
                elif attribute.type == ir.AttributeType.GRAPHS:
                    waiting.extend(attribute.value)


def _strip_value(value: Any) -> None:
    value.metadata_props.clear()
    value.doc_string = None
    if value.const_value is not None:
        value.const_value.metadata_props.clear()
        # A tensor read from a file cannot be changed, but those have none.
        if value.const_value.doc_string:
            value.const_value.doc_string = None


def strip(model: Any) -> None:
    """Remove doc strings and metadata, in place: they hold paths, source lines, stack traces."""
    model.metadata_props.clear()
    model.doc_string = None
    for graph in _graphs(model):
        graph.metadata_props.clear()
        graph.doc_string = None
        for value in (*graph.inputs, *getattr(graph, "initializers", {}).values()):
            _strip_value(value)
        for node in graph:
            node.metadata_props.clear()
            node.doc_string = None
            for attribute in node.attributes.values():
                attribute.doc_string = None
            for value in node.outputs:
                _strip_value(value)


def _values(model: Any) -> Iterator[Any]:
    """Every named value of a model, in a fixed order; an initializer may come up twice."""
    for graph in _graphs(model):
        yield from graph.inputs
        yield from list(getattr(graph, "initializers", {}).values())
        for node in graph:
            yield from (value for value in node.outputs if value.name)


def unique_names(model: Any) -> None:
    """Rename inner values that are called like an input or output of the model, in place.

    The exporter gives inputs and outputs the user's names without looking whether these are
    taken, say by the value of an operator: `add`, `linear`.
    """
    edges = [*model.graph.inputs, *model.graph.outputs]
    reserved = {value.name for value in edges}
    taken = reserved | {value.name for value in _values(model)}
    keep = {id(value) for value in edges}
    for value in list(_values(model)):
        if value.name not in reserved or id(value) in keep:
            continue
        base, number = value.name, 1
        while f"{base}_{number}" in taken:
            number += 1
        value.name = f"{base}_{number}"
        taken.add(value.name)


def drop_prefix(model: Any, prefix: str) -> None:
    """Drop a prefix from the names of weights wherever the shorter name is not taken."""
    taken = {value.name for value in _values(model)}
    outputs = {v.name for v in model.graph.outputs}
    for name, value in list(model.graph.initializers.items()):
        short = name[len(prefix) :]
        if name.startswith(prefix) and short not in taken and name not in outputs:
            value.name = short
            taken.add(short)


def describe(values: Any) -> List[Value]:
    """{name, dtype, shape} of graph inputs or outputs; an unknown dimension is None."""
    described = []
    for value in values:
        name = value.dtype.name if value.dtype is not None else "UNDEFINED"
        dims = value.shape if value.shape is not None else []
        shape = [d if isinstance(d, int) else d.value for d in dims]
        dtype = _DTYPES.get(name, name.lower())
        described.append({"name": value.name, "dtype": dtype, "shape": shape})
    return described


def weight_bytes(model: Any) -> int:
    """Bytes of the main graph's weights that aren't in a file yet."""
    held = (value.const_value for value in model.graph.initializers.values())
    return sum(t.nbytes for t in held if t is not None and not isinstance(t, ir.ExternalTensor))


def save(
    model: Any, out: Union[str, Path], external_from: int = EXTERNAL_FROM
) -> Tuple[str, List[str]]:
    """Write a model, many weights to a file beside it.

    Weights that lie in that file already (`beside`) stay where they are; others are inside then.

    Args:
        model: The IR model.
        out: The file.
        external_from: From how many bytes of weights on these go to the file beside.

    Returns:
        The path, and the names of the files beside it.
    """
    path, file = Path(out), beside(out)
    if weight_bytes(model) >= external_from:
        ir.save(model, path, external_data=file.name)
        return str(path), [file.name]
    ir.save(model, path)
    tensors = (value.const_value for value in model.graph.initializers.values())
    return str(path), [file.name] if any(isinstance(t, ir.ExternalTensor) for t in tensors) else []


def beside(out: Union[str, Path]) -> Path:
    """The file of a model's weights."""
    return Path(f"{out}.data")
