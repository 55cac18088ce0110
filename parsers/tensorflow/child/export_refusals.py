"""What of a TensorFlow function can't become ONNX: before, in tf2onnx's log, and after."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ...worker.errors import WorkerError
from .graph import callees

ASSIGNS = (
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "ResourceScatterUpdate",
    "Assign",
    "AssignAdd",
    "AssignSub",
)
_STATE = "it changes a variable; an exported model keeps no state between calls"
_TYPES = ("T", "dtype", "Tout", "out_type")
_CODE = ("PyFunc", "EagerPyFunc", "PyFuncStateless")
_FILES = ("ReadFile", "WriteFile", "MatchingFiles", "SaveV2", "RestoreV2", "PrintV2")


def refuse(reasons: Sequence[str]) -> None:
    """Raise unsupported if there is a reason."""
    listed = list(dict.fromkeys(reasons))
    if listed:
        plural = "s" if len(listed) > 1 else ""
        raise WorkerError(
            "unsupported",
            f"{len(listed)} thing{plural} in this model can't be translated to ONNX",
            listed,
        )


def refuse_at_once(concrete: Any) -> None:
    """Refuse what freezing or ONNX has no place for: strings, tables, files, state, Python.

    Only what the outputs depend on: a random layer moves its seed on even where it does nothing.
    """
    needed = _needed(concrete)
    found = []
    for name, op, dtypes in _operations(concrete.graph, needed):
        reason = _hopeless(op, dtypes)
        if reason:
            found.append(f"{op} ({name}): {reason}")
    changed = {id(t): t for op in needed for t in op.inputs}
    for operation in concrete.graph.get_operations():
        if operation.type in ASSIGNS and id(operation.inputs[0]) in changed:
            found.append(f"{operation.type} ({operation.name}): {_STATE}")
    refuse(found)


def _needed(concrete: Any) -> list[Any]:
    """The operations that the outputs follow from, in the graph's order."""
    waiting = [tensor.op for tensor in concrete.outputs]
    seen: set[str] = set()
    while waiting:
        operation = waiting.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            waiting += [tensor.op for tensor in operation.inputs]
    return [op for op in concrete.graph.get_operations() if op.name in seen]


def _hopeless(op: str, dtypes: Sequence[Any]) -> str:
    if op in ASSIGNS:
        return _STATE
    if op in _CODE:
        return "it calls Python"
    if op in _FILES:
        return "it reads or writes outside the graph"
    if "LookupTable" in op or "HashTable" in op:
        return "lookup tables have no ONNX operator"
    if op == "Placeholder" and tf.string in dtypes:
        return "an input of strings"
    # An Assert's message is a string; the Assert itself is dropped.
    if tf.string in dtypes and op not in ("Const", "Assert"):
        return "it works on strings"
    return ""


def _operations(graph: Any, needed: Sequence[Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """Name, type and dtypes of operations, and of those of the functions that they call."""
    for operation in needed:
        yield operation.name, operation.type, [t.dtype for t in operation.outputs]
    library = {f.signature.name: f for f in graph.as_graph_def().library.function}
    waiting = [name for operation in needed for name in callees(operation.node_def)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in library:
            continue
        seen.add(name)
        for node in library[name].node_def:
            waiting += callees(node)
            types = [tf.as_dtype(a.type) for k, a in node.attr.items() if k in _TYPES and a.type]
            yield f"{name}/{node.name}", node.op, types


class Failures(logging.Handler):
    """What tf2onnx logs as errors, as reasons; it puts names and operators in their arguments."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.msg if isinstance(record.msg, str) else ""
        args = record.args if isinstance(record.args, tuple) else ()
        if message.startswith("Tensorflow op [") and len(args) == 2:
            self.found.append(f"{args[1]} ({args[0]}): there is no ONNX translation of it")
        elif message.startswith("Failed to convert node") and args:
            why = record.exc_info[1] if record.exc_info else "no reason given"
            operator = _operator(str(args[-1]))
            self.found.append(f"{operator} ({args[0]}): {_one_line(why)}")
        elif not message.startswith("Unsupported ops"):
            self.found.append(_one_line(record.getMessage()))


def _operator(summary: str) -> str:
    """The operator in tf2onnx's description of a node: ``OP=Conv2D`` on a line of its own."""
    lines = [line.strip() for line in summary.splitlines()]
    return next((line[3:] for line in lines if line.startswith("OP=")), "an operator")


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())[:400]


@contextmanager
def listening() -> Iterator[Failures]:
    """Collect tf2onnx's errors, and keep its log off the terminal."""
    logger = logging.getLogger("tf2onnx")
    failures = Failures()
    kept, propagate, level = list(logger.handlers), logger.propagate, logger.level
    logger.handlers, logger.propagate = [failures], False
    logger.setLevel(logging.ERROR)
    try:
        yield failures
    finally:
        logger.handlers, logger.propagate = kept, propagate
        logger.setLevel(level)


def not_onnx(proto: Any, opset: int) -> list[str]:
    """Every node that no ONNX operator stands for."""
    import onnx

    found = []
    functions = {(f.domain, f.name) for f in proto.functions}
    for node in _nodes(proto.graph):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (node.domain, node.op_type) in functions:
            continue
        if domain or not onnx.defs.has(node.op_type, opset, domain):
            name = f"{domain}::{node.op_type}" if domain else node.op_type
            found.append(f"{name} ({node.name}): it isn't an operator of ONNX opset {opset}")
    return found


def _nodes(graph: Any) -> Iterator[Any]:
    """Every node, those of inner graphs included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)
