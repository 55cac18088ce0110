"""Types and shapes that follow from a model's inputs, whatever the model declares itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx
import onnx_ir

from converter.ir.inferable import make_inferable
from converter.ir.weight_placeholders import without_weights

_WITHHELD = 1 << 16

MADE_UP = "unk__"
"""How the symbols begin that ONNX's inference makes up."""


@dataclass(frozen=True)
class Inferred:
    """What ONNX's shape inference says of a value.

    Attributes:
        type: Its type; None where nothing is known.
        shape: Its shape, with symbols of the inputs where they carry through and None for
            a dimension that is unknown; None where even the rank is unknown.
    """

    type: onnx_ir.TypeProtocol | None
    shape: onnx_ir.Shape | None


def infer(
    model: onnx_ir.Model, *, strict: bool = False, made_up: bool = False
) -> dict[onnx_ir.Value, Inferred]:
    """Infers the type and shape of every value that a node computes, in subgraphs too.

    Declared types and shapes of inner values and of outputs are not believed: only those of
    inputs and initializers are. The model is left as it is, and no large weight is copied.

    Args:
        model: The model.
        strict: Whether a node that contradicts itself is an error.
        made_up: Whether dimensions that only this run knows to be the same keep the symbols
            that inference makes up for them (``unk__0``), rather than None.

    Raises:
        onnx.shape_inference.InferenceError: with ``strict``, a node contradicts itself.
    """
    light, _ = without_weights(model, _WITHHELD)
    for value in _computed(light):
        value.shape = None
        if not value.is_graph_output():
            value.type = None
    make_inferable(light)
    proto = onnx_ir.to_proto(light)
    for output in proto.graph.output:
        if output.type.WhichOneof("value") is None:
            output.ClearField("type")
    try:
        inferred = onnx.shape_inference.infer_shapes(
            proto, strict_mode=strict, data_prop=_short_lists(model)
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        if strict:
            raise
        return {value: Inferred(None, None) for value in _computed(model)}  # it can't tell
    result = onnx_ir.from_proto(inferred)
    found: dict[onnx_ir.Value, Inferred] = {}
    for graph, other in zip(model.graphs(), result.graphs(), strict=True):
        by_name = {value.name: value for value in _computed_in(other)}
        for value in _computed_in(graph):
            same = by_name.get(value.name)
            found[value] = Inferred(
                same.type if same is not None else None,
                (same.shape if made_up else _known(same.shape)) if same is not None else None,
            )
    return found


_LONGEST = 1 << 16


def _short_lists(model: onnx_ir.Model) -> bool:
    """Whether ONNX's data propagation has room: it writes out every number of a list, and a few
    Concats of a list with itself make one of terabytes."""
    lengths: dict[onnx_ir.Value | None, int] = {}
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.initializers.values()):
            if value.shape is not None and len(value.shape) == 1:
                lengths[value] = size if isinstance(size := value.shape[0], int) else 1
        for node in graph:
            parts = [lengths.get(value, 1) for value in node.inputs]
            length = sum(parts) if node.op_type == "Concat" else max(parts, default=1)
            if node.op_type == "Concat" and length > _LONGEST:
                return False
            lengths.update((output, length) for output in node.outputs)
    return True


def _known(shape: onnx_ir.Shape | None) -> onnx_ir.Shape | None:
    """A shape without the symbols that inference itself makes up (``unk__0``)."""
    if shape is None:
        return None
    dims: list[int | str | None] = []
    for dim in shape:
        name = dim if isinstance(dim, int) else dim.value
        made_up = isinstance(name, str) and name.startswith(MADE_UP)
        dims.append(None if made_up else name)
    return onnx_ir.Shape(dims)


def _computed(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    for graph in model.graphs():
        yield from _computed_in(graph)


def _computed_in(graph: onnx_ir.Graph) -> Iterator[onnx_ir.Value]:
    for node in graph:
        yield from (output for output in node.outputs if output.name)
