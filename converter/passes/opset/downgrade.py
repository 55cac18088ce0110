"""Brings a model of an opset newer than the pipeline's down to it, or says what can't be.

1. Operators that came later and that ONNX defines by older ones are written out
   (Attention, RMSNormalization, RotaryEmbedding, Swish).
2. Every other node must be one that the pipeline's opset has, with its attributes (those
   that came later only at their neutral default), its inputs, and its types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
import onnx_ir

from converter.errors import Unsupported
from converter.ir.definitions import schema_of, write_out
from converter.ir.inference import Inferred, infer
from converter.ir.model import OPSET

_REMEDY = f"Export the model with opset {OPSET}."
_REWRITTEN = {"GroupNormalization"}  # opset_adapters.py says it otherwise in any opset


def write_out_newer(model: onnx_ir.Model) -> bool:
    """Replaces operators that the pipeline's opset hasn't by what ONNX defines them as.

    Returns:
        Whether there were any.

    Raises:
        RuntimeError: The library can't write one out; its words are in the error.
    """
    found = write_out(
        model,
        lambda node: node.op_type not in _REWRITTEN and schema_of(node.op_type, OPSET) is None,
    )
    return bool(found)


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
        old = schema_of(node.op_type, OPSET)
        for name in list(node.attributes):
            if old is not None and name not in old.attributes:
                del node.attributes[name]


def _standard_nodes(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    for node in list(onnx_ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain in ("", "ai.onnx") and node.op_type not in _REWRITTEN:
            yield node


def _reasons(
    node: onnx_ir.Node, version: int, inferred: Mapping[onnx_ir.Value, Inferred]
) -> Iterator[str]:
    new, old = schema_of(node.op_type, version), schema_of(node.op_type, OPSET)
    if old is None:
        since = new.since_version if new is not None else version
        yield f"it came with opset {since}; opset {OPSET} has nothing like it"
    elif new is not None and new.since_version != old.since_version:
        yield from _attribute_reasons(node, new, old)
        if len(node.inputs) > old.max_input:
            yield f"it has {len(node.inputs)} inputs; in opset {OPSET} at most {old.max_input}"
        yield from _type_reasons(node, old, inferred)
        if node.op_type == "Mod" and not node.attributes.get_int("fmod", 0):
            yield from _float_mod_reasons(node, inferred)


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


def _float_mod_reasons(
    node: onnx_ir.Node, inferred: Mapping[onnx_ir.Value, Inferred]
) -> Iterator[str]:
    """Mod-28 rounds down on floating-point values too; before, they were for ``fmod=1`` alone."""
    known = inferred.get(node.outputs[0])
    kind = known.type if known is not None else node.outputs[0].type
    if kind is not None and kind.dtype.is_floating_point():
        yield f"fmod is 0 on {_type_text(kind)}; opset {OPSET} only allows that on integers"


def _type_text(kind: onnx_ir.TypeProtocol) -> str:
    """A type as schemas spell it: ``tensor(float)``, ``seq(tensor(int64))``."""
    if isinstance(kind, onnx_ir.OptionalType):
        return f"optional({_type_text(kind.elem_type)})"
    if isinstance(kind, onnx_ir.SequenceType):
        return f"seq({_type_text(kind.elem_type)})"
    return f"tensor({kind.dtype.name.lower()})"
