"""Nodes called after the module they came from: `layer1.0.conv1`, `layer1.0/Add`.

torch's exporters leave each node's module in its metadata, or in its name; both go when the file
is stripped, so that this comes before. Someone who reads a report finds the layer in the code.

| node | name |
|---|---|
| the first product (or the first node) of a module without parts | `layer1.0.conv1` |
| any other | the module, `/` and the operator, numbered from the second on: `att/MatMul_2` |
| outside of every module | the operator: `Add`, `Add_2` |
"""

from __future__ import annotations

import ast
from typing import Any

_SCOPES = "pkg.torch.onnx.name_scopes"
# torch's word for what its passes added, sizes of inputs for one.
_NO_MODULE = "_empty_nn_module_stack"
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"})


def name_nodes(model: Any, prefix: str) -> None:
    """Name the nodes of the main graph, in place; `prefix` is what our wrappers add to paths."""
    nodes = list(model.graph)
    paths = [_path(node, prefix) for node in nodes]
    known = {path for path in paths if path is not None}
    parents = {path.rpartition(".")[0] for path in known}
    parents = {up for path in parents for up in _upwards(path)}
    main = _main_nodes(nodes, paths, parents)
    taken: set[str] = set()
    counts: dict[str, int] = {}
    for node, path in zip(nodes, paths):  # noqa: B905
        if path is None:
            continue
        base = path if main.get(path) is node else "/".join(filter(None, (path, node.op_type)))
        name = base
        while name in taken:
            counts[base] = counts.get(base, 1) + 1
            name = f"{base}_{counts[base]}"
        taken.add(name)
        node.name = name
    for node, path in zip(nodes, paths):  # noqa: B905
        if path is None and node.name in taken:
            node.name = None


def _upwards(path: str) -> list[str]:
    """A path and all above it."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) + 1)]


def _main_nodes(nodes: list[Any], paths: list[str | None], parents: set[str]) -> dict[str, Any]:
    """By module without parts, the node that has its name."""
    main: dict[str, Any] = {}
    for node, path in zip(nodes, paths):  # noqa: B905
        if not path or path in parents:
            continue
        held = main.get(path)
        if held is None or (node.op_type in _PRODUCTS and held.op_type not in _PRODUCTS):
            main[path] = node
    return main


def _path(node: Any, prefix: str) -> str | None:
    """The module of a node, without the wrapper; None where nothing says which."""
    path = _of_weight(node) or _of_scopes(node) or _of_name(node)
    if path is None:
        return None
    if prefix.startswith(f"{path}."):
        return ""
    return path[len(prefix) :] if path.startswith(prefix) else path


def _of_weight(node: Any) -> str | None:
    """The module that holds a product's weight: its node may have taken in the one after it."""
    if node.op_type not in _PRODUCTS or len(node.inputs) < 2 or node.inputs[1] is None:
        return None
    weight = node.inputs[1]
    name = str(weight.name)
    return name[: -len(".weight")] if weight.is_initializer() and name.endswith(".weight") else None


def _of_scopes(node: Any) -> str | None:
    """What the dynamo-based exporter says: the modules from the outermost in, then the node."""
    text = node.metadata_props.get(_SCOPES)
    if not text:
        return None
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError):  # another version's way to write it
        return None
    path = str(scopes[-2]) if isinstance(scopes, list) and len(scopes) > 1 else ""
    return "" if path.startswith(_NO_MODULE) else path


def _of_name(node: Any) -> str | None:
    """What the TorchScript-based exporter says: `/model/layer1/layer1.0/conv1/Conv`."""
    if not (node.name or "").startswith("/"):
        return None
    path = ""
    for part in node.name.split("/")[1:-1]:
        below = path and part.startswith(f"{path.rpartition('.')[2]}.")
        path = path.rpartition(".")[0] if below else path
        path = f"{path}.{part}" if path else part
    return path
