"""Makes a case smaller that shows something wrong, for as long as it still does.

Delta debugging on the graph: outputs dropped or moved to what made them, nodes taken out of the
way or cut off (what they give becomes an input, or a constant), until nothing more can go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.fuzz.case import Case, info
from tests.fuzz.grow import symbols_of
from tests.fuzz.values import Rejected, Value, captured

Array = np.ndarray[Any, Any]

Shows = Callable[[Case], bool]
"""Whether a case, which is valid, shows the same as the one that is made smaller."""


def shrink(case: Case, shows: Shows, tries: int = 400) -> Case:
    """The smallest case found that ``shows`` the same; at most so many are tried."""
    left = tries
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _candidates(case):
            left -= 1
            if left <= 0:
                break
            if _shows(candidate, shows):
                case, smaller = candidate, True
                break
    return case


def _shows(candidate: Case, shows: Shows) -> bool:
    try:
        candidate.expected()
    except Rejected:
        return False
    return shows(candidate)


def _candidates(case: Case) -> Iterator[Case]:
    """Smaller ones, those that lose most first."""
    values = case.values()
    outputs = case.outputs
    for name in outputs:
        if len(outputs) > 1:
            yield _with_outputs(case, values, [name])
    for name in outputs:
        if len(outputs) > 2:
            yield _with_outputs(case, values, [other for other in outputs if other != name])
    nodes = list(case.proto.graph.node)
    for node in nodes:  # all that is before it goes
        yield _cut_off(case, values, [*node.output], constant=False)
    for node in reversed(nodes):
        yield from _moved_outputs(case, values, node)
    for node in nodes:
        yield from _bypassed(case, values, node)
        yield _cut_off(case, values, [*node.output], constant=True)
    if len(case.feeds) > 1:
        yield from _fixed(case, values)


def _moved_outputs(case: Case, values: Mapping[str, Value], node: onnx.NodeProto) -> Iterator[Case]:
    """What a node takes becomes an output in the place of what it gives."""
    outputs = case.outputs
    if not set(node.output) & set(outputs):
        return
    kept = [name for name in outputs if name not in node.output]
    made = {name for other in case.proto.graph.node for name in other.output}
    before = [
        n for n in dict.fromkeys((*node.input, *captured(node))) if n in made and n not in kept
    ]
    if before:
        yield _with_outputs(case, values, [*kept, *before])


def _bypassed(case: Case, values: Mapping[str, Value], node: onnx.NodeProto) -> Iterator[Case]:
    """Those that use a node's first output take one of its inputs in its place."""
    if len(node.output) != 1 or node.output[0] in case.outputs:
        return
    made = values[node.output[0]]
    for name in node.input:
        other = values.get(name)
        if other is None or other.kind != made.kind:
            continue
        if all(a.shape == b.shape for a, b in zip(other.exact, made.exact, strict=True)):
            yield _renamed(case, values, node.output[0], name)


def _renamed(case: Case, values: Mapping[str, Value], old: str, new: str) -> Case:
    proto = _copy(case)
    for node in _all_nodes(proto.graph):
        for place, name in enumerate(node.input):
            if name == old:
                node.input[place] = new
    return _tidied(replace(case, proto=proto), values)


def _cut_off(case: Case, values: Mapping[str, Value], names: list[str], *, constant: bool) -> Case:
    """Values that become inputs, or initializers of what they hold with the first feeds."""
    proto = _copy(case)
    kept = [node for node in proto.graph.node if not set(node.output) & set(names)]
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    feeds = [dict(fed) for fed in case.feeds]
    for name in filter(None, names):
        value = values[name]
        if constant:
            proto.graph.initializer.append(numpy_helper.from_array(value.exact[0], name))
        else:
            proto.graph.input.append(info(value, symbols_of(len(case.feeds))))
            for index, fed in enumerate(feeds):
                fed[name] = value.exact[index]
    return _tidied(replace(case, proto=proto, feeds=tuple(feeds)), values)


def _fixed(case: Case, values: Mapping[str, Value]) -> Iterator[Case]:
    """All sizes fixed at one of the sets of feeds."""
    for index, fed in enumerate(case.feeds):
        proto = _copy(case)
        for item in (*proto.graph.input, *proto.graph.output):
            sizes = values[item.name].exact[index].shape
            for dim, size in zip(item.type.tensor_type.shape.dim, sizes, strict=True):
                dim.dim_value = size
        del proto.graph.value_info[:]
        yield replace(case, proto=proto, feeds=(fed,))


def _with_outputs(case: Case, values: Mapping[str, Value], names: list[str]) -> Case:
    proto = _copy(case)
    del proto.graph.output[:]
    proto.graph.output.extend(info(values[name], symbols_of(len(case.feeds))) for name in names)
    return _tidied(replace(case, proto=proto), values)


def _tidied(case: Case, values: Mapping[str, Value]) -> Case:
    """Without nodes, inputs and initializers that nothing needs."""
    graph = case.proto.graph
    needed = {item.name for item in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if set(node.output) & needed:
            kept.insert(0, node)
            needed |= {*node.input, *captured(node)}
    del graph.node[:]
    graph.node.extend(kept)
    inputs = [item for item in graph.input if item.name in needed]
    constants = [item for item in graph.initializer if item.name in needed]
    del graph.input[:]
    graph.input.extend(inputs)
    del graph.initializer[:]
    graph.initializer.extend(constants)
    names = [item.name for item in graph.input]
    return replace(case, feeds=tuple({n: fed[n] for n in names} for fed in case.feeds))


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


def _copy(case: Case) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    return proto
