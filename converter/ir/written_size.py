"""Holds what an ONNX file comes to against a budget, before anything is made of it."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from converter.errors import ModelError
from converter.ir.calls import (
    DEEPEST,
    MOST_BYTES,
    MOST_NODES,
    MOST_WEIGHTS,
    CircleError,
    written_out,
)
from converter.ir.onnx_walk import all_nodes

_Key = tuple[str, str, str]
_MAIN: _Key = ("", "", "")


def check_size(proto: onnx.ModelProto, name: str) -> None:
    """Refuses a model of too many initializers, or nodes, the calls of its functions written out.

    Args:
        proto: The model.
        name: The file's name, for messages.

    Raises:
        ModelError: A function calls itself; nodes or initializers are too many, or calls too large
            or too deep.
    """
    nodes = list(all_nodes(proto.graph.node))
    if len(nodes) > MOST_NODES:
        raise ModelError(
            f"{name} has {len(nodes):,} nodes; the limit is {MOST_NODES:,}",
            code="model-too-large",
        )
    _require_few_weights(len(proto.graph.initializer) + _constants(nodes), name)
    if proto.functions:
        _check_functions(proto, name)


def _require_few_weights(count: int, name: str) -> None:
    if count > MOST_WEIGHTS:
        raise ModelError(
            f"{name} has {count:,} initializers and Constants; the limit is "
            f"{MOST_WEIGHTS:,}, because ONNX Runtime needs four times as long for twice as "
            "many",
            code="model-too-large",
            hint="Export it with fewer: share equal initializers, as onnxslim does, and stack "
            "the weights of equal parts into one tensor.",
        )


def _constants(nodes: Iterable[onnx.NodeProto]) -> int:
    return sum(node.op_type == "Constant" for node in nodes)


def _check_functions(proto: onnx.ModelProto, name: str) -> None:
    bodies: dict[_Key, list[onnx.NodeProto]] = {
        (function.domain, function.name, function.overload): list(function.node)
        for function in proto.functions
    }
    bodies[_MAIN] = list(proto.graph.node)
    whole = {key: list(all_nodes(nodes)) for key, nodes in bodies.items()}
    called = {key: [_key(node) for node in nodes] for key, nodes in whole.items()}
    calls = {key: [callee for callee in keys if callee in bodies] for key, keys in called.items()}
    try:
        nodes = written_out({key: len(keys) for key, keys in called.items()}, calls)
        size = {key: sum(node.ByteSize() for node in held) for key, held in bodies.items()}
        content = written_out(size, calls)
        constants = written_out({key: _constants(held) for key, held in whole.items()}, calls)
    except CircleError as error:
        raise ModelError(
            f"{name}: functions call themselves: {' -> '.join(key[1] for key in error.args)}",
            code="model-invalid",
            hint="An ONNX file doesn't allow that. The program that wrote the file made a mistake.",
        ) from error
    count, depth = nodes[_MAIN]
    if count > MOST_NODES or content[_MAIN][0] > MOST_BYTES or depth > DEEPEST:
        raise ModelError(
            f"{name}: with all calls expanded, its {len(proto.functions)} functions have "
            f"{count:,} nodes and {content[_MAIN][0]:,} bytes, {depth} calls deep; the "
            f"limits are {MOST_NODES:,} nodes, {MOST_BYTES:,} bytes and {DEEPEST} calls",
            code="model-too-large",
            hint="Export it without functions, or with fewer calls of them.",
        )
    _require_few_weights(len(proto.graph.initializer) + constants[_MAIN][0], name)


def _key(node: onnx.NodeProto) -> _Key:
    return node.domain, node.op_type, node.overload
