"""The values of a graph's variables, out of a checkpoint, without running the graph's own restore.

Which variable gets which of a checkpoint's tensors is only said by the operators that restore
them: an Assign of what RestoreV2 reads, in the graph or in a function that it calls. They are
read here, not run, so that nothing but the checkpoint that was named can be opened.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...worker.errors import WorkerError
from .graph import Graph, attribute, node_name

_ASSIGNS = ("Assign", "AssignVariableOp")
_PASSING = ("Identity", "Reshape")


class CheckpointTensor(NamedTuple):
    """A tensor of a checkpoint: its key, and which part of it ("" for all)."""

    key: str
    part: str = ""


class _Scope(NamedTuple):
    """Nodes by name, and what a function's arguments stand for outside it."""

    nodes: Mapping[str, Any]
    arguments: Mapping[str, str]


def restored(graph: Graph, operation: str) -> dict[str, CheckpointTensor]:
    """What each variable's node is restored from by the operation of that name."""
    found: dict[str, CheckpointTensor] = {}
    nodes = {node.name: node for node in graph.reachable([operation])}
    scopes = [_Scope(nodes, {})]
    while scopes:
        scope = scopes.pop()
        for node in scope.nodes.values():
            if node.op in _ASSIGNS:
                _note(scope, node, found)
            else:
                scopes += _entered(graph, scope, node)
    return found


def _entered(graph: Graph, scope: _Scope, node: Any) -> list[_Scope]:
    """The body of the function that a node calls. Only a call from the graph itself is entered."""
    name = attribute(node, "f").func.name or node.op
    function = graph.functions.get(name)
    if function is None or scope.arguments:
        return []
    given = [i for i in node.input if not i.startswith("^")]
    arguments = [a.name for a in function.signature.input_arg]
    return [_Scope({n.name: n for n in function.node_def}, dict(zip(arguments, given)))]


def _note(scope: _Scope, assign: Any, found: dict[str, CheckpointTensor]) -> None:
    target = assign.input[0]
    variable = node_name(scope.arguments.get(target, target))
    stored = _source(scope, assign.input[1])
    if stored is not None:
        found[variable] = stored


def _source(scope: _Scope, tensor: str) -> CheckpointTensor | None:
    """What RestoreV2 reads for a tensor, or None where it comes from elsewhere."""
    node = scope.nodes.get(node_name(tensor))
    while node is not None and node.op in _PASSING:
        tensor = node.input[0]
        node = scope.nodes.get(node_name(tensor))
    if node is None or node.op != "RestoreV2":
        return None
    index = int(tensor.rpartition(":")[2]) if ":" in tensor else 0
    keys, parts = (_strings(scope, node.input[i]) for i in (1, 2))
    if index >= len(keys):
        return None
    return CheckpointTensor(keys[index], parts[index] if index < len(parts) else "")


def _strings(scope: _Scope, tensor: str) -> list[str]:
    import tensorflow as tf

    node = scope.nodes.get(node_name(tensor))
    if node is None or node.op != "Const":
        return []
    array = tf.make_ndarray(attribute(node, "value").tensor)
    return [item.decode("utf-8") for item in array.ravel()]


def open_checkpoint(prefix: Path, what: str) -> Any:
    """A reader of the checkpoint with this prefix. Raises usage where there is none to read."""
    import tensorflow as tf

    try:
        return tf.train.load_checkpoint(str(prefix))
    # Each TensorFlow has its own classes for a file that isn't there, is cut short or damaged.
    except Exception as error:
        message = f"{what}: the checkpoint {prefix.name} can't be read: {error}"
        raise WorkerError("usage", message, code="weights-mismatch") from error


def values(
    nodes: Iterable[Any], stored: Mapping[str, CheckpointTensor], reader: Any, what: str
) -> dict[str, Any]:
    """A tf.Variable (a tensor for a reference variable) by node for each variable.

    Args:
        nodes: The variables' nodes.
        stored: What they have in the checkpoint, by node; others have their own names there.
        reader: Of the checkpoint; None where there is none.
        what: The file, for messages.

    Raises:
        WorkerError: ``usage`` with all that the checkpoint lacks.
    """
    import tensorflow as tf

    shapes = reader.get_variable_to_shape_map() if reader is not None else {}
    found: dict[str, Any] = {}
    missing = []
    for node in nodes:
        entry = stored.get(node.name) or CheckpointTensor(_own_key(node))
        if entry.key not in shapes:
            missing.append(node.name if reader is None else f"{node.name} (as {entry.key})")
            continue
        value = _cut(read(reader, entry.key, what), entry.part)
        _fit(node, value, what)
        kept = node.op == "VarHandleOp"
        found[node.name] = tf.Variable(value, trainable=False) if kept else tf.constant(value)
    if missing:
        where = "it is not frozen" if reader is None else "its checkpoint lacks them"
        raise WorkerError(
            "usage", f"{what}: variables have no values: {where}", missing, code="weights-mismatch"
        )
    return found


def read(reader: Any, key: str, what: str) -> Any:
    """A checkpoint's tensor.

    Args:
        reader: Of the checkpoint.
        key: The tensor's.
        what: The file, for messages.

    Raises:
        WorkerError: ``usage`` where it can't be read.
    """
    try:
        return reader.get_tensor(key)
    # A file of it that is missing, cut short or damaged.
    except Exception as error:
        message = f"{what}: the checkpoint's {key} can't be read: {error}"
        raise WorkerError("usage", message, code="weights-mismatch") from error


def _own_key(node: Any) -> str:
    """The key that a variable has where nothing says another: its name."""
    shared = attribute(node, "shared_name").s.decode("utf-8")
    return shared or str(node.name)


def _cut(value: Any, part: str) -> Any:
    """A slice as a saver writes it: the whole shape, and START,LENGTH or - by dimension."""
    if not part:
        return value
    ranges: list[tuple[int, int]] = []
    for size, text in zip(value.shape, part.rpartition(" ")[2].split(":")):
        start, length = (0, size) if text == "-" else map(int, text.split(","))
        ranges.append((start, start + length))
    return value[tuple(slice(*bounds) for bounds in ranges)]


def _fit(node: Any, value: Any, what: str) -> None:
    """Raise usage if a checkpoint's tensor isn't of the variable's type and shape."""
    import tensorflow as tf

    dtype = tf.as_dtype(attribute(node, "dtype").type)
    shape = tf.TensorShape(attribute(node, "shape").shape)
    if dtype.as_numpy_dtype != value.dtype or not shape.is_compatible_with(value.shape):
        raise WorkerError(
            "usage",
            f"{what}: {node.name} is "
            f"{dtype.name}{list(shape) if shape.rank is not None else ''} in the graph, but "
            f"{value.dtype.name}{list(value.shape)} in the checkpoint",
            code="weights-mismatch",
        )
