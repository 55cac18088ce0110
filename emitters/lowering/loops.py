"""Gives the inputs of loop bodies the shapes that hold in every round.

ONNX lets a state's shape change from round to round, so its inference says nothing of one. Here
a state is taken to be as it starts; if a body, given that, makes another size of it, that
dimension is free inside.
"""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import all_nodes, is_op
from converter.ir.inference import Inferred, infer

_ROUNDS = 8

Found = dict[onnx_ir.Value, Inferred]


def settle_loops(model: onnx_ir.Model) -> bool:
    """Rewrites shapes in place; gives whether there are loops."""
    loops = [node for node in all_nodes(model) if is_op(node, "Loop", "Scan")]
    for node in loops:
        _begin(node)
        for _ in range(_ROUNDS):
            found = infer(model)
            if not any([_weaken(node, found)]):
                break
        else:
            _forget(node)
            found = infer(model)
        _believe(node, found)
    return bool(loops)


def _states(node: onnx_ir.Node) -> list[tuple[onnx_ir.Value | None, onnx_ir.Value, onnx_ir.Value]]:
    """Of each state: what it starts as, and the body's input and output."""
    body, first = node.attributes["body"].as_graph(), 2 if node.op_type == "Loop" else 0
    scanned = 0 if first else node.attributes["num_scan_inputs"].as_int()
    count = len(node.inputs) - first - scanned
    outputs = list(body.outputs)[1 if first else 0 :]
    inputs = list(body.inputs)[first:]
    return list(zip(node.inputs[first : first + count], inputs, outputs, strict=False))


def _begin(node: onnx_ir.Node) -> None:
    for start, inside, _ in _states(node):
        if start is not None and start.shape is not None:
            inside.shape = onnx_ir.Shape(_sizes(start.shape, inside.name))
            inside.type = inside.type or start.type
    body = node.attributes["body"].as_graph()
    if node.op_type == "Loop":
        for given, dtype in zip(
            body.inputs, (onnx_ir.DataType.INT64, onnx_ir.DataType.BOOL), strict=False
        ):
            given.shape = given.shape if given.shape is not None else onnx_ir.Shape([])
            given.type = given.type or onnx_ir.TensorType(dtype)
        return
    count = node.attributes["num_scan_inputs"].as_int()
    axes = node.attributes.get("scan_input_axes")
    places = list(axes.as_ints()) if axes is not None else [0] * count
    elements = list(body.inputs)[len(body.inputs) - count :]
    for value, inside, axis in zip(node.inputs[-count:], elements, places, strict=True):
        if value is not None and value.shape is not None:
            dims = _sizes(value.shape, value.name)
            del dims[axis % len(dims)]
            inside.shape, inside.type = onnx_ir.Shape(dims), inside.type or value.type


def _sizes(shape: onnx_ir.Shape, name: str | None) -> list[int | str]:
    """A shape whose unknown dimensions have the names that lowering gives them."""
    return [
        dim if isinstance(dim, int) else dim.value or f"{name}?{axis}"
        for axis, dim in enumerate(shape)
    ]


def _weaken(node: onnx_ir.Node, found: Found) -> bool:
    """Frees the sizes that a round changes; gives whether there were any."""
    changed = False
    for _, inside, after in _states(node):
        if inside.shape is None:
            continue
        known = found.get(after)
        made = _with_declared(known, after)
        if made is None or len(made) != len(inside.shape):
            inside.shape, changed = None, True
            continue
        dims = _sizes(inside.shape, inside.name)
        for axis, (old, new) in enumerate(zip(dims, made, strict=True)):
            free = f"{inside.name}?{axis}"
            if old != free and old != (new if isinstance(new, int) else new.value):
                dims[axis], changed = free, True
        inside.shape = onnx_ir.Shape(dims)
    return changed


def _with_declared(known: Inferred | None, value: onnx_ir.Value) -> onnx_ir.Shape | None:
    """What follows of a body's output; what doesn't, as it is declared."""
    found, own = known.shape if known is not None else None, value.shape
    if found is None or own is None or len(found) != len(own):
        return found if found is not None else own
    pairs = zip(found, own, strict=True)
    return onnx_ir.Shape(
        [old if not isinstance(new, int) and new.value is None else new for new, old in pairs]
    )


def _forget(node: onnx_ir.Node) -> None:
    for _, inside, _ in _states(node):
        inside.shape = None


def _believe(node: onnx_ir.Node, found: Found) -> None:
    """Gives the values inside, and the last states, the shapes that follow."""
    body = node.attributes["body"].as_graph()
    for inner in onnx_ir.traversal.RecursiveGraphIterator(body):
        for value in inner.outputs:
            known = found.get(value)
            if known is not None and known.shape is not None:
                value.shape = _with_declared(known, value) if value in body.outputs else known.shape
            if known is not None and value.type is None:
                value.type = known.type
    for (_, inside, _), output in zip(_states(node), node.outputs, strict=False):
        if inside.shape is not None and not output.is_graph_output():
            own = {f"{inside.name}?{axis}" for axis in range(len(inside.shape))}
            dims = [None if not isinstance(d, int) and d.value in own else d for d in inside.shape]
            output.shape = onnx_ir.Shape(dims)
