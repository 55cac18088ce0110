"""Which layer of the source an operator came from, by the name that a profiler has for it.

Nodes are called after the modules or scopes of the source: ``encoder.attn/MatMul_2`` is of
``encoder.attn``. Runtimes rename what they rewrite; what it gives has its name still: a node that
was made of several is of the layer of the last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from converter.runtime.session import OperatorTime

_OPERATOR = re.compile(r"(node_)?[A-Z][A-Za-z0-9]*((_token)?_\d+)*")
"""A name that says an operator and no layer: ``Conv_12``."""

_REWRITTEN = re.compile(r"/[A-Za-z0-9]*Fusion/?$")
"""What ONNX Runtime puts behind the name of a node that it fused with others."""

_NUMBERED = re.compile(r"_\d+$")
_CAST = "InsertedPrecisionFreeCast_"
"""What ONNX Runtime puts before a name where it computes in float32 instead of float16."""

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


@dataclass(frozen=True)
class Node:
    """A node of a graph: its name, kind, and the names of its first input and its outputs."""

    name: str
    op: str
    takes: str
    outputs: Sequence[str]


def join(
    operators: Iterable[OperatorTime], nodes: Sequence[Node], ran: Mapping[str, Iterable[str]]
) -> list[OperatorTime]:
    """Operators with their layers.

    Args:
        operators: As a profiler has them.
        nodes: The file's, in order; where none has a name, there are no layers.
        ran: By node of the graph that the runtime made of it, names of outputs.
    """
    makers, owners = _owners(nodes)
    found = []
    for item in operators:
        outputs = (_plain(name) for name in ran.get(item.name, ()))
        node = next((makers[name] for name in outputs if name in makers), None)
        if node is None and any(owners):
            node = _named_after(_plain(item.name), owners, makers)
        known = node is not None or not any(owners)
        found.append(replace(item, layer=layer_of(node or ""), joined=known))
    return filled(found)


def _owners(nodes: Sequence[Node]) -> tuple[dict[str, str], dict[str, str]]:
    """By output and by node, the node whose layer it is of: what is quantized is its maker's."""
    makers: dict[str, str] = {}
    owners: dict[str, str] = {}
    for node in nodes:
        between = node.op in ("QuantizeLinear", "DequantizeLinear")
        owner = makers.get(node.takes, "") if between else node.name
        owners[node.name] = owner
        makers |= dict.fromkeys(node.outputs, owner)
    return makers, owners


def _plain(name: str) -> str:
    return name.removeprefix(_CAST)


def _named_after(name: str, owners: Mapping[str, str], makers: Mapping[str, str]) -> str | None:
    """The node that an operator's name tells of."""
    if name.endswith(_BLOCKED) and (made := makers.get(name.removesuffix(_BLOCKED))):
        return made
    if name in owners:
        return owners[name]
    begins = [node for node in owners if node and name.startswith((f"{node}/", f"{node}_"))]
    return owners[max(begins, key=len)] if begins else None


def filled(operators: Sequence[OperatorTime], follows: Collection[str] = ()) -> list[OperatorTime]:
    """Operators whose layer isn't known with the one that those before and after them have in
    common; kinds that ``follows`` names, with that of the one before."""
    found = list(operators)
    for at, item in enumerate(operators):
        if item.joined:
            continue
        before = next((o.layer for o in reversed(operators[:at]) if o.joined), None)
        after = next((o.layer for o in operators[at:] if o.joined), None)
        if before is not None and (before == after or item.op in follows):
            found[at] = replace(item, layer=before, joined=True)
    return found


def tidied(name: str, others: Collection[str]) -> str:
    """A tensor's name as its node's: without the number that tells it from another tensor, which
    has the node's name."""
    shorter = _NUMBERED.sub("", name)
    return shorter if shorter in others else name
