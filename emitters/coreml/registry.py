"""Which ONNX operator is lowered by what: each lowering registers itself by a decorator.

    @lowers("Relu")
    def relu(context: Context, node: onnx_ir.Node) -> None:
        ...

A lowering that can't take a node raises :class:`~converter.ir.refused.Refused`, with the
reason and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import onnx_ir

from converter.families import load, registering
from converter.ir.refused import Refused

if TYPE_CHECKING:
    from emitters.coreml.context import Context

Lower = Callable[["Context", onnx_ir.Node], None]

Legal = Callable[[onnx_ir.Node, int], bool]
"""Whether a lowering takes a node as it is, by what its shapes and attributes say, for a target (15
to 18, 26)."""

_LOWERINGS: dict[str, Lower] = {}
_LEGAL: dict[str, Legal] = {}


def lowers(
    *operators: str, domain: str = "", legal: Legal | None = None
) -> Callable[[Lower], Lower]:
    """Registers a function as the lowering of operators of ai.onnx, or of a domain of ours.

    Args:
        operators: Their names.
        domain: Theirs; empty for ai.onnx.
        legal: Of which nodes; all, unless said. The others are legalized before.
    """
    names = [f"{domain}::{operator}" if domain else operator for operator in operators]

    def register(run: Lower) -> Lower:
        registering(_LOWERINGS, names)(run)
        if legal is not None:
            _LEGAL.update(dict.fromkeys(names, legal))
        return run

    return register


def lowering_of(node: onnx_ir.Node) -> Lower | None:
    """The lowering of a node's operator."""
    load("emitters.coreml.ops")
    standard = node.domain in ("", "ai.onnx")
    return _LOWERINGS.get(node.op_type if standard else f"{node.domain}::{node.op_type}")


def is_legal(node: onnx_ir.Node, target: int) -> bool:
    """Whether a node of ai.onnx is lowered as it is."""
    takes = _LEGAL.get(node.op_type)
    try:
        return lowering_of(node) is not None and (takes is None or takes(node, target))
    except Refused:
        return True  # its lowering says why


def operators() -> frozenset[str]:
    """The operators of ai.onnx that there are lowerings for."""
    load("emitters.coreml.ops")
    return frozenset(name for name in _LOWERINGS if "::" not in name)
