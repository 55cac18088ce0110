"""Fits nodes to the types that ONNX, and ONNX Runtime's kernels, have their operators for.

Exporters write operators for integers and truth values that ONNX has for floats alone, and ONNX
Runtime lacks kernels for some that are right. Others say what such a node means.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
import onnx_ir
from onnx_ir import DataType

from converter.ir.edit import all_nodes
from converter.ir.inference import infer
from converter.passes.opset.edit import Edit, FreshNames

_INTEGERS = frozenset({
    DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64,
    DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64,
})  # fmt: skip

_NO_KERNEL = ("DepthToSpace", "ScatterElements", "ScatterND", "Unique")
"""Operators that ONNX has for truth values, and runtimes haven't; of those that scatter, with a
reduction."""


def fit_types(model: onnx_ir.Model) -> bool:
    """Rewrites nodes whose types have no operator, or no kernel; whether there were any.

    Cases:
        1. Where on truth values becomes And, Or and Not.
        2. Integers that are rounded stay as they are.
        3. IsNaN, IsInf, Softmax and LogSoftmax of integers take floats.
        4. Relu and Gemm of integers become Max, and MatMul and Add.
        5. Other operators on truth values take integers, and give truth values again: a sum isn't
           0 where one of its terms is true.

    Args:
        model: Its values have the types that the exporter declares; where none is declared and it
            matters, it is inferred.
    """
    nodes = [n for n in all_nodes(model) if n.domain in ("", "ai.onnx") and any(n.inputs)]
    asked = [node for node in nodes if node.op_type in (*_RULES, *_NO_KERNEL)]
    unknown = any(value is not None and value.dtype is None for n in asked for value in n.inputs)
    inferred = infer(model) if unknown else {}
    types = {value: found.type.dtype for value, found in inferred.items() if found.type}
    version, names, changed = model.opset_imports.get("", 0), FreshNames(model), False
    for node in nodes:
        given = [types.get(v, v.dtype) if v is not None else None for v in node.inputs]
        if not {*given}.isdisjoint({*_INTEGERS, DataType.BOOL}):
            edit = Edit(node, version, inferred, names)
            rule = _RULES.get(node.op_type)
            changed |= bool(rule and rule(edit, given)) or _as_integers(edit, given)
    return changed


Types = list[DataType | None]


def _where(edit: Edit, types: Types) -> bool:
    if types[1] != DataType.BOOL:
        return False
    condition, chosen, other = edit.inputs(3)
    first = edit.op("And", condition, chosen)
    edit.become("Or", first, edit.op("And", edit.op("Not", condition), other))
    return True


def _round(edit: Edit, types: Types) -> bool:
    if types[0] not in {*_INTEGERS, DataType.BOOL}:
        return False
    edit.become("Identity", *edit.inputs(1))
    return True


def _float(edit: Edit, types: Types) -> bool:
    if types[0] not in {*_INTEGERS, DataType.BOOL}:
        return False
    given = edit.op("Cast", *edit.inputs(1), to=DataType.FLOAT)
    edit.update(inputs=[given])
    return True


def _relu(edit: Edit, types: Types) -> bool:
    if types[0] != DataType.INT64:
        return False
    edit.become("Max", *edit.inputs(1), edit.constant(np.array(0, np.int64)))
    return True


def _gemm(edit: Edit, types: Types) -> bool:
    factors = [edit.number(name, 1.0) for name in ("alpha", "beta")]
    if types[0] not in _INTEGERS or not all(factor.is_integer() for factor in factors):
        return False
    kind = types[0].numpy()
    first, second = (
        edit.op("Transpose", value, perm=[1, 0]) if edit.integer(name, 0) else value
        for value, name in zip(edit.inputs(2), ("transA", "transB"), strict=True)
    )
    terms = [edit.op("MatMul", first, second), *filter(None, edit.node.inputs[2:])]
    scaled = [
        term if factor == 1 else edit.op("Mul", term, edit.constant(np.array(factor, kind)))
        for term, factor in zip(terms, factors, strict=False)
    ]
    edit.become("Add" if len(scaled) == 2 else "Identity", *scaled)
    return True


_RULES: dict[str, Callable[[Edit, Types], bool]] = {
    "Where": _where, "Relu": _relu, "Gemm": _gemm,
    **dict.fromkeys(("Ceil", "Floor", "Round"), _round),
    **dict.fromkeys(("IsNaN", "IsInf", "Softmax", "LogSoftmax"), _float),
}  # fmt: skip


def _as_integers(edit: Edit, types: Types) -> bool:
    """Has an operator on truth values take integers, where it takes no truth values."""
    node = edit.node
    kinds = [_kind(node.op_type, edit.version, place, outputs=False) for place in range(len(types))]
    refused = {
        name
        for (name, allowed), given in zip(kinds, types, strict=True)
        if given == DataType.BOOL and ("tensor(bool)" not in allowed or _lacks_kernel(edit))
    }
    if not refused:
        return False
    made = [_kind(node.op_type, edit.version, place, outputs=True)[0] in refused
            for place in range(len(node.outputs))]  # fmt: skip
    wanted = [value.dtype or DataType.BOOL if own else None
              for value, own in zip(node.outputs, made, strict=True)]  # fmt: skip
    allowed = next(allowed for name, allowed in kinds if name in refused)
    declared = [kind for kind in wanted if kind in _INTEGERS and kind is not None]
    order = (*declared, DataType.INT32, DataType.INT64, DataType.FLOAT)
    number = next((kind for kind in order if f"tensor({kind.name.lower()})" in allowed), None)
    if number is None:
        return False
    edit.update(inputs=[
        edit.op("Cast", value, to=number)
        if value is not None and name in refused and given == DataType.BOOL else value
        for value, (name, _), given in zip(node.inputs, kinds, types, strict=True)
    ])  # fmt: skip
    for value, kind in zip(node.outputs, wanted, strict=True):
        if kind is not None and kind != number:
            _cast_after(edit, value, number, kind)
    return True


def _cast_after(edit: Edit, value: onnx_ir.Value, number: DataType, kind: DataType) -> None:
    """Has what uses an output get it as it was declared."""
    node = onnx_ir.Node("", "Cast", [value], [onnx_ir.AttrInt64("to", kind)], num_outputs=1)
    edit.node.append(node)
    cast = node.outputs[0]
    cast.name, value.name = value.name, None
    cast.type, cast.shape = onnx_ir.TensorType(kind), value.shape
    value.type = onnx_ir.TensorType(number)
    value.replace_all_uses_with(cast, replace_graph_outputs=True)
    node.replace_input_with(0, value)


def _lacks_kernel(edit: Edit) -> bool:
    scatters = edit.node.op_type.startswith("Scatter")
    return edit.node.op_type in _NO_KERNEL and (
        not scatters or edit.text("reduction", "none") != "none"
    )


@cache
def _kind(op_type: str, version: int, place: int, *, outputs: bool) -> tuple[str, frozenset[str]]:
    """The name of the type that an operator has at a place, and what types that may be; for what
    ONNX doesn't know, any."""
    try:
        schema = onnx.defs.get_schema(op_type, version)
    except onnx.defs.SchemaError:
        return "", frozenset({"tensor(bool)"})
    own = schema.outputs if outputs else schema.inputs
    parameter = own[min(place, len(own) - 1)]
    return parameter.type_str, frozenset(parameter.types)
