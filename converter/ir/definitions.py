"""Operators that are defined by simpler ones: ONNX's, written out as those, and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import onnx
import onnx.inliner
import onnx_ir

from converter.ir.adopt import adopt
from converter.ir.edit import all_nodes
from converter.ir.inference import infer
from converter.ir.weight_placeholders import without_weights

_BY_CONTEXT = "has_context_dependent_function"
_OWN_DOMAIN = "modelyard.definitions"


def write_out(model: onnx_ir.Model, wanted: Callable[[onnx_ir.Node], bool]) -> list[str]:
    """Replaces operators by what ONNX defines them as, again and again, in place.

    Args:
        model: Changed in place; its large weights aren't copied.
        wanted: Says of a node of the standard domain whether it is to be written out, if it can.

    Returns:
        The operators, in order.

    Raises:
        RuntimeError: The library can't write one out; its words are in the error.
    """
    version, done = model.opset_imports.get("", 0), list[str]()

    def chosen(node: onnx_ir.Node) -> bool:
        return wanted(node) and is_defined(node.op_type, version)

    while found := sorted({n.op_type for n in _standard_nodes(model) if chosen(n)}):
        _spell_defaults(model, set(found), version)
        light, restore = without_weights(model, 0)
        _declare(light)
        own = _define_where_inputs_lack(light, set(found), version)
        proto = onnx_ir.to_proto(light)
        proto.functions.extend(own)
        proto = onnx.inliner.inline_selected_functions(
            proto,
            [*(("", op_type) for op_type in found), *((f.domain, f.name) for f in own)],
            inline_schema_functions=True,
        )
        adopt(model, restore(onnx_ir.from_proto(proto)))
        done += found
    return done


def define(model: onnx_ir.Model, functions: Iterable[str]) -> None:
    """Gives a model the functions that it calls, so that ONNX Runtime can run it.

    Args:
        model: Changed in place.
        functions: In ONNX's text form, in the model's own opset.
    """
    called = {(node.domain, node.op_type) for node in all_nodes(model)}
    for text in functions:
        function = onnx_ir.from_proto(onnx.parser.parse_function(text))
        if (function.domain, function.name) in called:
            function.opset_imports[""] = model.opset_imports[""]
            model.opset_imports[function.domain] = 1
            model.functions[function.identifier()] = function


def schema_of(op_type: str, version: int) -> onnx.defs.OpSchema | None:
    """An operator of the standard domain in an opset; None where that has none of the name."""
    try:
        return onnx.defs.get_schema(op_type, version)
    except onnx.defs.SchemaError:
        return None


def is_defined(op_type: str, version: int) -> bool:
    """Whether ONNX defines an operator by others."""
    schema = schema_of(op_type, version)
    kinds = ("has_function", _BY_CONTEXT)  # missing in onnx's type stubs
    return any(getattr(schema, kind, False) for kind in kinds)


def _standard_nodes(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    for node in list(onnx_ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain in ("", "ai.onnx"):
            yield node


def _spell_defaults(model: onnx_ir.Model, op_types: set[str], version: int) -> None:
    """Writes default attributes out: a definition refers to them, and the library leaves a
    reference to nothing."""
    for node in _standard_nodes(model):
        schema = schema_of(node.op_type, version) if node.op_type in op_types else None
        for name, attribute in (schema.attributes if schema else {}).items():
            default = attribute.default_value
            if name not in node.attributes and default.type != onnx.AttributeProto.UNDEFINED:
                node.attributes[name] = onnx_ir.from_proto(default)


def _declare(light: onnx_ir.Model) -> None:
    """Writes down the types that are inferred: definitions are chosen by type."""
    for value, known in infer(light).items():
        if known.type is not None:
            value.type, value.shape = known.type, known.shape


def _define_where_inputs_lack(
    light: onnx_ir.Model, op_types: set[str], version: int
) -> list[onnx.FunctionProto]:
    """Gives nodes whose definition depends on which inputs are there a function of their own,
    where they leave out one before the last: the library asks for the type of that one too.

    Returns:
        The functions.
    """
    made: list[onnx.FunctionProto] = []
    for node in _standard_nodes(light):
        schema = schema_of(node.op_type, version) if node.op_type in op_types else None
        if schema is None or None not in node.inputs or not getattr(schema, _BY_CONTEXT, False):
            continue
        body = schema.get_context_dependent_function_with_opset_version(  # type: ignore[attr-defined]
            schema.since_version,
            onnx_ir.to_proto(node).SerializeToString(),
            [_type_proto(value).SerializeToString() for value in node.inputs],
        )
        function = onnx.FunctionProto.FromString(body)
        function.domain, function.name = _OWN_DOMAIN, f"{node.op_type}_{len(made)}"
        made.append(function)
        light.opset_imports[_OWN_DOMAIN] = 1
        node.domain, node.op_type = function.domain, function.name
    return made


def _type_proto(value: onnx_ir.Value | None) -> onnx.TypeProto:
    """Empty for an input that isn't there, as the operators' definitions expect it."""
    if value is None:
        return onnx.TypeProto()
    return onnx_ir.to_proto(value).type
