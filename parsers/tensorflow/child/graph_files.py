"""Frozen graphs (GraphDef, .pb) and TensorFlow 1's checkpoints (.meta beside their weights).

Neither says what its inputs and outputs are. Inputs are those asked for, or the placeholders that
the outputs depend on; outputs those asked for, or where the graph ends. What could be meant in
more than one way is refused with what there is to choose from.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...worker.errors import WorkerError
from . import cut as tf_cut
from . import restore as tf_restore
from .graph import PLACEHOLDERS, VARIABLES, Graph, attribute, node_name, tensor_name
from .model import Opened, TensorInfo

_DEFAULTS = ("PlaceholderWithDefault",)
# Ends of a graph that are there for what they do, and don't give a result.
_EFFECTS = (
    *("Assert", "NoOp", "Print", "PrintV2", "Const", "Assign", "AssignAdd", "AssignSub"),
    *("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "SaveV2", "Save"),
    *("MergeSummary", "ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummary"),
)
_SHOWN = 20
# array_ops.cc, Placeholder: "shape".
_SCALARS_FROM = 24


class Wanted(NamedTuple):
    """What the user asked for: inputs {name, dtype, shape}, outputs, constants by name."""

    inputs: Sequence[Mapping[str, Any]]
    outputs: Sequence[str]
    constants: Mapping[str, Any]
    weights: str | None
    trust: bool


def open_frozen(path: Path, wanted: Wanted) -> Opened:
    """A GraphDef as a function; variables take their values from `wanted.weights`.

    Raises usage where inputs or outputs have to be named, unsupported and untrusted as
    tf_contents does.
    """
    graph = Graph(_read(path, _graph_def()))
    return _open(path, graph, wanted, "graph", "", wanted.weights)


def open_checkpoint(path: Path, wanted: Wanted) -> Opened:
    """A MetaGraphDef and the checkpoint beside it (or `wanted.weights`) as a function.

    Raises as open_frozen does.
    """
    from tensorflow.core.protobuf import meta_graph_pb2

    meta = _read(path, meta_graph_pb2.MetaGraphDef())
    graph = Graph(meta.graph_def)
    weights = wanted.weights or str(path.with_suffix(""))
    return _open(path, graph, wanted, "checkpoint", meta.saver_def.restore_op_name, weights)


def _graph_def() -> Any:
    from tensorflow.core.framework import graph_pb2

    return graph_pb2.GraphDef()


def _read(path: Path, message: Any) -> Any:
    """The protobuf in a file, binary or as text. Raises usage where it can't be read."""
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    try:
        if path.suffix == ".pbtxt":
            text_format.Parse(path.read_text(encoding="utf-8"), message)
        else:
            message.ParseFromString(path.read_bytes())
    except (OSError, DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise WorkerError(
            "usage", f"{path.name} can't be read: {error}", code="model-damaged"
        ) from error
    return message


def _open(
    path: Path, graph: Graph, wanted: Wanted, kind: str, restore: str, weights: str | None
) -> Opened:
    warnings: list[str] = []
    outputs = _outputs(graph, wanted, path.name, kind, warnings)
    constants = {name: _constant(graph, name, v) for name, v in wanted.constants.items()}
    inputs = _inputs(graph, outputs, wanted, constants, path.name)
    named = list(zip(_names(outputs), outputs))
    ends = [(TensorInfo(name, _dtype(graph, tensor), None), tensor) for name, tensor in named]
    cut = tf_cut.Cut(graph, inputs, ends, constants, path.name)
    cut.require_harmless(wanted.trust)
    stored = tf_restore.restored(graph, restore) if restore else {}
    reader = None
    if weights is not None and cut.variables():
        reader = tf_restore.open_checkpoint(Path(weights), path.name)
    opened = cut.opened(kind, stored, reader)
    opened.warnings += warnings
    return opened


# -- outputs ---------------------------------------------------------------------------------


def _outputs(graph: Graph, wanted: Wanted, what: str, kind: str, warnings: list[str]) -> list[str]:
    """The tensors to give. Raises usage where they have to be named."""
    if wanted.outputs:
        for name in wanted.outputs:
            graph.node(name, f"--output {name}")
        return [tensor_name(name) for name in wanted.outputs]
    found = _ends(graph)
    frozen = not any(node.op in VARIABLES for node in graph.nodes.values())
    if not found or (len(found) > 1 and not frozen):
        raise WorkerError(
            "usage",
            f"{what} doesn't declare its outputs: name each with --output. "
            + ("Its last nodes:" if found else "No last node depends on an input. The last nodes:"),
            [f"--output {node_name(t)}" for t in found[:_SHOWN] or list(graph.nodes)[-_SHOWN:]],
            code="inputs-unknown",
        )
    if len(found) > 1:
        names = ", ".join(node_name(t) for t in found)
        warnings.append(f"The outputs were found where {what} ends: {names}. --output names others")
    return found


def _ends(graph: Graph) -> list[str]:
    """The tensors that nothing takes, of nodes that depend on a placeholder."""
    taken = {node_name(item) for node in graph.definition.node for item in node.input}
    ends = [n for n in graph.definition.node if n.name not in taken and n.op not in _EFFECTS]
    found = []
    for node in ends:
        before = graph.reachable([node.name])
        if not _is_input(node) and any(_is_input(n) for n in before):
            found += [f"{node.name}:{place}" for place in range(len(_output_types(node)))]
    return found


def _is_input(node: Any) -> bool:
    return node.op in (*PLACEHOLDERS, *_DEFAULTS)


def _output_types(node: Any) -> list[int]:
    """The type of each tensor that a node gives (op_def.proto, ``ArgDef``)."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    found: list[int] = []
    for item in definition.output_arg if definition is not None else ():
        if item.type_list_attr:
            found += attribute(node, item.type_list_attr).list.type
        else:
            dtype = item.type or attribute(node, item.type_attr).type
            count = int(attribute(node, item.number_attr).i) if item.number_attr else 1
            found += [dtype] * count
    return found


def _names(tensors: Sequence[str]) -> list[str]:
    """What outputs are called: the node, with the number of any but its first tensor."""
    return [node_name(t) if t.endswith(":0") else t.replace(":", "_") for t in tensors]


def _dtype(graph: Graph, tensor: str) -> str:
    """The type of a tensor. Raises usage where its node doesn't give as many."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry

    node = graph.nodes[node_name(tensor)]
    place = int(tensor_name(tensor).rpartition(":")[2])
    types = _output_types(node)
    if op_def_registry.get(node.op) is None:
        return "undefined"  # refused as what nobody knows, a little later
    if place >= len(types):
        raise WorkerError(
            "usage",
            f"{node.name} ({node.op}) gives {len(types)} tensors: {tensor}",
            code="interface-mismatch",
        )
    return str(tf.as_dtype(types[place]).name)


# -- inputs ----------------------------------------------------------------------------------


def _inputs(
    graph: Graph,
    outputs: Sequence[str],
    wanted: Wanted,
    constants: Mapping[str, Any],
    what: str,
) -> list[tuple[TensorInfo, str]]:
    """The inputs and their tensors. Raises usage where they have to be named."""
    ends = [tensor_name(i["name"]) for i in wanted.inputs] + [tensor_name(n) for n in constants]
    for item in wanted.inputs:
        graph.node(item["name"], f"--input {item['name']}")
    needed = [n for n in graph.reachable(outputs, ends) if n.op in PLACEHOLDERS]
    if wanted.inputs:
        _require_none(graph, needed, what)
        return [_given(graph, item) for item in wanted.inputs]
    if not needed:
        raise WorkerError(
            "usage",
            f"{what} has no placeholder: name its inputs with --input",
            code="inputs-unknown",
        )
    producer = graph.definition.versions.producer
    unknown = [node for node in needed if not _is_whole(node, producer)]
    if unknown:
        raise WorkerError(
            "usage",
            f"{what} doesn't declare its inputs in full: pass --input NAME:DTYPE:SHAPE for "
            "each, or --arg NAME=VALUE for a value that is always the same",
            [_shown(node, producer) for node in needed],
            code="inputs-unknown",
        )
    return [
        (TensorInfo(n.name, _dtype(graph, n.name), _shape(n, producer)), tensor_name(n.name))
        for n in needed
    ]


def _require_none(graph: Graph, needed: Sequence[Any], what: str) -> None:
    if needed:
        producer = graph.definition.versions.producer
        raise WorkerError(
            "usage",
            f"{what} needs more inputs than the command names: add --input or --arg "
            "NAME=VALUE for them",
            [_shown(node, producer) for node in needed],
            code="inputs-unknown",
        )


def _is_whole(node: Any, producer: int) -> bool:
    """Whether a placeholder is surely an input: with a rank, and no switch like is_training."""
    import tensorflow as tf

    shape = _shape(node, producer)
    return shape is not None and not (
        shape == () and attribute(node, "dtype").type == tf.bool.as_datatype_enum
    )


def _shape(node: Any, producer: int) -> tuple[int | None, ...] | None:
    """The shape of a placeholder. Before GraphDef version 24 a scalar's stood for any."""
    if "shape" not in node.attr or attribute(node, "shape").shape.unknown_rank:
        return None
    dims = attribute(node, "shape").shape.dim
    if not dims and producer < _SCALARS_FROM:
        return None
    return tuple(None if d.size < 0 else int(d.size) for d in dims)


def _shown(node: Any, producer: int) -> str:
    """A placeholder, and what to write for it."""
    import tensorflow as tf

    dtype, shape = tf.as_dtype(attribute(node, "dtype").type).name, _shape(node, producer)
    if shape == () and dtype == "bool":
        return f"{node.name}: a switch: --arg {node.name}=false"
    if shape is None:
        return f"{node.name}: {dtype} of unknown rank: --input {node.name}:{dtype}:DIMxDIM"
    dims = ",".join(
        "batch" if i == 0 else f"dim{i}" if d is None else str(d) for i, d in enumerate(shape)
    )
    return f"{node.name}: {dtype}: --input {node.name}:{dtype}:{dims}"


def _given(graph: Graph, item: Mapping[str, Any]) -> tuple[TensorInfo, str]:
    """An input that the user named, in the graph's type."""
    name = item["name"]
    node = graph.nodes[node_name(name)]
    dtype = _dtype(graph, name)
    if item.get("dtype") and item["dtype"] != dtype and "dtype" in node.attr:
        raise WorkerError(
            "usage",
            f"--input {name}: the graph has {dtype}, not {item['dtype']}",
            code="interface-mismatch",
        )
    shape = tuple(None if isinstance(d, str) else int(d) for d in item["shape"])
    declared = _shape(node, graph.definition.versions.producer)
    if declared is not None and declared and len(declared) != len(shape):
        raise WorkerError(
            "usage",
            f"--input {name}: the graph has {len(declared)} dimensions, not {len(shape)}",
            code="interface-mismatch",
        )
    return TensorInfo(_names([tensor_name(name)])[0], dtype, shape), tensor_name(name)


def _constant(graph: Graph, name: str, value: Any) -> Any:
    """A value for a placeholder, in its type. Raises usage where it doesn't fit."""
    import numpy as np
    import tensorflow as tf

    node = graph.node(name, f"--arg {name}")
    if "dtype" not in node.attr:
        raise WorkerError(
            "usage",
            f"--arg {name}: that is a {node.op}, not a placeholder",
            code="interface-mismatch",
        )
    dtype = tf.as_dtype(attribute(node, "dtype").type)
    try:
        return np.asarray(value, dtype=dtype.as_numpy_dtype)
    except (TypeError, ValueError) as error:
        raise WorkerError(
            "usage", f"--arg {name}: {value!r} isn't of type {dtype.name}", code="option-value"
        ) from error
