"""Brings constants to where every later step looks for them, each once.

The cases:

1. A Constant node becomes an initializer.
2. An initializer of a subgraph becomes one of the main graph, under a name that is free in
   every graph. One that is the subgraph's own output stays.
3. Of initializers with the same type, shape and bytes one is kept. A caller's inputs and the
   graph's outputs keep theirs. Mapped weights are compared without being loaded.
"""

from __future__ import annotations

import onnx_ir
import onnx_ir.passes.common as common
from onnx_ir.passes import InPlacePass, PassResult

from converter.ir.edit import same_tensor

HEAD = 64
"""Elements that tell most tensors apart before all of them are compared."""


class GatherConstants(InPlacePass):
    """Makes constants initializers of the main graph, each once."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Lifts Constant nodes and subgraphs' initializers, then shares equal ones."""
        lift = common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)
        lifted = bool(lift(model).modified)
        moved = _move_to_main(model)
        return PassResult(model, _share_equal(model.graph) or moved or lifted)


def _move_to_main(model: onnx_ir.Model) -> bool:
    subgraphs = [graph for graph in model.graphs() if graph is not model.graph]
    taken = {value.name for graph in model.graphs() for value in graph.inputs}
    taken |= {out.name for graph in model.graphs() for node in graph for out in node.outputs}
    taken |= set(model.graph.initializers)
    moved = False
    for graph in subgraphs:
        for name, value in list(graph.initializers.items()):
            if value.is_graph_input() or value.is_graph_output():
                continue
            del graph.initializers[name]
            value.name = _free_name(name, taken)
            taken.add(value.name)
            model.graph.register_initializer(value)
            moved = True
    return moved


def _free_name(name: str, taken: set[str | None]) -> str:
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _share_equal(graph: onnx_ir.Graph) -> bool:
    groups: dict[tuple[object, ...], list[onnx_ir.Value]] = {}
    shared = False
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or value.is_graph_input() or value.is_graph_output():
            continue
        alike = groups.setdefault(_looks(tensor), [])
        twin = next(
            (v for v in alike if v.const_value and same_tensor(v.const_value, tensor)), None
        )
        if twin is None:
            alike.append(value)
            continue
        value.replace_all_uses_with(twin)
        del graph.initializers[name]
        shared = True
    return shared


def _looks(tensor: onnx_ir.TensorProtocol) -> tuple[object, ...]:
    shape = tuple(dim for dim in tensor.shape if isinstance(dim, int))
    if tensor.dtype == onnx_ir.DataType.STRING:
        return tensor.dtype, shape
    return tensor.dtype, shape, tensor.numpy().reshape(-1)[:HEAD].tobytes()
