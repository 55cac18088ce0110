"""Makes constants of what follows from constants and from known shapes, before lowering.

A model that was simplified has next to none of these left; one that wasn't would need
operators on shapes at run time, and constant axes, paddings and shapes would look computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from converter.errors import ModelError
from converter.ir.edit import add_constant, all_nodes, constant_tensor, constant_value, is_op
from converter.ir.equal_sizes import name_equal_sizes, name_unknown
from converter.ir.facts import RANDOM
from converter.ir.inference import infer
from converter.runtime.ort import OrtSession
from emitters.lowering.resized import name_resized

Array = np.ndarray[Any, Any]

LARGEST = 1 << 20
"""Elements above which a result isn't computed here."""

_ROUNDS = 32


def fold_constants(model: onnx_ir.Model) -> None:
    """Rewrites the model in place; types and shapes are those that follow then.

    Q and DQ of constants stay: they say what integers stand for.
    """
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    if _has_bodies(model):
        _fold_with_bodies(model)
    else:
        fold_rounds(model)
    name_unknown(model)
    name_resized(model)
    name_equal_sizes(model)


def _has_bodies(model: onnx_ir.Model) -> bool:
    """Whether there is an If, a Loop or a Scan."""
    return any(graph is not model.graph for graph in model.graphs())


def _fold_with_bodies(model: onnx_ir.Model) -> None:
    from emitters.lowering.loops import settle_loops
    from emitters.lowering.subgraphs import bring_constants_in

    bring_constants_in(model)
    fold_rounds(model)
    if settle_loops(model):
        fold_rounds(model)


def fold_rounds(model: onnx_ir.Model, *, branches: bool = True) -> None:
    """Folds until nothing more follows; Ifs stay as they are without ``branches``."""
    for _ in range(_ROUNDS):
        fill_in(model)
        folded = [_fold(node, model, graph) for graph in model.graphs() for node in graph]
        taken = branches and _has_bodies(model) and _take_known_branches(model)
        if not taken and not any(folded):
            return
    fill_in(model)


def _take_known_branches(model: onnx_ir.Model) -> bool:
    from emitters.lowering.subgraphs import take_known_branches

    return take_known_branches(model)


def fill_in(model: onnx_ir.Model) -> None:
    """Gives every value the type and shape that follow, where its own say less."""
    for value, known in infer(model).items():
        if value.type is None:
            value.type = known.type
        if known.shape is None:
            continue
        if value.shape is None or (not value.is_graph_output() and _knows_more(known.shape, value)):
            value.shape = known.shape
    renamed: dict[str, onnx_ir.SymbolicDim] = {}
    for node in all_nodes(model):
        if is_op(node, "Reshape", "Flatten"):
            _complete(node, renamed)
    for value in model.graph.inputs:
        for dim in value.shape or ():
            renamed.pop("" if isinstance(dim, int) else dim.value or "", None)
    if renamed:
        _rename(model, renamed)


def _rename(model: onnx_ir.Model, renamed: Mapping[str, onnx_ir.SymbolicDim]) -> None:
    """Gives dimensions the names that they have now, behind the nodes that say so too."""

    def now(dim: int | onnx_ir.SymbolicDim) -> int | onnx_ir.SymbolicDim:
        for _ in renamed:
            dim = dim if isinstance(dim, int) else renamed.get(dim.value or "", dim)
        return dim

    for node in all_nodes(model):
        for value in node.outputs:
            if value.shape is not None and not value.is_graph_output():
                dims = [now(dim) for dim in value.shape]
                if dims != list(value.shape):
                    value.shape = onnx_ir.Shape(dims)


def _knows_more(shape: onnx_ir.Shape, value: onnx_ir.Value) -> bool:
    """Whether ``shape`` has sizes that a value's own doesn't."""
    own = value.shape
    return (
        own is not None
        and len(own) == len(shape)
        and any(
            isinstance(new, int) and not isinstance(old, int)
            for new, old in zip(shape, own, strict=True)
        )
    )


def _complete(node: onnx_ir.Node, renamed: dict[str, onnx_ir.SymbolicDim]) -> None:
    """The one unknown size of a reshaped tensor, where it is that of the input's one symbol; what
    it was called is added to ``renamed``.

    Given:   [batch, 320, 1, 1] -> [?, 320]      Result:  [batch, 320]
    """
    source, output = node.inputs[0], node.outputs[0]
    if source is None or source.shape is None or output.shape is None:
        return
    symbols = [dim for dim in source.shape if not isinstance(dim, int)]
    unknown = [axis for axis, dim in enumerate(output.shape) if not isinstance(dim, int)]
    if len(symbols) != 1 or len(unknown) != 1 or symbols[0].value is None:
        return
    if _product(source.shape) == _product(output.shape):
        dims = list(output.shape)
        old, dims[unknown[0]] = dims[unknown[0]], symbols[0]
        if not isinstance(old, int) and old.value not in (None, symbols[0].value):
            renamed[str(old.value)] = symbols[0]
        if not output.is_graph_output():
            output.shape = onnx_ir.Shape(dims)


def _product(shape: onnx_ir.Shape) -> int:
    """Of the sizes that are known."""
    return int(np.prod([dim for dim in shape if isinstance(dim, int)]))


# -- folding -----------------------------------------------------------------------------


def _fold(node: onnx_ir.Node, model: onnx_ir.Model, graph: onnx_ir.Graph) -> bool:
    """Makes initializers of a node's outputs, where they can be computed."""
    if (
        is_op(node, "Constant", "QuantizeLinear", "DequantizeLinear")
        or node.domain not in _STANDARD
    ):
        return False
    if node.op_type in RANDOM or any(out.is_graph_output() for out in node.outputs):
        return False
    results = _of_shape(node)
    if results is None:
        results = _computed(node, model)
    if results is None:
        return False
    for output, array in zip(node.outputs, results, strict=False):
        if output.uses():
            _become(output, array, graph)
    graph.remove(node, safe=True)
    return True


_STANDARD = ("", "ai.onnx")
_GROWING = frozenset({"ConstantOfShape", "Expand", "Pad", "Resize", "Tile"})
"""Operators that make much of little: only computed where it is known how much."""


def _of_shape(node: onnx_ir.Node) -> list[Array] | None:
    """What Shape and Size give, and Gather and Slice of a Shape, where the sizes that they ask for
    are known: the others may be free."""
    sizes = _sizes(node)
    maker = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    if sizes is None and maker is not None and is_op(node, "Gather", "Slice"):
        shape = _sizes(maker) if is_op(maker, "Shape") else None
        sizes = _picked(node, shape) if shape is not None else None
    if sizes is None or any(size is None for size in np.ravel(sizes)):
        return None
    whole = sizes.astype(np.int64)
    return [np.asarray(whole.prod(), np.int64) if node.op_type == "Size" else whole]


def _sizes(node: onnx_ir.Node) -> Array | None:
    """The sizes that a Shape or Size asks for, None for each that is free: a vector of objects."""
    source = node.inputs[0] if node.inputs else None
    if not is_op(node, "Shape", "Size") or source is None or source.shape is None:
        return None
    start, end = (node.attributes.get(name) for name in ("start", "end"))
    first = start.as_int() if start is not None else None
    dims = list(source.shape)[first : end.as_int() if end is not None else None]
    return np.asarray([dim if isinstance(dim, int) else None for dim in dims], object)


def _picked(node: onnx_ir.Node, sizes: Array) -> Array | None:
    """What a Gather or Slice takes of a vector; None where it isn't constant what."""
    settings = [constant_tensor(value) for value in node.inputs[1:]]
    if any(tensor is None for tensor in settings):
        return None
    numbers = [tensor.numpy() for tensor in settings if tensor is not None]
    if node.op_type == "Gather":
        places = numbers[0]
        if places.size == 0 or places.min() < -sizes.size or places.max() >= sizes.size:
            return None
        return np.asarray(sizes[places], object)
    if any(array.size != 1 for array in numbers):
        return None
    start, end = (int(array.item()) for array in numbers[:2])
    step = int(numbers[3].item()) if len(numbers) > 3 else 1
    return sizes[start:end:step] if step > 0 else None


def _computed(node: onnx_ir.Node, model: onnx_ir.Model) -> list[Array] | None:
    """A node's outputs, all of whose inputs are constants."""
    stored = [constant_tensor(value) for value in node.inputs if value is not None]
    if not node.inputs or any(tensor is None for tensor in stored) or _has_graph(node):
        return None
    known = [tensor for tensor in stored if tensor is not None]
    if any(tensor.size > LARGEST or tensor.dtype == onnx_ir.DataType.STRING for tensor in known):
        return None
    sizes = [_size(output) for output in node.outputs if output.name]
    if any((size is None and node.op_type in _GROWING) or (size or 0) > LARGEST for size in sizes):
        return None
    return evaluated(node, model)


def _size(value: onnx_ir.Value) -> int | None:
    if value.shape is None or not all(isinstance(dim, int) for dim in value.shape):
        return None
    return int(np.prod([int(dim) for dim in value.shape if isinstance(dim, int)]))


def evaluated(node: onnx_ir.Node, model: onnx_ir.Model) -> list[Array] | None:
    """What a node of constant inputs gives, by ONNX Runtime, which is what checks compare with;
    None where it has no kernel for it."""
    alone = _alone(node, model)
    try:
        session = OrtSession(alone, plain=True)
        results = session.run({})
        session.close()
    except ModelError:  # it stays a node, and is lowered or refused like any other
        return None
    return [results[output.name or ""] for output in alone.graph.outputs]


def _alone(node: onnx_ir.Node, model: onnx_ir.Model) -> onnx_ir.Model:
    """A model of nothing but the node, its inputs initializers."""
    inputs: dict[onnx_ir.Value, onnx_ir.Value] = {}
    for value in filter(None, node.inputs):
        tensor = constant_tensor(value)
        assert tensor is not None
        inputs[value] = constant_value(value.name or "", tensor)
    new = onnx_ir.Node(
        node.domain,
        node.op_type,
        [inputs.get(value) if value is not None else None for value in node.inputs],
        node.attributes.values(),
        num_outputs=len(node.outputs),
    )
    for output, old in zip(new.outputs, node.outputs, strict=True):
        output.name, output.type = old.name or "", old.type
    given = [output for output in new.outputs if output.name]
    graph = onnx_ir.Graph(
        [],
        given,
        nodes=[new],
        initializers=list(inputs.values()),
        opset_imports=dict(model.opset_imports),
        name="one",
    )
    return onnx_ir.Model(graph, ir_version=model.ir_version)


def _has_graph(node: onnx_ir.Node) -> bool:
    kinds = (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS)
    return any(attribute.type in kinds for attribute in node.attributes.values())


def _become(output: onnx_ir.Value, array: Array, graph: onnx_ir.Graph) -> None:
    """Has an initializer stand for what a node gave."""
    output.replace_all_uses_with(add_constant(graph, f"{output.name}_folded", array))
