"""Finds what contradicts itself in a TFLite model that could be read."""

from __future__ import annotations

from collections.abc import Iterator

from converter.errors import ModelError
from parsers.tflite_import.model import Operator, Subgraph, TfliteModel

_MOST = 20
"""Problems that are listed."""


def check(model: TfliteModel, name: str) -> None:
    """Refuses a model whose graphs can't run.

    1. A tensor is written once, and read after it was written, fed, or given as a constant.
    2. Subgraphs don't run themselves.

    Raises:
        ModelError: All that was found.
    """
    problems = [problem for graph in model.subgraphs for problem in _problems(graph)]
    problems += _circles(model)
    if problems:
        raise ModelError(
            f"{name} is not a valid model",
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


def _circles(model: TfliteModel) -> list[str]:
    calls = {
        graph.index: {callee for op in graph.operators for callee in called(op)}
        for graph in model.subgraphs
    }
    while True:
        done = [index for index, callees in calls.items() if not callees & calls.keys()]
        if not done:
            break
        for index in done:
            del calls[index]
    return [f"the subgraphs {', '.join(map(str, calls))} run one another in a circle"] * bool(calls)
