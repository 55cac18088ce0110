"""Takes over a graph that a library made of a model."""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import same_tensor


def adopt(model: onnx_ir.Model, result: onnx_ir.Model) -> None:
    """Makes ``model`` hold the graph that a library gave back, in place.

    What the library may have rewritten on the way is put back: declared types and shapes of
    inputs and outputs, the order of the domains, and every weight that still has its bytes is
    the very tensor that ``model`` had, so that mapped weights stay mapped.
    """
    declared = {v.name: v for v in (*model.graph.inputs, *model.graph.outputs)}
    for value in (*result.graph.inputs, *result.graph.outputs):
        old = declared.get(value.name)
        if old is not None and old.dtype == value.dtype:
            value.shape = old.shape.copy() if old.shape is not None else None
            value.type = old.type
    _share_tensors(model, result)
    result.graph.name = model.graph.name
    result.graph.doc_string = model.graph.doc_string
    model.graph = result.graph
    model.functions.clear()
    model.functions.update(result.functions)
    model.ir_version = result.ir_version


def _share_tensors(model: onnx_ir.Model, result: onnx_ir.Model) -> None:
    known = {
        name: value.const_value
        for graph in model.graphs()
        for name, value in graph.initializers.items()
    }
    for graph in result.graphs():
        for name, value in graph.initializers.items():
            old, new = known.get(name), value.const_value
            if old is not None and new is not None and old is not new and same_tensor(old, new):
                value.const_value = old
