"""Operators that run subgraphs: IF, WHILE, CALL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from parsers.tflite.builder import Builder, tensor_type
from parsers.tflite.context import Context
from parsers.tflite.registry import lowers


@lowers("CALL")
def call(ctx: Context) -> None:
    """The subgraph in the place of the call."""
    inputs = [ctx.raw(i) for i in range(ctx.n_inputs)]
    scope = ctx.scope
    for i, value in enumerate(scope.lowerer.call(ctx.option("subgraph"), scope.builder, inputs)):
        ctx.set_raw(i, value)


@lowers("IF")
def if_(ctx: Context) -> None:
    """If. Its branches see the values around them, so they take no inputs."""
    condition = ctx.raw(0)
    given = [ctx.raw(i) for i in range(1, ctx.n_inputs)]
    branches = {}
    for attribute, option in (
        ("then_branch", "thenSubgraphIndex"),
        ("else_branch", "elseSubgraphIndex"),
    ):
        number, body = int(ctx.option(option)), ctx.scope.builder.inner()
        results = ctx.scope.lowerer.call(number, body, given)
        if len(results) != ctx.n_outputs:
            ctx.refuse(f"a branch with {len(results)} results, expected {ctx.n_outputs}")
        branches[attribute] = _graph(ctx, number, body, [], results)
    outputs = ctx.scope.builder.add("If", [condition], ctx.n_outputs, **branches).outputs
    for i, value in enumerate(outputs):
        ctx.set_raw(i, value)


@lowers("WHILE")
def while_(ctx: Context) -> None:
    """Loop without a limit. The condition is computed before it, and again at the end of its
    body, where ONNX wants it."""
    condition, number = int(ctx.option("condSubgraphIndex")), int(ctx.option("bodySubgraphIndex"))
    lowerer, builder = ctx.scope.lowerer, ctx.scope.builder
    initial = [ctx.raw(i) for i in range(ctx.n_inputs)]
    first = _scalar(builder, lowerer.call(condition, builder, initial)[0])
    body = builder.inner()
    carried = [_carried(ctx, body, i) for i in range(ctx.n_inputs)]
    results = lowerer.call(number, body, carried)
    if len(results) != len(carried):
        ctx.refuse(f"a body with {len(results)} results for {len(carried)} values")
    again = _scalar(body, lowerer.call(condition, body, results)[0])
    counters = [_input(body, "iteration", "int64"), _input(body, "condition", "bool")]
    graph = _graph(ctx, number, body, [*counters, *carried], results, again)
    inputs = [None, first, *initial]
    for i, value in enumerate(builder.add("Loop", inputs, len(initial), body=graph).outputs):
        ctx.set_raw(i, value)


def _carried(ctx: Context, body: Builder, i: int) -> onnx_ir.Value:
    value = _input(body, f"carried_{i}", ctx.input(i).dtype)
    value.shape = None  # it may grow from one iteration to the next
    return value


def _input(body: Builder, name: str, dtype: str) -> onnx_ir.Value:
    name = body.names.unique(f"{body.prefix}/{name}")
    return onnx_ir.Value(name=name, type=tensor_type(dtype), shape=onnx_ir.Shape([]))


def _scalar(builder: Builder, condition: onnx_ir.Value) -> onnx_ir.Value:
    """The condition without dimensions; the file may have it as one element of a vector."""
    shape = builder.const(np.array([], np.int64))
    return builder.add("Reshape", [condition, shape]).outputs[0]


def _graph(
    ctx: Context,
    number: int,
    body: Builder,
    inputs: Sequence[onnx_ir.Value],
    results: Sequence[onnx_ir.Value],
    condition: onnx_ir.Value | None = None,
) -> onnx_ir.Graph:
    """A body. What it returns has to be computed in it, each once, so what isn't is copied."""
    subgraph = ctx.scope.lowerer.model.subgraphs[number]
    made = {value for node in body.nodes for value in node.outputs}
    outputs: list[onnx_ir.Value] = []
    if condition is not None:
        condition.type = tensor_type("bool")
        outputs.append(condition)
    for value, tensor in zip(results, subgraph.outputs, strict=True):
        if value not in made or value in outputs:
            value = body.add("Identity", [value]).outputs[0]
        value.type = tensor_type(subgraph.tensors[tensor].dtype)
        outputs.append(value)
    name = body.names.unique(subgraph.name or f"subgraph_{number}")
    return onnx_ir.Graph(inputs, outputs, nodes=body.nodes, name=name)
