"""Which layer of the source an operator came from, by the name that a profiler has for it.

Nodes are called after the modules or scopes of the source: ``encoder.attn/MatMul_2`` is of
``encoder.attn``. Runtimes rename what they rewrite; what it gives has its name still: a node that
was made of several is of the layer of the last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from converter.runtime.session import OperatorTime

_OPERATOR = re.compile(r"(node_)?[A-Z][A-Za-z0-9]*((_token)?_\d+)*")
"""A name that says an operator and no layer: ``Conv_12``."""

_REWRITTEN = re.compile(r"/[A-Za-z0-9]*Fusion/?$")
"""What ONNX Runtime puts behind the name of a node that it fused with others."""

_NUMBERED = re.compile(r"_\d+$")
_BLOCKED = "_nchwc"
"""What ONNX Runtime adds to an output's name for a node of its own layout
(``core/optimizer/nchwc_transformer.cc``)."""


def layer_of(name: str) -> str:
    """The layer of a node called ``name``; empty where that says none."""
    first = _REWRITTEN.sub("", name.split(";")[0])
    layer, slash, _ = first.rpartition("/")
    if slash:
        return layer
    return "" if _OPERATOR.fullmatch(first) else first


def join(
    operators: Iterable[OperatorTime],
    nodes: Mapping[str, Iterable[str]],
    ran: Mapping[str, Iterable[str]],
) -> list[OperatorTime]:
    """Operators with their layers.

    Args:
        operators: As a profiler has them.
        nodes: The file's nodes by name, each with the names of its outputs.
        ran: Likewise those of the graph that the runtime made of it; empty where it doesn't tell.
    """
    makers = {output: name for name, outputs in nodes.items() for output in outputs}
    found = []
    for item in operators:
        node = next((makers[out] for out in ran.get(item.name, ()) if out in makers), None)
        node = _named_after(item.name, nodes, makers) if node is None else node
        layer = layer_of(node) if node is not None else ""
        found.append(replace(item, layer=layer, joined=node is not None))
    return found


def _named_after(
    name: str, nodes: Mapping[str, Iterable[str]], makers: Mapping[str, str]
) -> str | None:
    """The node that an operator's name tells of."""
    if name.endswith(_BLOCKED) and (made := makers.get(name.removesuffix(_BLOCKED))):
        return made
    if name in nodes:
        return name
    begins = [node for node in nodes if node and name.startswith((f"{node}/", f"{node}_"))]
    return max(begins, key=len, default=None)


def tidied(name: str, others: Collection[str]) -> str:
    """A tensor's name as its node's: without the number that tells it from another tensor, which
    has the node's name."""
    shorter = _NUMBERED.sub("", name)
    return shorter if shorter in others else name
