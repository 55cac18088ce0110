"""An ONNX model becomes a TFLite model: prepared, then each node by its operator's lowering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx_ir

from converter.errors import Unsupported
from converter.ir.definitions import define
from converter.ir.edit import count_of
from converter.ir.model import Model
from converter.ir.refused import Refused
from converter.passes.legalize import FAMILIES, REWRITES, why_illegal
from converter.passes.legalize.chain import LegalizingPass
from emitters.lowering import operators as shared
from emitters.lowering.channels_last import CHANNELS_LAST, SPATIAL, function, put_last
from emitters.lowering.folding import fold_constants, fold_rounds
from emitters.lowering.settled import settle_ranks
from emitters.lowering.walking import lower_each, name_nodes
from emitters.tflite.build import TENSOR_TYPES
from emitters.tflite.context import QUANT, Context, Program
from emitters.tflite.float16_constants import has_halves, store_halves
from emitters.tflite.graph import DataType, Tensor, TfliteModel
from emitters.tflite.hybrid import store_weights
from emitters.tflite.in_place import keep_apart
from emitters.tflite.linear import LINEAR, join_bias
from emitters.tflite.never import REASONS
from emitters.tflite.ops.reals import stored
from emitters.tflite.postponed import postpone
from emitters.tflite.quantized import fold_quantization
from emitters.tflite.registry import is_legal, lowering_of, operators
from emitters.tflite.simplify import tidy


@dataclass
class Lowered:
    """What lowering a model gave.

    Attributes:
        model: The TFLite model; not to be used where there are refusals.
        refusals: Every node that couldn't be lowered, and why.
        transposes: How many transposes the graph has for its layout.
        settled: What holds at the sizes that the user gave, and not at 1, in words.
    """

    model: TfliteModel
    refusals: list[Unsupported] = field(default_factory=list)
    transposes: int = 0
    settled: list[str] = field(default_factory=list)


def lower(model: Model, *, hybrid: bool = False, sizes: Mapping[str, int] | None = None) -> Lowered:
    """The model in TFLite's operators. The model stays as it is; weights are shared.

    Args:
        model: At the pipeline's opset.
        hybrid: Whether weights that DequantizeLinear gives are int8 in operators of float32 too
            (:mod:`emitters.tflite.hybrid`).
        sizes: Of free dimensions, as the user gave them: they settle how many axes there are.
    """
    legalized = Legalize(sizes or {}).apply(model)
    graph, halves = legalized.graph, has_halves(model.graph)
    transposes = count_of(graph, "Transpose")
    fold_quantization(graph)
    program = Program(graph)
    context = Context(program, "main")
    refusals = [*_unfit(graph.graph)]
    inputs = _inputs(context, graph.graph)
    lower_nodes(context, graph.graph, refusals)
    outputs: dict[str, Tensor] = {}
    if not refusals:
        outputs = _outputs(context, graph.graph.outputs, inputs)
    program.subgraphs.insert(0, context.graph)
    made = TfliteModel(program.subgraphs, inputs, outputs)
    if not refusals:
        for subgraph in made.subgraphs:
            tidy(subgraph)
            if subgraph is not context.graph:
                postpone(subgraph, program)
            keep_apart(subgraph)
        context.forget()
        if hybrid:
            store_weights(program)
        if halves:
            store_halves(program)
    return Lowered(made, refusals, transposes, legalized.told["settled"])


class Legalize(LegalizingPass):
    """Brings a model to what LiteRT has.

    Args:
        sizes: Of free dimensions, as the user gave them.
    """

    name = "legalize:tflite"

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self._sizes = sizes

    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether it is lowered as it is."""
        return is_legal(node) and lowering_of(node) is not None

    def chain(self, model: onnx_ir.Model) -> None:
        """Operators written out, constants folded, axes settled; the rewrites; then the layout:
        channels last, with as few Transposes as there can be in the whole graph."""
        if self.write_out(model, _has_no_lowering):
            name_nodes(model)
        fold_constants(model)
        self.told["settled"] = settle_ranks(model, self._sizes)
        if self.told["settled"]:
            self.assumed = model.clone()
        if self.legalize(model, _is_wanted):
            fold_rounds(model)
        self.each(model, put_last, "with channels last")
        self.whole(model, "transposes")
        self.each(model, join_bias, "with the product before it")
        opset = model.opset_imports[""]
        define(model, [LINEAR, *(function(op_type, opset) for op_type in SPATIAL)])


def _unfit(graph: onnx_ir.Graph) -> Iterator[Unsupported]:
    """Inputs and outputs that LiteRT's Python neither takes nor gives."""
    for value in dict.fromkeys((*graph.inputs, *graph.outputs)):
        if value.dtype == onnx_ir.DataType.BFLOAT16:
            reason = "LiteRT takes and gives no bfloat16"
            yield Unsupported("", value.name or "", reason, "put a Cast to float32 there")


def _inputs(context: Context, graph: onnx_ir.Graph) -> dict[str, Tensor]:
    """The tensors of the graph's inputs, by name."""
    found: dict[str, Tensor] = {}
    for value in graph.inputs:
        if value.name in graph.initializers:
            continue
        name = value.name or ""
        dtype = value.dtype or DataType.FLOAT
        shape = context.shape(value)
        tensor = Tensor(context.program.name(name), shape, dtype, quant=value.meta.get(QUANT))
        found[name] = tensor
        if dtype == DataType.FLOAT16:
            context.node = name
            tensor = context.emit("DEQUANTIZE", [tensor], shape, DataType.FLOAT)
        context.give(value, tensor)
    context.graph.inputs = list(found.values())
    return found


def lower_nodes(context: Context, graph: onnx_ir.Graph, refusals: list[Unsupported]) -> bool:
    """Lowers a graph's nodes in order; see :func:`emitters.lowering.walking.lower_each`.

    Args:
        context: Where the operators go.
        graph: The main graph, or the body of an If or Loop.
        refusals: What can't be lowered is added.

    Returns:
        Whether all are lowered.
    """
    return lower_each(graph, partial(_lower_one, context), refusals)


def _lower_one(context: Context, node: onnx_ir.Node) -> None:
    context.node = node.name or node.op_type
    lowering = lowering_of(node)
    if lowering is None or why_illegal(node) is not None:
        raise Refused(*_no_lowering(node))
    lowering.run(context, node)
    for output in shared.used_outputs(node, context.has, "TFLite"):
        _bring_to_scale(context, output)


def _bring_to_scale(context: Context, output: onnx_ir.Value) -> None:
    """Has an output's integers stand for what the graph says they do: kernels that move integers
    leave them in the scale that they had, and others give real numbers."""
    quant, tensor = output.meta.get(QUANT), context.tensor(output)
    whole = output.dtype in (DataType.INT8, DataType.UINT8)
    if quant is not None and whole and (tensor.quant is not None or tensor.dtype == DataType.FLOAT):
        context.give(output, stored(context, tensor, context.dtype(output), quant))


# -- outputs -----------------------------------------------------------------------------


def _outputs(
    context: Context, values: Sequence[onnx_ir.Value], inputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The tensors of the graph's outputs, each one of its own and called as the user does."""
    found: dict[str, Tensor] = {}
    taken: set[Tensor] = set(inputs.values())
    for value in values:
        name = value.name or ""
        context.node = name
        tensor = own_tensor(context, value, taken)
        if value.dtype == DataType.FLOAT16:
            tensor = as_half(context, tensor)
        taken.add(tensor)
        if tensor.name != name:
            context.program.names.discard(tensor.name)
            tensor.name = _claim(context, name, found.values())
        found[name] = tensor
    context.graph.outputs = list(found.values())
    return found


def own_tensor(context: Context, value: onnx_ir.Value, taken: Iterable[Tensor]) -> Tensor:
    """The tensor of a graph's output; a copy where it is an input, a constant or taken already.

    Args:
        context: The graph's.
        value: The output.
        taken: Tensors that the graph may not give: its inputs, and its outputs so far.
    """
    tensor = context.tensor(value)
    if tensor.is_constant or tensor in set(taken):
        return copy_of(context, tensor)
    return tensor


def as_half(context: Context, tensor: Tensor) -> Tensor:
    """A float16 output, of what was computed in float32."""
    types = {
        "inDataType": TENSOR_TYPES[DataType.FLOAT],
        "outDataType": TENSOR_TYPES[DataType.FLOAT16],
    }
    return context.emit("CAST", [tensor], tensor.shape, DataType.FLOAT16, options=types)


def copy_of(context: Context, tensor: Tensor) -> Tensor:
    """The same values in a tensor of their own: TFLite has no identity."""
    if tensor.rank == 0 or sum(isinstance(dim, str) for dim in tensor.shape) <= 1:
        numbers = [dim if isinstance(dim, int) else -1 for dim in tensor.shape]
        return context.emit(
            "RESHAPE",
            [tensor, context.integers(numbers)],
            tensor.shape,
            quant=tensor.quant,
            options={"newShape": np.asarray(numbers, np.int32)},
        )
    perm = context.integers(range(tensor.rank))
    return context.emit("TRANSPOSE", [tensor, perm], tensor.shape, quant=tensor.quant)


def _claim(context: Context, name: str, others: Iterable[Tensor]) -> str:
    """The output's name; an inner tensor that has it gets another."""
    for operator in context.graph.operators:
        for tensor in (*operator.inputs, *operator.outputs):
            if tensor is not None and tensor.name == name and tensor not in set(others):
                tensor.name = context.program.name(f"{name}_inner")
    context.program.names.add(name)
    return name


def unsupported_operators(model: onnx_ir.Model) -> list[Unsupported]:
    """Nodes whose operator has no lowering at all: what can be said before simplifying."""
    return shared.unsupported_operators(model, operators() | REWRITES.keys(), _no_lowering)


def _has_no_lowering(node: onnx_ir.Node) -> bool:
    return node.op_type not in operators() | REWRITES.keys()


_PASSED = {*FAMILIES["normalization"], *FAMILIES["integers"]}
"""Operators that transposes pass once they are written as simpler ones."""


def _is_wanted(node: onnx_ir.Node) -> bool:
    return is_legal(node) and node.op_type not in _PASSED


def _no_lowering(node: onnx_ir.Node) -> tuple[str, str]:
    why = why_illegal(node)
    if why is not None:
        return why.reason, why.hint
    domain = "" if node.domain in ("", "ai.onnx", CHANNELS_LAST) else f"{node.domain}::"
    reason = REASONS.get(node.op_type) if domain in ("", "ai.onnx.ml::") else None
    return (
        f"there is no lowering of {domain}{node.op_type} to TFLite"
        + (f": {reason}" if reason else ""),
        "replace it with operators that there is one for, or cut the model before it (--output)",
    )
