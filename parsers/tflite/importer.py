"""A TFLite model becomes an ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir
import onnx_ir.passes.common

from converter.errors import ModelError, Unsupported, UnsupportedError
from converter.ir.inference import infer
from converter.ir.model import BATCH, IR_VERSION, OPSET
from parsers.tflite.builder import Builder, UniqueNames, tensor_type
from parsers.tflite.context import Scope
from parsers.tflite.lowering import Lowerer, tensor_value
from parsers.tflite.model import Subgraph, Tensor, TfliteModel
from parsers.tflite.registry import Refusal

_COUNTING = frozenset({"WHERE", "UNIQUE", "RANGE"})
"""Operators whose results are as many as their contents say."""


def unsupported(model: TfliteModel, subgraph: int) -> list[Unsupported]:
    """Everything in a subgraph, and in those it runs, that ONNX can't express here.

    It is what lowering it all comes to, so nothing that is listed can be a surprise later,
    and nothing else will be. ``node`` holds the operator's number and its output's name.
    """
    main = model.subgraphs[subgraph]
    tensors = {i: main.tensors[i] for i in main.inputs}
    refused, inputs = _typed_inputs({f"tensor_{i}": i for i in main.inputs}, tensors)
    lowerer = Lowerer(model)
    scope = lowerer.run(subgraph, Builder(UniqueNames()), inputs)
    return [*refused, *lowerer.unsupported, *_unsupported_outputs(scope, main.outputs)]


def import_model(
    model: TfliteModel, subgraph: int, inputs: Mapping[str, int], outputs: Mapping[str, int]
) -> onnx_ir.Model:
    """The ONNX model, opset :data:`converter.ir.model.OPSET`, of one subgraph.

    Inputs and outputs are what the file stores: the integers of quantized ones. Free
    dimensions get symbols: ``batch`` for the first, ``NAME_dimN`` for others.

    Args:
        model: The file; resource variables are inputs and outputs already.
        subgraph: Its number.
        inputs: Tensor numbers by the names that the inputs shall have, in order.
        outputs: Tensor numbers by the names that the outputs shall have, in order.

    Raises:
        UnsupportedError: With everything that can't be lowered.
        ModelError: An input of the subgraph has no name in ``inputs``.
    """
    main = model.subgraphs[subgraph]
    names = UniqueNames([*inputs, *outputs])
    builder = Builder(names)
    refused, given = _typed_inputs(inputs, {i: main.tensors[i] for i in inputs.values()})
    lowerer = Lowerer(model)
    scope = lowerer.run(subgraph, builder, given)
    refused += [*lowerer.unsupported, *_unsupported_outputs(scope, outputs.values())]
    if refused:
        raise UnsupportedError(
            f"converting this TFLite model to ONNX: {len(refused)} of its operators aren't "
            "supported",
            refused,
        )
    missing = [i for i in main.inputs if i not in given and main.tensors[i].data is None]
    if missing:
        raise ModelError(
            f"importing subgraph {subgraph}: inputs {missing} have no names, expected all of "
            f"{list(main.inputs)}",
            code="model-invalid",
        )
    results = _named_outputs(scope, builder, outputs, list(given.values()))
    graph = onnx_ir.Graph(
        list(given.values()),
        results,
        nodes=builder.nodes,
        initializers=builder.initializers,
        opset_imports={"": OPSET},
        name=main.name or "main",
    )
    made = onnx_ir.Model(graph, ir_version=IR_VERSION, producer_name="modelyard")
    # a lowering may have looked at a value that it then had no use for
    onnx_ir.passes.common.RemoveUnusedNodesPass()(made)
    _settle_outputs(made, main)
    return made


def _typed_inputs(
    names: Mapping[str, int], tensors: Mapping[int, Tensor]
) -> tuple[list[Unsupported], dict[int, onnx_ir.Value]]:
    """A graph input for each name, by tensor number, and those that ONNX has no type for."""
    refused, values = [], {}
    for name, number in names.items():
        tensor = tensors[number]
        try:
            kind = tensor_type(tensor.dtype)
            values[number] = onnx_ir.Value(name=name, type=kind, shape=_shape(name, tensor))
        except Refusal as refusal:
            refused.append(Unsupported(tensor.name or name, "input", refusal.reason))
            values[number] = onnx_ir.Value(name=name)
    return refused, values


def _unsupported_outputs(scope: Scope, numbers: Iterable[int]) -> list[Unsupported]:
    """The outputs that nothing computes, or that ONNX has no type for."""
    refused = []
    for tensor in (scope.subgraph.tensors[number] for number in numbers):
        try:
            tensor_value(scope, tensor.index)
            tensor_type(tensor.dtype)
        except Refusal as refusal:
            refused.append(Unsupported(tensor.name, "output", refusal.reason))
    return refused


def _shape(name: str, tensor: Tensor) -> onnx_ir.Shape:
    free = [BATCH, *(f"{name}_dim{i}" for i in range(1, len(tensor.shape)))]
    return onnx_ir.Shape([free[i] if size < 0 else size for i, size in enumerate(tensor.shape)])


def _named_outputs(
    scope: Scope, builder: Builder, outputs: Mapping[str, int], taken: list[onnx_ir.Value]
) -> list[onnx_ir.Value]:
    """The outputs under their names; what is an input, a constant or an output already is
    copied, since a value has one name."""
    builder.prefix = ""
    results: list[onnx_ir.Value] = []
    for name, number in outputs.items():
        tensor: Tensor = scope.subgraph.tensors[number]
        value = tensor_value(scope, number)
        if value.producer() is None or value in results or value in taken:
            value = builder.add("Identity", [value]).outputs[0]
        value.name = name
        value.type = tensor_type(tensor.dtype)
        value.shape = _shape(name, tensor)
        results.append(value)
    return results


def _settle_outputs(made: onnx_ir.Model, main: Subgraph) -> None:
    """Gives free dimensions of outputs the symbols of the inputs that they follow from.

    Where inference can't tell, a first dimension is taken for the batch if that is what all
    inputs start with; not where the file has results as many as their contents say.
    """
    inferred = infer(made)
    starts = {str(value.shape[0]) for value in made.graph.inputs if value.shape}
    is_batch = starts == {BATCH} and _COUNTING.isdisjoint(item.name for item in main.operators)
    for output in made.graph.outputs:
        assert output.shape is not None
        known = inferred[output].shape if output in inferred else None
        for axis, dim in enumerate(output.shape):
            if isinstance(dim, int):
                continue
            follows = known[axis] if known is not None and axis < len(known) else None
            if follows is not None and _is_known(follows):
                output.shape[axis] = follows
            elif axis == 0 and not is_batch:
                output.shape[axis] = f"{output.name}_dim0"


def _is_known(dim: int | onnx_ir.SymbolicDim) -> bool:
    return isinstance(dim, int) or dim.value is not None
