"""Names of inputs, outputs and free dimensions of an exported TensorFlow model."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

Shape = Optional[tuple[Optional[int], ...]]
Named = Optional[tuple[Union[int, str], ...]]

INPUT = "modelyard_input_{}"
OUTPUT = "modelyard_output_{}"

# Sizes that no model has by chance, and that are small enough for whatever is unrolled.
_MARKS = (53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127)


def marks(symbols: Sequence[str]) -> dict[str, int]:
    """A size of its own for each symbol; a model with more symbols than there are gets fewer."""
    return dict(zip(symbols, _MARKS))


def shape(name: str, free: Shape, marked: Shape, sizes: Mapping[str, int]) -> Named:
    """An output's shape with named free dimensions.

    A dimension that is free in one shape and a symbol's number in the other is that symbol.

    Args:
        name: The output's; dimensions without a symbol are called after it.
        free: Its shape with every symbol free.
        marked: Its shape with the numbers of `sizes` in their places.
        sizes: A number for each symbol.
    """
    if free is None:
        return None
    symbols = {size: symbol for symbol, size in sizes.items()}
    others = marked if marked is not None and len(marked) == len(free) else [None] * len(free)
    plain = re.sub(r"\W+", "_", name)
    return tuple(
        own if own is not None else symbols.get(other or 0, f"{plain}_dim{axis}")
        for axis, (own, other) in enumerate(zip(free, others))
    )


def apply(
    model: Any, specs: Sequence[Any], outputs: Sequence[str], shapes: Sequence[Named]
) -> None:
    """Give inputs and outputs their final names, shapes and order, in place.

    tf2onnx's model has :data:`INPUT` and :data:`OUTPUT` names; an input that nothing reads may
    be missing from it and is put back.

    Args:
        model: The IR model, which is changed.
        specs: The inputs, in order.
        outputs: Names of the outputs, in order.
        shapes: Of the outputs; None leaves one as it is.
    """
    _set_inputs(model, specs)
    found = {value.name: value for value in model.graph.outputs}
    ordered = [found[OUTPUT.format(i)] for i in range(len(outputs))]
    model.graph.outputs.clear()
    model.graph.outputs.extend(ordered)
    for value, name, dims in zip(ordered, outputs, shapes):
        value.name = name
        if dims is not None:
            value.shape = _ir_shape(dims)
    _drop_dimension_names(model)


def _set_inputs(model: Any, specs: Sequence[Any]) -> None:
    import onnx_ir as ir

    found = {value.name: value for value in model.graph.inputs}
    model.graph.inputs.clear()
    for index, spec in enumerate(specs):
        value = found.get(INPUT.format(index))
        if value is None:
            value = ir.Value(type=ir.TensorType(_ir_dtype(spec.dtype)))
        value.name = spec.name
        value.shape = _ir_shape(spec.shape)
        model.graph.inputs.append(value)


def _ir_shape(dims: Sequence[int | str]) -> Any:
    import onnx_ir as ir

    return ir.Shape(list(dims))


def _ir_dtype(name: str) -> Any:
    import numpy as np
    import onnx_ir as ir

    if name == "bfloat16":
        return ir.DataType.BFLOAT16
    return ir.DataType.from_numpy(np.dtype(name))


def _drop_dimension_names(model: Any) -> None:
    """Drop shapes of inner values that hold generated names (``unk__53``): they say nothing."""
    edges = {id(v) for v in (*model.graph.inputs, *model.graph.outputs)}
    waiting: list[Any] = [model.graph]
    for graph in waiting:
        for node in graph:
            for value in node.outputs:
                if id(value) not in edges and value.shape is not None:
                    value.shape = _without_names(value.shape)
            waiting.extend(_subgraphs(node))


def _without_names(dims: Any) -> Any:
    return None if any(not isinstance(d, int) for d in dims) else dims


def _subgraphs(node: Any) -> list[Any]:
    import onnx_ir as ir

    found: list[Any] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            found.append(attribute.value)
        elif attribute.type == ir.AttributeType.GRAPHS:
            found.extend(attribute.value)
    return found
