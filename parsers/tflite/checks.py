"""Finds what contradicts itself in a TFLite model that could be read."""

from __future__ import annotations

from collections.abc import Iterator

from converter.errors import ModelError
from converter.ir.calls import DEEPEST, MOST_NODES, CircleError, written_out
from parsers.tflite.model import Operator, Subgraph, TfliteModel

_MOST = 20
"""Problems that are listed."""


def check(model: TfliteModel, name: str) -> None:
    """Refuses a model whose graphs can't run.

    1. A tensor is written once, and read after it was written, fed, or given as a constant.
    2. Subgraphs don't run themselves, and come to a bounded number of operators.

    Raises:
        ModelError: All that was found.
    """
    problems = [problem for graph in model.subgraphs for problem in _problems(graph)]
    problems += _calls(model, name)
    if problems:
        raise ModelError(
            f"{name} is not a valid model",
            code="model-invalid",
            details=problems[:_MOST]
            + [f"and {len(problems) - _MOST} more"] * (len(problems) > _MOST),
            hint="Fetch or copy it again, or convert the original again.",
        )


def called(operator: Operator) -> list[int]:
    """The subgraphs that an operator runs."""
    fields = vars(operator.options) if operator.options is not None else {}
    return [
        int(value)
        for field, value in fields.items()
        if field == "subgraph" or field.lower().endswith("subgraphindex")
    ]


def _problems(graph: Subgraph) -> Iterator[str]:
    known = set(graph.inputs)
    known |= {t.index for t in graph.tensors if t.data is not None or t.is_variable or 0 in t.shape}
    written: set[int] = set()
    for operator in graph.operators:
        where = f"subgraph {graph.index}, operator {operator.index} ({operator.name})"
        for index in operator.inputs:
            if index >= 0 and index not in known and index not in written:
                yield f"{where} reads {_title(graph, index)} before anything wrote it"
        for index in operator.outputs:
            if index in written or graph.tensors[index].data is not None:
                yield f"{where} writes {_title(graph, index)}, which has a value already"
            elif index in graph.inputs:
                yield f"{where} writes the input {_title(graph, index)}"
            if index >= 0:
                written.add(index)
    for index in graph.outputs:
        if index not in known and index not in written:
            yield f"subgraph {graph.index}: nothing writes the output {_title(graph, index)}"


def _title(graph: Subgraph, index: int) -> str:
    return f"tensor {index} ({graph.tensors[index].name})"


def _calls(model: TfliteModel, name: str) -> list[str]:
    """What is wrong with how subgraphs run one another: each call is lowered anew.

    Raises:
        ModelError: They come to too much.
    """
    own = {graph.index: len(graph.operators) for graph in model.subgraphs}
    calls = {
        graph.index: [callee for op in graph.operators for callee in called(op)]
        for graph in model.subgraphs
    }
    try:
        count, depth = map(max, zip(*written_out(own, calls).values(), strict=True))
    except CircleError as error:
        return [
            f"the subgraphs {', '.join(map(str, sorted(error.args)))} run one another in a circle"
        ]
    if count > MOST_NODES or depth > DEEPEST:
        raise ModelError(
            f"{name}: with all calls expanded, its {len(own)} subgraphs have {count:,} "
            f"operators, {depth} deep; the limits are {MOST_NODES:,} and {DEEPEST}",
            code="model-too-large",
        )
    return []
