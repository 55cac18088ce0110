"""Makes a case smaller that shows something wrong, for as long as it still does.

Delta debugging on the graph: it ends at a node, begins behind one (what that gives becomes an
input), or goes without one; and its free sizes are fixed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx

from tests.fuzz.case import Case, info
from tests.fuzz.grow import symbols_of
from tests.fuzz.values import Rejected, Value, captured


def shrink(case: Case, shows: Callable[[Case], bool], tries: int = 400) -> Case:
    """The smallest case found, valid, that ``shows`` the same; at most so many are tried."""
    left = iter(range(1, tries))
    while found := next((c for c in _candidates(case) if next(left, 0) and _valid(c, shows)), None):
        case = found
    return case


def _valid(candidate: Case, shows: Callable[[Case], bool]) -> bool:
    try:
        candidate.expected()
    except Rejected:
        return False
    return shows(candidate)


def _candidates(case: Case) -> Iterator[Case]:
    """Smaller ones, those that lose most first."""
    values, nodes = case.values(), list(case.proto.graph.node)
    for node in nodes:
        if {*node.output} != {*case.outputs}:
            yield _edited(case, values, outputs=[name for name in node.output if name])
    for node in reversed(nodes):
        yield _edited(case, values, cut=[name for name in node.output if name])
    for node in nodes:
        same = [n for n in node.input if n and values[n].exact[0].shape == _shape(values, node)]
        if node.output[0] not in case.outputs:
            yield from (_edited(case, values, instead=(node.output[0], name)) for name in same)
    for index, fed in enumerate(case.feeds if len(case.feeds) > 1 else ()):
        yield _fixed(case, values, index, fed)


def _shape(values: Mapping[str, Value], node: onnx.NodeProto) -> tuple[int, ...]:
    return values[node.output[0]].shape


def _edited(
    case: Case,
    values: Mapping[str, Value],
    *,
    outputs: Sequence[str] = (),
    cut: Sequence[str] = (),
    instead: tuple[str, str] = ("", ""),
) -> Case:
    """A copy with other outputs, or with values that become inputs, or with one value in another's
    place; without what nothing in it needs then."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    graph, symbols = proto.graph, symbols_of(len(case.feeds))
    for node in graph.node if instead[0] else ():
        _become(node.input, [instead[1] if name == instead[0] else name for name in node.input])
    graph.input.extend(info(values[name], symbols) for name in cut)
    if outputs:
        _become(graph.output, [info(values[name], symbols) for name in outputs])
    needed, kept = {item.name for item in graph.output}, []
    for node in reversed(graph.node):
        if {*node.output} & needed and not {*node.output} & {*cut}:
            kept.insert(0, node)
            needed |= {*node.input, *captured(node)}
    _become(graph.node, kept)
    for part in (graph.input, graph.initializer):
        _become(part, [item for item in part if item.name in needed])
    names = [item.name for item in graph.input]
    feeds = ({n: values[n].exact[i] for n in names} for i in range(len(case.feeds)))
    return replace(case, proto=proto, feeds=tuple(feeds))


def _become(repeated: Any, items: list[Any]) -> None:
    del repeated[:]
    repeated.extend(items)


def _fixed(case: Case, values: Mapping[str, Value], index: int, fed: Mapping[str, Any]) -> Case:
    """All sizes fixed at those of one of the sets of feeds."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    for item in (*proto.graph.input, *proto.graph.output):
        sizes = values[item.name].exact[index].shape
        for dim, size in zip(item.type.tensor_type.shape.dim, sizes, strict=True):
            dim.dim_value = size
    del proto.graph.value_info[:]
    return replace(case, proto=proto, feeds=(fed,))
