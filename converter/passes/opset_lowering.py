"""Brings a model of an opset newer than the pipeline's down to it, or says what can't be.

1. Operators that came later and that ONNX defines by older ones are written out
   (Attention, RMSNormalization, RotaryEmbedding, Swish).
2. Every other node must be one that the pipeline's opset has, with its attributes (those
   that came later only at their neutral default), its inputs, and its types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
import onnx.inliner
import onnx_ir

from converter.errors import Unsupported
from converter.graph.inference import Inferred, infer
from converter.graph.weightless import without_weights
from converter.ir import OPSET
from converter.passes.base import adopt

_REMEDY = f"Export the model with opset {OPSET}."
_REWRITTEN = {"GroupNormalization"}  # opset_adapters.py says it otherwise in any opset


def write_out(model: onnx_ir.Model) -> bool:
    """Replaces operators that the pipeline's opset hasn't by what ONNX defines them as.

    Returns:
        Whether there were any.

    Raises:
        RuntimeError: The library can't write one out; its words are in the error.
    """
    version, changed = model.opset_imports.get("", 0), False
    while found := sorted({n.op_type for n in _standard_nodes(model) if _expandable(n, version)}):
        _spell_defaults(model, set(found), version)
        light, restore = without_weights(model, 0)
        _declare(light)
        proto = onnx.inliner.inline_selected_functions(
            onnx_ir.to_proto(light),
            [("", op_type) for op_type in found],
            inline_schema_functions=True,
        )
        adopt(model, restore(onnx_ir.from_proto(proto)))
        changed = True
    return changed


def unsupported(model: onnx_ir.Model) -> list[Unsupported]:
    """Every node that the pipeline's opset can't hold, and why."""
    version = model.opset_imports.get("", 0)
    inferred = infer(model)
    found = []
    for node in _standard_nodes(model):
        for reason in _reasons(node, version, inferred):
            found.append(Unsupported(node.name or "", node.op_type, reason, _REMEDY))
    return found


def drop_neutral(model: onnx_ir.Model) -> None:
    """Takes away attributes that the pipeline's opset doesn't know; they are neutral."""
    for node in _standard_nodes(model):
        old = _schema(node.op_type, OPSET)
        for name in list(node.attributes):
            if old is not None and name not in old.attributes:
                del node.attributes[name]


def _standard_nodes(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    for node in list(onnx_ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain in ("", "ai.onnx") and node.op_type not in _REWRITTEN:
            yield node


def _schema(op_type: str, version: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, version)
    except onnx.defs.SchemaError:
        return None


def _expandable(node: onnx_ir.Node, version: int) -> bool:
    if _schema(node.op_type, OPSET) is not None:
        return False
    schema = _schema(node.op_type, version)
    kinds = ("has_function", "has_context_dependent_function")  # missing in onnx's type stubs
    return any(getattr(schema, kind, False) for kind in kinds)


def _spell_defaults(model: onnx_ir.Model, op_types: set[str], version: int) -> None:
    """Writes default attributes out: a definition refers to them, and the library leaves a
    reference to nothing."""
    for node in _standard_nodes(model):
        schema = _schema(node.op_type, version) if node.op_type in op_types else None
        for name, attribute in (schema.attributes if schema else {}).items():
            default = attribute.default_value
            if name not in node.attributes and default.type != onnx.AttributeProto.UNDEFINED:
                node.attributes[name] = onnx_ir.from_proto(default)


def _declare(light: onnx_ir.Model) -> None:
    """Writes down the types that are inferred: definitions are chosen by type."""
    for value, known in infer(light).items():
        if known.type is not None:
            value.type, value.shape = known.type, known.shape


def _reasons(
    node: onnx_ir.Node, version: int, inferred: Mapping[onnx_ir.Value, Inferred]
) -> Iterator[str]:
    new, old = _schema(node.op_type, version), _schema(node.op_type, OPSET)
    if old is None:
        since = new.since_version if new is not None else version
        yield f"it came with opset {since}; opset {OPSET} has nothing like it"
    elif new is not None and new.since_version != old.since_version:
        yield from _attribute_reasons(node, new, old)
        if len(node.inputs) > old.max_input:
            yield f"it has {len(node.inputs)} inputs; in opset {OPSET} at most {old.max_input}"
        yield from _type_reasons(node, old, inferred)


def _attribute_reasons(
    node: onnx_ir.Node, new: onnx.defs.OpSchema, old: onnx.defs.OpSchema
) -> Iterator[str]:
    for name, attribute in node.attributes.items():
        if name in old.attributes or name not in new.attributes:
            continue
        neutral = new.attributes[name].default_value
        if onnx_ir.to_proto(attribute).SerializeToString() != neutral.SerializeToString():
            yield f"its attribute {name} is not in opset {OPSET}"


def _type_reasons(
    node: onnx_ir.Node, old: onnx.defs.OpSchema, inferred: Mapping[onnx_ir.Value, Inferred]
) -> Iterator[str]:
    for values, formals in ((node.inputs, old.inputs), (node.outputs, old.outputs)):
        for index, value in enumerate(values):
            if value is None or not formals:
                continue
            formal = formals[min(index, len(formals) - 1)]
            known = inferred.get(value)
            kind = known.type if known is not None else value.type
            if kind is not None and (text := _type_text(kind)) not in formal.types:
                yield f"{value.name or 'a value'} is {text}; opset {OPSET} doesn't take that"


def _type_text(kind: onnx_ir.TypeProtocol) -> str:
    """A type as schemas spell it: ``tensor(float)``, ``seq(tensor(int64))``."""
    if isinstance(kind, onnx_ir.OptionalType):
        return f"optional({_type_text(kind.elem_type)})"
    if isinstance(kind, onnx_ir.SequenceType):
        return f"seq({_type_text(kind.elem_type)})"
    return f"tensor({kind.dtype.name.lower()})"
