"""Lowers subgraphs: the main one into a graph, others into bodies or in the place of a call."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from converter.errors import Unsupported
from converter.families import load
from parsers.tflite.builder import Builder
from parsers.tflite.context import Context, Scope
from parsers.tflite.model import Operator, TfliteModel
from parsers.tflite.ops.refused import reason_for
from parsers.tflite.registry import Refusal, lowering

load("parsers.tflite.ops")

_MISFITS = (IndexError, ValueError, ZeroDivisionError, OverflowError, MemoryError)
"""What comes of lowering an operator whose tensors it can't have: too few dimensions, a stride
of 0. Files are untrusted, and each lowering testing for all of that would hide what it does."""

_MISFIT = "its tensors or options don't fit it"


class Lowerer:
    """Lowers the subgraphs of one model, and collects what it can't."""

    def __init__(self, model: TfliteModel) -> None:
        self.model = model
        self.unsupported: list[Unsupported] = []
        self._running: list[int] = []

    def run(self, subgraph: int, builder: Builder, inputs: dict[int, onnx_ir.Value]) -> Scope:
        """Adds the nodes of a subgraph.

        Args:
            subgraph: Its number.
            builder: Takes the nodes.
            inputs: What its input tensors hold, as stored, by tensor number.

        Returns:
            The subgraph with a value or a constant for each tensor that it computes.
        """
        scope = Scope(self.model.subgraphs[subgraph], builder, self, dict(inputs))
        outer = builder.prefix
        self._running.append(subgraph)
        for operator in scope.subgraph.operators:
            builder.prefix = f"{outer}/" * bool(outer) + f"{operator.name}_{operator.index}"
            self._operator(scope, operator)
        self._running.pop()
        builder.prefix = outer
        return scope

    def call(
        self, subgraph: int, builder: Builder, inputs: Sequence[onnx_ir.Value]
    ) -> list[onnx_ir.Value]:
        """A subgraph in the place of a call: its outputs, as stored, for these inputs.

        Args:
            subgraph: Its number.
            builder: Takes the nodes.
            inputs: What its input tensors hold, as stored, in order.

        Raises:
            Refusal: It is being lowered already, or takes another number of inputs.
        """
        if not 0 <= subgraph < len(self.model.subgraphs):
            raise Refusal(f"it runs subgraph {subgraph}, which the file doesn't have")
        if subgraph in self._running:
            raise Refusal(f"it runs subgraph {subgraph} from inside itself, which is recursion")
        numbers = self.model.subgraphs[subgraph].inputs
        if len(numbers) != len(inputs):
            raise Refusal(
                f"it gives {len(inputs)} values to subgraph {subgraph}, which takes {len(numbers)}"
            )
        scope = self.run(subgraph, builder, dict(zip(numbers, inputs, strict=True)))
        return [tensor_value(scope, number) for number in scope.subgraph.outputs]

    def _operator(self, scope: Scope, operator: Operator) -> None:
        function = lowering(operator)
        try:
            if function is None:
                raise Refusal(*reason_for(operator))
            function(Context(scope, operator))
        except (Refusal, *_MISFITS) as error:
            self.unsupported.append(_unsupported(scope, operator, error))
            for number in operator.outputs:  # so that the operators after it are looked at too
                scope.values.setdefault(number, onnx_ir.Value(name=f"refused_{number}"))


def tensor_value(scope: Scope, number: int) -> onnx_ir.Value:
    """A tensor of a subgraph as stored: computed, an input, or constant.

    Raises:
        Refusal: Nothing computes it.
    """
    reader = Operator(-1, "", False, 1, (number,), ())
    return Context(scope, reader).raw(0)


def _unsupported(scope: Scope, operator: Operator, error: Exception) -> Unsupported:
    refusal = error if isinstance(error, Refusal) else Refusal(f"{_MISFIT} ({error})")
    tensors = scope.subgraph.tensors
    output = tensors[operator.outputs[0]].name if operator.outputs else ""
    where = "" if scope.subgraph.index == 0 else f"subgraph {scope.subgraph.index}, "
    node = f"{where}operator {operator.index}" + (f", {output}" if output else "")
    return Unsupported(node, operator.name, refusal.reason, refusal.remedy)
