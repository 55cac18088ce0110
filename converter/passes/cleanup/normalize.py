"""Gives everything in a model a name, and takes out what tells of the machine that made it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, MutableMapping
from typing import Any

import onnx_ir
from onnx_ir.passes import PassResult, PostconditionError

from converter.ir.inference import infer
from converter.ir.model import IR_VERSION, METADATA_KEY, OPSET
from converter.ir.symbols import is_readable, name_inputs, name_outputs, set_dimension, symbols_of
from converter.passes.base import ModelPass
from converter.passes.cleanup.naming import every_node, name_nodes, name_values
from converter.passes.opset.fit_types import fit_types

_PATH = re.compile(r"(?<![\w.:/])(~|/[\w.@+ -]+|[A-Za-z]:\\[\w.@+ -]+)[/\\][\w.@+-]+")
_PRIVATE_KEYS = re.compile(
    r"(.*[._])?(date|time|timestamp|created(_at|_on)?|user(name)?|host(name)?|cwd|command|argv)",
    re.IGNORECASE,
)
_EXPORTER_KEYS = ("pkg.", "namespace", "source_node")


class Normalize(ModelPass):
    """Makes a model's names complete and its contents reproducible; what it computes stays.

    Cases:
        1. Nodes without a name, or with one that another node has, get ``<op>_<number>``; so do
           inner values, after the node that computes them. Names of inputs and outputs stay.
        2. Free dimensions get names (:mod:`converter.ir.symbols`); those of outputs, where shape
           inference says so, the names of the inputs' dimensions that they are.
        3. Initializers that double as inputs are inputs no more.
        4. Doc strings go, exporters' metadata of graphs, nodes and values goes, and so does
           what in the model's own metadata is a time, a user or a path. The rest of that stays:
           it may hold what the model's user needs, such as its labels.
        5. Nodes whose types ONNX, or ONNX Runtime, has no operator for are said with others
           (:mod:`converter.passes.opset.fit_types`).
        6. The file version is the one that goes with the pipeline's opset.
    """

    name = "normalize"
    summary = "Names every node, value and free dimension; strips exporters' metadata."

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Changes ``model`` in place."""
        changed = _drop_initializer_inputs(model.graph)
        changed |= fit_types(model)
        changed |= _strip(model)
        changed |= name_values(model)
        changed |= name_nodes(model)
        changed |= name_inputs(model)
        changed |= _derive_outputs(model)
        changed |= name_outputs(model)
        if model.opset_imports.get("", OPSET) <= OPSET and model.ir_version != IR_VERSION:
            model.ir_version = IR_VERSION
            changed = True
        return PassResult(model, changed)

    def ensures(self, model: onnx_ir.Model) -> None:
        """Every node has a name of its own."""
        names = Counter(node.name for node in every_node(model))
        twice = [str(name) for name, count in names.items() if count > 1 or not name]
        if twice:
            raise PostconditionError(f"names of nodes are missing or not unique: {twice[:5]}")


def _drop_initializer_inputs(graph: onnx_ir.Graph) -> bool:
    doubled = [value for value in graph.inputs if value.name in graph.initializers]
    for value in doubled:
        graph.inputs.remove(value)
    return bool(doubled)


def _derive_outputs(model: onnx_ir.Model) -> bool:
    """Lets free dimensions of outputs without a readable name be what follows from the inputs."""
    known = {name for value in model.graph.inputs for _, name in symbols_of(value)}
    open_dims = [
        (value, axis)
        for value in model.graph.outputs
        for axis, name in symbols_of(value)
        if name not in known and not is_readable(name)
    ]
    inferred = infer(model) if open_dims else {}
    changed = False
    for value, axis in open_dims:
        found = inferred.get(value)
        shape = found.shape if found is not None else None
        if shape is None or value.shape is None or len(shape) != len(value.shape):
            continue
        dim = shape[axis]
        name = dim if isinstance(dim, int) else dim.value
        if isinstance(name, int) or name in known - {None}:
            set_dimension(value, axis, name)
            changed = True
    return changed


# -- what tells of another machine -------------------------------------------------------


def _strip(model: onnx_ir.Model) -> bool:
    changed = _strip_model(model)
    for owner in _owners(model):
        if owner.doc_string or owner.metadata_props:
            _strip_owner(owner)
            changed = True
    return changed


def _strip_owner(owner: Any) -> None:
    owner.metadata_props.clear()
    if isinstance(owner, onnx_ir.serde.TensorProtoTensor):  # it has no setter
        owner.raw.ClearField("doc_string")
        owner.raw.ClearField("metadata_props")
    else:
        owner.doc_string = None


def _strip_model(model: onnx_ir.Model) -> bool:
    changed = _strip_metadata(model.metadata_props)
    for name in ("doc_string", "producer_name", "producer_version", "domain"):
        text = getattr(model, name)
        if text and (name == "doc_string" or _PATH.search(text)):
            setattr(model, name, None)
            changed = True
    if model.graph.name is None or _PATH.search(model.graph.name):
        model.graph.name = "model"
        changed = True
    return changed


def _strip_metadata(metadata: MutableMapping[str, str]) -> bool:
    leaking = [
        key
        for key, value in metadata.items()
        if key != METADATA_KEY
        and (_PRIVATE_KEYS.fullmatch(key) or key.startswith(_EXPORTER_KEYS) or _PATH.search(value))
    ]
    for key in leaking:
        del metadata[key]
    return bool(leaking)


def _owners(model: onnx_ir.Model) -> Iterator[Any]:
    """Everything below the model that can have a doc string and metadata."""
    yield from model.functions.values()
    for graph in (*model.graphs(), *(f.graph for f in model.functions.values())):
        yield graph
        yield from graph.inputs
        for value in graph.initializers.values():
            yield value
            if value.const_value is not None:
                yield value.const_value
    for node in every_node(model):
        yield node
        yield from node.outputs
        for attribute in node.attributes.values():
            if attribute.type == onnx_ir.AttributeType.TENSOR and not attribute.is_ref():
                yield attribute.as_tensor()
