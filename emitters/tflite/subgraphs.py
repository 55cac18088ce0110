"""Graphs within the graph: TFLite's IF and WHILE, and what their bodies take from outside.

A body of ONNX's If, Loop or Scan may use any value of the graphs around it. A TFLite subgraph sees
nothing but its inputs: a :class:`Body` turns each outer tensor that is asked for into an input of
its own, and the operator passes that in behind its states. Constants are simply had again.

A loop that isn't ONNX's, such as one over the steps of a recurrent operator, is written so:

    def more(body: Body, states: list[Tensor]) -> Tensor:           # bool, of no axes
        return build.binary(body, "LESS", states[0], body.integer(steps), DataType.BOOL)

    def step(body: Body, states: list[Tensor]) -> list[Tensor]:     # each as it was: shape, dtype
        number, hidden = states
        x = body.capture(xs)                                        # a tensor of ``context``
        ...
        return [build.binary(body, "ADD", number, body.integer(1)), hidden]

    number, hidden = loop(context, [context.constant(np.asarray(0, np.int32)), start], more, step)

``body`` is a Context: build.* and kernels.* work with it. Tensors of the outer context go through
``body.capture`` first; values, and sizes of free dimensions, are captured by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx_ir

from converter.errors import Unsupported
from converter.ir.refused import RefusedInside
from emitters.lowering.walking import is_refused
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Shape, Subgraph, Tensor
from emitters.tflite.lowering import copy_of, lower_nodes

Condition = Callable[["Body", list[Tensor]], Tensor]
Step = Callable[["Body", list[Tensor]], list[Tensor]]


class Body(Context):
    """The context of a graph within a graph.

    Args:
        outer: The context around it.
        name: The graph's name in the file.
    """

    def __init__(self, outer: Context, name: str) -> None:
        super().__init__(outer.program, name)
        self.outer = outer
        self.node = outer.node
        self.captured: dict[Tensor, Tensor] = {}

    def tensor(self, value: onnx_ir.Value | None) -> Tensor:
        """See :meth:`Context.tensor`; what isn't made in here comes from outside."""
        if is_refused(value):
            raise RefusedInside([])
        if value is not None and not self.has(value):
            self.give(value, self.capture(self.outer.tensor(value)))
        return super().tensor(value)

    def capture(self, tensor: Tensor) -> Tensor:
        """What stands in here for a tensor of the outer context."""
        if tensor.is_constant:
            return tensor
        if tensor not in self.captured:
            self.captured[tensor] = self._stand_in(tensor, tensor.shape)
        return self.captured[tensor]

    def size(self, symbol: str) -> Tensor:
        """See :meth:`Context.size`; asked of a tensor in here first."""
        if not super().knows(symbol) and symbol not in self._sizes:
            self._sizes[symbol] = self.capture(self.outer.size(symbol))
        return super().size(symbol)

    def knows(self, symbol: str) -> bool:
        """Whether a tensor in here or outside has a dimension of that name."""
        return super().knows(symbol) or self.outer.knows(symbol)

    def integer(self, number: int) -> Tensor:
        """A constant int32 of no axes."""
        return self.constant(np.asarray(number, np.int32))

    def take(self, states: Sequence[Tensor], shapes: Sequence[Shape]) -> list[Tensor]:
        """New inputs of the graph for what an operator passes in first."""
        self.graph.inputs = [
            self._stand_in(state, shape) for state, shape in zip(states, shapes, strict=True)
        ]
        return list(self.graph.inputs)

    def close(self, captured: Iterable[Tensor]) -> None:
        """Adds the captured tensors of all bodies of an operator to the graph's inputs."""
        self.graph.inputs = [*self.graph.inputs, *map(self.capture, captured)]

    def outputs(self, values: Sequence[onnx_ir.Value]) -> list[Tensor]:
        """The tensors of a body's outputs, none of which is an input, or is there twice."""
        return self.own(self.tensor(value) for value in values)

    def own(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        """The tensors, copied where one is a constant, came from outside, or is there twice."""
        taken = {*self.graph.inputs, *self.captured.values()}
        found: list[Tensor] = []
        for tensor in tensors:
            if tensor.is_constant or tensor in taken:
                tensor = copy_of(self, tensor)
            taken.add(tensor)
            found.append(tensor)
        return found

    def lower(self, graph: onnx_ir.Graph) -> None:
        """Lowers all nodes of a body.

        Raises:
            RefusedInside: Some can't be, or hang on one outside that can't.
        """
        node, refusals = self.node, list[Unsupported]()
        whole = lower_nodes(self, graph, refusals)
        self.node = node
        if refusals or not whole:
            raise RefusedInside(refusals)

    def _stand_in(self, tensor: Tensor, shape: Shape) -> Tensor:
        name = self.program.name(f"{tensor.name}_inside")
        made = Tensor(name, shape, tensor.dtype, quant=tensor.quant)
        self._note(made)
        return made


def add(graph: Subgraph, context: Context) -> int:
    """Adds a finished subgraph to the model; gives its number in the file, where main is 0."""
    context.program.subgraphs.append(graph)
    return len(context.program.subgraphs)


def loop(
    outer: Context,
    states: Sequence[Tensor],
    condition: Condition,
    step: Step,
    shapes: Sequence[Shape] | None = None,
) -> list[Tensor]:
    """WHILE: runs ``step`` as long as ``condition`` holds.

    Args:
        outer: Where the loop goes.
        states: What it starts with.
        condition: Given a body and its states, makes a bool of no axes.
        step: Given a body and its states, makes the next: of the same types.
        shapes: What is true of each state's shape in every round; None where none changes.

    Returns:
        The last states.
    """
    kept = [state.shape for state in states] if shapes is None else list(shapes)
    check, body = Body(outer, f"{outer.node}_condition"), Body(outer, f"{outer.node}_body")
    check.graph.outputs = check.own([condition(check, check.take(states, kept))])
    made = body.own(step(body, body.take(states, kept)))
    captured = list(dict.fromkeys((*check.captured, *body.captured)))
    for part in (check, body):
        part.close(captured)
    body.graph.outputs = [*made, *(body.captured[tensor] for tensor in captured)]
    specs = [(shape, state.dtype, state.quant) for shape, state in zip(kept, states, strict=True)]
    passed = [(tensor.shape, tensor.dtype, tensor.quant) for tensor in captured]
    numbers = {
        "condSubgraphIndex": add(check.graph, outer),
        "bodySubgraphIndex": add(body.graph, outer),
    }
    ends = outer.emit_many("WHILE", [*states, *captured], [*specs, *passed], options=numbers)
    return ends[: len(states)]


def branches(
    outer: Context,
    condition: Tensor,
    then: onnx_ir.Graph,
    otherwise: onnx_ir.Graph,
    outputs: Sequence[tuple[Shape, DataType]],
) -> list[Tensor]:
    """IF: what one of two graphs gives.

    Args:
        outer: Where it goes.
        condition: bool, of one element.
        then: The graph where the condition is true; it takes no inputs.
        otherwise: The graph where it is false; it takes no inputs.
        outputs: What is true of each output, whichever graph it comes from.

    Raises:
        RefusedInside: A node of them can't be lowered; those of both are listed.
    """
    bodies = [Body(outer, f"{outer.node}_{name}") for name in ("then", "else")]
    refusals: list[Unsupported] = []
    broken = False
    for body, graph in zip(bodies, (then, otherwise), strict=True):
        try:
            body.lower(graph)
            body.graph.outputs = body.outputs(list(graph.outputs))
        except RefusedInside as refused:
            refusals.extend(refused.refusals)
            broken = True
    if broken:
        raise RefusedInside(refusals)
    captured = list(dict.fromkeys(tensor for body in bodies for tensor in body.captured))
    for body in bodies:
        body.close(captured)
    numbers = [add(body.graph, outer) for body in bodies]
    return outer.emit_many(
        "IF",
        [condition, *captured],
        [(shape, dtype, None) for shape, dtype in outputs],
        options={"thenSubgraphIndex": numbers[0], "elseSubgraphIndex": numbers[1]},
    )


__all__ = ["Body", "add", "branches", "loop"]
