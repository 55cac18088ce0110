"""Finds everything that is wrong with an ONNX file, or that can't be taken of it."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import onnx

from converter.errors import ModelError, Unsupported, UnsupportedError
from converter.extras import requirements
from converter.graph.external import tensor_bytes
from converter.graph.onnx_walk import all_graphs, all_nodes, attribute_graphs
from converter.graph.possible import MOST_AXES

OLDEST_OPSET = 7
"""The oldest opset that is read: broadcasting as it is today."""

_DENSE_LIMIT = 1 << 28
"""Elements of all sparse tensors together above which they aren't written out."""

_STANDARD = {"", "ai.onnx"}
_TAKEN = {*_STANDARD, "ai.onnx.ml"}
_STILL_RUNS = {"GroupNormalization"}  # deprecated in 18, but with a meaning of its own
_RUNTIME_DOMAINS = {"com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"}
_TYPED_FIELDS: dict[int, str] = {  # onnx.proto, TensorProto; int32_data for all others
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.UINT32: "uint64_data",
    onnx.TensorProto.UINT64: "uint64_data",
}


def check(proto: onnx.ModelProto, name: str) -> None:
    """Refuses a model that can't be read, with everything that is wrong with it.

    Args:
        proto: The model; external weights are not looked at.
        name: The file's name, for messages.

    Raises:
        ModelError: Its opset is too old or too new, or its graph contradicts itself.
        UnsupportedError: Operators, inputs or outputs that can't be taken; all of them.
    """
    _check_versions(proto, name)
    items = [*_unsupportedall_nodes(proto), *_unsupported_interface(proto)]
    if items:
        count = "1 thing" if len(items) == 1 else f"{len(items)} things"
        raise UnsupportedError(f"{name} holds {count} that can't be taken", items)
    problems = list(_problems(proto))
    if problems:
        raise ModelError(
            f"{name} is not a valid model",
            details=problems,
            hint="Export it again; what wrote it left it broken.",
        )


def densify(proto: onnx.ModelProto) -> None:
    """Writes sparse initializers, and sparse Constants, out in full.

    Raises:
        ModelError: One contradicts itself, or together they are too large.
    """
    written = 0
    for graph in all_graphs(proto):
        for sparse in graph.sparse_initializer:
            written = _counted(sparse, written)
            graph.initializer.append(_dense(sparse))
        graph.ClearField("sparse_initializer")
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("sparse_tensor"):
                    written = _counted(attribute.sparse_tensor, written)
                    tensor = _dense(attribute.sparse_tensor)
                    attribute.Clear()
                    attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def _counted(sparse: onnx.SparseTensorProto, written: int) -> int:
    """How many elements are written out with those of one more tensor."""
    written += math.prod(sparse.dims)
    if written > _DENSE_LIMIT:
        name = sparse.values.name or "without a name"
        raise ModelError(
            f"the sparse tensor {name} of shape {list(sparse.dims)} is too large to be written out"
        )
    return written


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    name = sparse.values.name or "without a name"
    try:
        values = onnx.numpy_helper.to_array(sparse.values)
        indices = onnx.numpy_helper.to_array(sparse.indices)
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = values
        else:
            dense[tuple(indices.T)] = values
    except (IndexError, ValueError, TypeError) as error:
        raise ModelError(f"the sparse tensor {name} contradicts itself: {error}") from error
    return onnx.numpy_helper.from_array(dense, sparse.values.name)


# -- versions ----------------------------------------------------------------------------


def _opset(imports: Iterable[onnx.OperatorSetIdProto]) -> int | None:
    return next((item.version for item in imports if item.domain in _STANDARD), None)


def _check_versions(proto: onnx.ModelProto, name: str) -> None:
    version, newest = _opset(proto.opset_import), onnx.defs.onnx_opset_version()
    if version is not None and version < OLDEST_OPSET:
        raise ModelError(
            f"{name} is of opset {version}; opset {OLDEST_OPSET} and later are read",
            hint="Export it again with a newer opset, 17 or 20.",
        )
    if (version or 0) > newest or proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{name} is of opset {version} (file version {proto.ir_version}); the onnx "
            f"{onnx.__version__} installed here knows {newest} (file version {onnx.IR_VERSION})",
            hint=f"{sys.executable} -m pip install -U onnx {_runtime()}, or export it with an "
            "older opset, 17 or 20.",
        )


def _runtime() -> str:
    """The distribution of ONNX Runtime that is ours here; another beside it would break it."""
    names = (needed.name for needed in requirements())
    return next(name for name in names if name.startswith("onnxruntime"))


# -- what can't be taken -----------------------------------------------------------------


def _unsupportedall_nodes(proto: onnx.ModelProto) -> Iterator[Unsupported]:
    known = {(function.domain, function.name) for function in proto.functions}
    for imports, nodes in _bodies(proto):
        versions = {item.domain: item.version for item in imports}
        versions[""] = _opset(imports) or onnx.defs.onnx_opset_version()
        for node in nodes:
            if (node.domain, node.op_type) not in known:
                yield from _unsupported_node(node, versions)


def _bodies(
    proto: onnx.ModelProto,
) -> Iterator[tuple[list[onnx.OperatorSetIdProto], Iterator[onnx.NodeProto]]]:
    yield list(proto.opset_import), all_nodes(proto.graph.node)
    for function in proto.functions:
        yield list(function.opset_import), all_nodes(function.node)


def _unsupported_node(node: onnx.NodeProto, versions: dict[str, int]) -> Iterator[Unsupported]:
    op = f"{node.domain}::{node.op_type}" if node.domain not in _STANDARD else node.op_type
    if node.domain in _RUNTIME_DOMAINS:
        yield Unsupported(
            node.name,
            op,
            "it is ONNX Runtime's own, not ONNX's",
            "Give the file from before ONNX Runtime's optimizer; quantize with QuantFormat.QDQ.",
        )
    elif node.domain not in _TAKEN:
        yield Unsupported(
            node.name,
            op,
            "it is of a custom domain, and custom operator libraries are not loaded",
            "Export it as standard operators, or as a function inside the model.",
        )
    else:
        reason = _unknown(node, versions)
        if reason:
            yield Unsupported(node.name, op, *reason)


def _unknown(node: onnx.NodeProto, versions: dict[str, int]) -> tuple[str, str] | None:
    domain = "" if node.domain in _STANDARD else node.domain
    version = versions.get(domain)
    where = f"opset {version}" + (f" of {domain}" if domain else "")
    if version is None:
        return f"the model imports no opset of {domain}", "Export it again."
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return f"{where} has no such operator", _remedy(node.op_type, domain)
    if schema.deprecated and node.op_type not in _STILL_RUNS:
        return f"{where} has it no more", "Export it with the opset that its operators are of."
    return None


def _remedy(op_type: str, domain: str) -> str:
    try:
        since = onnx.defs.get_schema(op_type, domain).since_version
    except onnx.defs.SchemaError:
        return "What exported it didn't know this operator; convert it there by standard ones."
    return f"It came with opset {since}: the file's opset is wrong, or the operator is."


def _unsupported_interface(proto: onnx.ModelProto) -> Iterator[Unsupported]:
    given = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in given]
    for kind, values in (("input", inputs), ("output", proto.graph.output)):
        for value in values:
            if "\0" in value.name:
                remedy = f"Rename the {kind}."
                yield Unsupported(value.name, kind, "runtimes end its name at its NUL", remedy)
            what = value.type.WhichOneof("value")
            if what == "tensor_type" or (what is None and kind == "output"):
                continue
            text = (what or "without a type").removesuffix("_type").replace("_", " ")
            yield Unsupported(
                value.name,
                kind,
                f"it is {text}, not a tensor",
                f"Export the model with tensors as {kind}s; inside the graph it may stay.",
            )


# -- what is broken ----------------------------------------------------------------------


def _problems(proto: onnx.ModelProto) -> Iterator[str]:
    graph = proto.graph
    if not graph.output:
        yield "the graph has no outputs"
    for value in graph.input:
        if value.type.tensor_type.elem_type == 0 and value.type.HasField("tensor_type"):
            yield f"input {value.name} has no element type"
    yield from _graph_problems(graph, frozenset(), "")


def _graph_problems(graph: onnx.GraphProto, outer: frozenset[str], where: str) -> Iterator[str]:
    weights = [*graph.initializer, *(item.values for item in graph.sparse_initializer)]
    yield from _duplicates((value.name for value in graph.input), "inputs", where)
    yield from _duplicates((tensor.name for tensor in weights), "initializers", where)
    made = [name for node in graph.node for name in node.output if name]
    fed = {value.name for value in graph.input} | {tensor.name for tensor in weights}
    yield from _duplicates(made, "node outputs", where)
    for name in dict.fromkeys(name for name in made if name in fed):
        yield f"{where}{name} is computed by a node, and is an input or initializer too"
    for tensor in graph.initializer:
        yield from _tensor_problem(tensor, where)
    scope = outer | fed | frozenset(made)
    for node in graph.node:
        yield from _node_problems(node, scope, where)
    for value in graph.output:
        if value.name not in scope:
            yield f"{where}nothing computes the output {value.name}"
    yield from _cycle(graph, where)


def _node_problems(node: onnx.NodeProto, scope: frozenset[str], where: str) -> Iterator[str]:
    title = f"{where}{node.op_type} ({node.name or ', '.join(node.output)})"
    for name in node.input:
        if name and name not in scope:
            yield f"{title} takes {name!r}, which nothing computes"
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield from _tensor_problem(attribute.t, f"{title}: ")
        for body in attribute_graphs(attribute):
            yield from _graph_problems(body, scope, f"{title}: ")


def _duplicates(names: Iterable[str], what: str, where: str) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{where}{count} {what} are called {name}"


def _tensor_problem(tensor: onnx.TensorProto, where: str) -> Iterator[str]:
    title = f"{where}tensor {tensor.name or 'without a name'}"
    if len(tensor.dims) > MOST_AXES:
        yield f"{title} has {len(tensor.dims)} dimensions, of at most {MOST_AXES}"
        return
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    if tensor.data_type == onnx.TensorProto.STRING:
        expected, found, unit = _count(tensor), len(tensor.string_data), "strings"
    else:
        try:
            needed = tensor_bytes(tensor)
        except ValueError as error:
            yield f"{title}: {error}"
            return
        if tensor.HasField("raw_data"):
            expected, found, unit = needed, len(tensor.raw_data), "bytes"
        else:
            expected, found = _numbers(tensor)
            unit = "numbers"
    if expected != found:
        yield f"{title} of shape {list(tensor.dims)} has {found} {unit}, not {expected}"


def _count(tensor: onnx.TensorProto) -> int:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count


def _numbers(tensor: onnx.TensorProto) -> tuple[int, int]:
    """How many numbers a tensor needs in its typed field, and how many are there."""
    count = _count(tensor)
    if tensor.data_type in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128):
        wide = tensor.data_type == onnx.TensorProto.COMPLEX128
        return 2 * count, len(tensor.double_data if wide else tensor.float_data)
    field = getattr(tensor, _TYPED_FIELDS.get(tensor.data_type, "int32_data"))
    return min(count, tensor_bytes(tensor)), len(field)  # less than a byte each: packed


def _cycle(graph: onnx.GraphProto, where: str) -> Iterator[str]:
    """The nodes of a graph that wait for each other, if any do."""
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    waits = [{maker[name] for name in _needs(node) if name in maker} for node in graph.node]
    users: dict[int, list[int]] = {}
    for index, needed in enumerate(waits):
        for other in needed:
            users.setdefault(other, []).append(index)
    ready = [index for index, needed in enumerate(waits) if not needed]
    left = set(range(len(waits)))
    while ready:
        done = ready.pop()
        left.discard(done)
        for user in users.get(done, ()):
            waits[user].discard(done)
            if not waits[user] and user in left:
                ready.append(user)
    if left:
        titles = [graph.node[i].name or graph.node[i].op_type for i in sorted(left)[:8]]
        yield f"{where}nodes wait for each other in a circle: {', '.join(titles)}"


def _needs(node: onnx.NodeProto) -> Iterator[str]:
    """What a node takes, its bodies included: those see the names around it."""
    yield from node.input
    for attribute in node.attribute:
        for body in attribute_graphs(attribute):
            own = {name for inner in body.node for name in inner.output}
            own.update(value.name for value in body.input)
            for inner in body.node:
                yield from (name for name in _needs(inner) if name not in own)
            yield from (value.name for value in body.output if value.name not in own)
