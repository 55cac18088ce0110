"""Brings a model to the pipeline's opset, from an older one or from a newer one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
import onnx_ir
from onnx_ir.passes import PassResult, PostconditionError
from onnx_ir.passes.common import InlinePass

from converter.errors import ModelError, Unsupported, UnsupportedError
from converter.ir.inference import infer
from converter.ir.model import IR_VERSION, OPSET, spec_of
from converter.passes.base import ModelPass
from converter.passes.cleanup.naming import name_nodes
from converter.passes.opset import downgrade as opset_lowering
from converter.passes.opset.adapters import ADAPTERS
from converter.passes.opset.edit import Edit, FreshNames, NotAdaptable
from converter.text.words import one_line

OLDEST = 7
"""The oldest opset that is read."""

_DEFAULT_DOMAINS = ("", "ai.onnx")


class UpgradeOpset(ModelPass):
    """Brings a model to :data:`converter.ir.model.OPSET`.

    Cases:
        1. Functions of the model's own are written out where they are called; each may be in
           an opset of its own.
        2. A node of an older opset is said in the pipeline's (opset_adapters.py).
        3. A node of a newer opset stays where the pipeline's has it, is written out where
           ONNX defines it by older ones, and is refused otherwise (opset_lowering.py).
        4. What the file says of inner shapes goes, and of outputs what inference contradicts: it
           may be wrong, and another opset's rules find more of it. The next pass says what is so.

    Weights are not touched, nor are domains other than ONNX's own.

    Attributes:
        findings: Which outputs were declared wrongly, a line each.

    Raises:
        UnsupportedError: Nodes that can't be said in the pipeline's opset; all of them.
        ModelError: The model's functions call each other in a circle, or the like.
    """

    name = "upgrade-opset"
    summary = f"Brings every node to opset {OPSET}."

    def __init__(self) -> None:
        super().__init__()
        self.findings: list[str] = []

    def versions(self) -> Mapping[str, str]:
        """Newer opsets are written out by onnx."""
        return {"onnx": onnx.__version__, "onnx-ir": onnx_ir.__version__}

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Changes ``model`` in place."""
        before = (model.opset_imports.get(""), model.ir_version)
        changed = self._inline(model)
        version = model.opset_imports.setdefault("", OPSET)
        if version > OPSET:
            changed |= _lower(model)
        changed |= _adapt(model)
        _stamp(model)
        self.findings = _forget_shapes(model) if version != OPSET else []
        if changed:
            name_nodes(model)
        return PassResult(model, changed or before != (OPSET, IR_VERSION))

    def ensures(self, model: onnx_ir.Model) -> None:
        """Every standard operator is one that the pipeline's opset has."""
        unknown = {
            node.op_type
            for node in _standard_nodes(model)
            if not _exists(node.op_type) and node.op_identifier() not in model.functions
        }
        if unknown:
            raise PostconditionError(f"opset {OPSET} has no {', '.join(sorted(unknown))}")

    def _inline(self, model: onnx_ir.Model) -> bool:
        """Writes functions out; a node of another opset than the model's remembers its own."""
        if not model.functions:
            return False
        version = model.opset_imports.setdefault("", OPSET)
        for function in model.functions.values():
            own = function.opset_imports.get("", version)
            for node in onnx_ir.traversal.RecursiveGraphIterator(function):
                node.version = own
            function.opset_imports[""] = version
        try:
            InlinePass()(model)
        except Exception as error:  # the library wraps its own and bare ValueErrors alike
            reason = error.__cause__ or error
            raise ModelError(
                f"expanding the model's functions: {one_line(reason)}", code="opset"
            ) from error
        return True


def _lower(model: onnx_ir.Model) -> bool:
    try:
        changed = opset_lowering.write_out_newer(model)
    except RuntimeError as error:
        version = model.opset_imports[""]
        raise ModelError(
            f"converting the model from opset {version} to {OPSET}: {one_line(error)}",
            code="opset",
            hint=f"Export the model with opset {OPSET}.",
        ) from error
    items = opset_lowering.unsupported(model)
    if items:
        raise _unsupported(model, items)
    opset_lowering.drop_neutral(model)
    return changed


def _adapt(model: onnx_ir.Model) -> bool:
    version = model.opset_imports[""]
    waiting = [
        node
        for node in _standard_nodes(model)
        if node.op_type in ADAPTERS and (node.version or version) < ADAPTERS[node.op_type][0]
    ]
    if not waiting:
        return False
    inferred, names = infer(model), FreshNames(model)
    items = []
    for node in waiting:
        name, op_type = node.name or "", node.op_type
        try:
            ADAPTERS[op_type][1](Edit(node, node.version or version, inferred, names))
        except NotAdaptable as error:
            items.append(Unsupported(name, op_type, error.reason, error.remedy))
    if items:
        raise _unsupported(model, items)
    return True


def _stamp(model: onnx_ir.Model) -> None:
    for node in _standard_nodes(model):
        node.version = None
        node.domain = ""
    model.opset_imports[""] = OPSET
    used = {node.domain for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph)}
    for domain in list(model.opset_imports):
        if domain and domain not in used:
            del model.opset_imports[domain]
    model.ir_version = IR_VERSION


def _forget_shapes(model: onnx_ir.Model) -> list[str]:
    outputs = model.graph.outputs
    for graph in model.graphs():
        for value in (value for node in graph for value in node.outputs):
            if value not in outputs:
                value.shape = None
    inferred = infer(model)
    wrong = []
    for value in outputs:
        found = inferred[value].shape if value in inferred else None
        if found is not None and value.shape is not None and not _agree(found, value.shape):
            was = spec_of(value).describe()
            value.shape = found
            wrong.append(f"output {value.name}: declared {was}, is {spec_of(value).describe()}")
    return wrong


def _agree(one: onnx_ir.Shape, other: onnx_ir.Shape) -> bool:
    """Whether both can be the shape of one value."""
    return len(one) == len(other) and all(
        a == b for a, b in zip(one, other, strict=True) if isinstance(a, int) and isinstance(b, int)
    )


def _unsupported(model: onnx_ir.Model, items: list[Unsupported]) -> UnsupportedError:
    version = model.opset_imports[""]
    count = "1 node" if len(items) == 1 else f"{len(items)} nodes"
    return UnsupportedError(
        f"converting the model from opset {version} to {OPSET}: {count} can't be converted", items
    )


def _standard_nodes(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    for node in list(onnx_ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain in _DEFAULT_DOMAINS:
            yield node


def _exists(op_type: str) -> bool:
    try:
        onnx.defs.get_schema(op_type, OPSET)
    except onnx.defs.SchemaError:
        return False
    return True
