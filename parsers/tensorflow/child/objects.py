"""Which of a checkpoint's tensors a SavedModel's variables have, by the objects that hold them.

A SavedModel lists its objects (saved_object_graph.proto), and for each function the objects whose
tensors it captures, in the order in which a call in the graph is given them after its arguments
(``bound_inputs``). A checkpoint lists the same objects by the same names of children, with the keys
of their values (trackable_object_graph.proto). Both are read, as TensorFlow's own loader does. What
the restoring operators of the file assign to says less: Keras 3 saves a second variable for each of
its own, and only that one is restored there.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...worker.errors import WorkerError
from . import restore as tf_restore
from .graph import VARIABLES, Graph, attribute, node_name

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"


def stored(
    graph: Graph, objects: Any, reader: Any, what: str
) -> dict[str, tf_restore.CheckpointTensor]:
    """What each variable's node has in the checkpoint, where a function captures it.

    Args:
        graph: The file's.
        objects: The file's SavedObjectGraph.
        reader: Of the checkpoint; None where there is none.
        what: The file, for messages.

    Raises:
        WorkerError: ``usage`` where the checkpoint's own list of objects is damaged.
    """
    if reader is None or not reader.has_tensor(_GRAPH):
        return {}
    keys = _keys(objects.nodes, _objects(reader, what).nodes)
    return {
        name: tf_restore.CheckpointTensor(keys[place])
        for name, place in _captured(graph, objects)
        if place in keys
    }


def _objects(reader: Any, what: str) -> Any:
    """The checkpoint's TrackableObjectGraph."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    found = trackable_object_graph_pb2.TrackableObjectGraph()
    try:
        found.ParseFromString(tf_restore.read(reader, _GRAPH, what))
    except DecodeError as error:
        message = f"{what}: the checkpoint's list of objects is damaged: {error}"
        raise WorkerError("usage", message, code="model-damaged") from error
    return found


def _keys(saved: Sequence[Any], kept: Sequence[Any]) -> dict[int, str]:
    """The key of each variable among the saved objects, where both graphs go the same way."""
    found: dict[int, str] = {}
    seen: set[int] = set()
    waiting = [(0, 0)]
    while waiting:
        one, other = waiting.pop()
        if one in seen or not (0 <= one < len(saved) and 0 <= other < len(kept)):
            continue
        seen.add(one)
        found.update((one, a.checkpoint_key) for a in kept[other].attributes if a.name == _VALUE)
        children = {child.local_name: child.node_id for child in kept[other].children}
        waiting += [
            (child.node_id, children[child.local_name])
            for child in saved[one].children
            if child.local_name in children
        ]
    return found


def _captured(graph: Graph, objects: Any) -> Iterator[tuple[str, int]]:
    """Names of variables' nodes that the graph's calls are given, and the objects they are of."""
    for node in graph.nodes.values():
        function = objects.concrete_functions.get(attribute(node, "f").func.name)
        bound = list(function.bound_inputs) if function is not None else []
        given = [node_name(name) for name in node.input if not name.startswith("^")]
        for name, place in zip(reversed(given), reversed(bound)):
            if name in graph.nodes and graph.nodes[name].op in VARIABLES:
                yield name, place
