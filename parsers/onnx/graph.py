"""Finds everything that is wrong with an ONNX file, or that can't be taken of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator

import numpy as np
import onnx
import onnx_ir

from converter.errors import ModelError, Unsupported, UnsupportedError
from converter.ir.broken import check_graph
from converter.ir.edit import all_nodes as nodes_of
from converter.ir.edit import is_constant
from converter.ir.onnx_walk import all_graphs, all_nodes
from converter.plugins.extras import requirements

OLDEST_OPSET = 7
"""The oldest opset that is read: broadcasting as it is today."""

_DENSE_LIMIT = 1 << 28
"""Elements of all sparse tensors together above which they aren't written out."""

_STANDARD = {"", "ai.onnx"}
_TAKEN = {*_STANDARD, "ai.onnx.ml"}
_STILL_RUNS = {"GroupNormalization"}  # deprecated in 18, but with a meaning of its own
_ROUNDS = ("QuantizeLinear", "DynamicQuantize", "QLinear", "QGemm", "QAttention")
_FINE = (onnx_ir.DataType.INT16, onnx_ir.DataType.UINT16)
_RUNTIME_DOMAINS = {"com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"}


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
        raise UnsupportedError(f"{name} holds {count} that Modelyard can't read", items)
    check_graph(proto, name)


def rounds(model: onnx_ir.Model) -> bool:
    """Whether a model rounds numbers to 8 bits or fewer as it runs, whatever rounds them."""
    return any(
        node.op_type.startswith(_ROUNDS)
        and not is_constant(node.inputs[0])
        and not any(value is not None and value.dtype in _FINE for value in node.inputs[2:3])
        for node in nodes_of(model)
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
            f"the sparse tensor {name} of shape {list(sparse.dims)} is too large as a dense tensor",
            code="model-too-large",
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
        raise ModelError(
            f"the sparse tensor {name} contradicts itself: {error}", code="model-damaged"
        ) from error
    return onnx.numpy_helper.from_array(dense, sparse.values.name)


# -- versions ----------------------------------------------------------------------------


def _opset(imports: Iterable[onnx.OperatorSetIdProto]) -> int | None:
    return next((item.version for item in imports if item.domain in _STANDARD), None)


def _check_versions(proto: onnx.ModelProto, name: str) -> None:
    version, newest = _opset(proto.opset_import), onnx.defs.onnx_opset_version()
    if version is not None and version < OLDEST_OPSET:
        raise ModelError(
            f"{name} has opset {version}; Modelyard reads opset {OLDEST_OPSET} and later",
            code="opset",
            hint="Export it again with a newer opset, 17 or 20.",
        )
    if (version or 0) > newest or proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{name} has opset {version} (file version {proto.ir_version}), but the onnx "
            f"{onnx.__version__} installed here only knows {newest} (file version "
            f"{onnx.IR_VERSION})",
            code="opset",
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
    reason: tuple[str, str] | None
    if node.domain in _RUNTIME_DOMAINS:
        reason = (
            "it is ONNX Runtime's own, not ONNX's",
            "Give the file from before ONNX Runtime's optimizer; quantize with QuantFormat.QDQ.",
        )
    elif node.domain not in _TAKEN:
        reason = (
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
    if not 0 < version < 1 << 31:  # what the file can hold, and get_schema can't take
        return f"{where} is none", "Export it again."
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
        return (
            "The exporter didn't know this operator. Express it with standard operators "
            "before the export."
        )
    return f"It came with opset {since}: the file's opset is wrong, or the operator is."


def _unsupported_interface(proto: onnx.ModelProto) -> Iterator[Unsupported]:
    given = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in given]
    for kind, values in (("input", inputs), ("output", proto.graph.output)):
        for value in values:
            if "\0" in value.name:
                remedy = f"Rename the {kind}."
                yield Unsupported(
                    value.name, kind, "runtimes cut its name at the NUL character", remedy
                )
            what = value.type.WhichOneof("value")
            if what == "tensor_type" or (what is None and kind == "output"):
                continue
            text = (what or "without a type").removesuffix("_type").replace("_", " ")
            yield Unsupported(
                value.name,
                kind,
                f"it is {text}, not a tensor",
                f"Export the model with tensors as {kind}s. Inside the graph it may stay.",
            )
