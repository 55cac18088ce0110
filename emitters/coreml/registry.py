"""Which ONNX operator is lowered by what: each lowering registers itself by a decorator.

    @lowers("Relu")
    def relu(context: Context, node: onnx_ir.Node) -> None:
        ...

A lowering that can't take a node raises :class:`~emitters.lowering.refused.Refused`, with the
reason and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import onnx_ir

if TYPE_CHECKING:
    from emitters.coreml.context import Context

Lower = Callable[["Context", onnx_ir.Node], None]

_LOWERINGS: dict[str, Lower] = {}


def lowers(*operators: str) -> Callable[[Lower], Lower]:
    """Registers a function as the lowering of operators of ai.onnx."""

    def register(run: Lower) -> Lower:
        for name in operators:
            if name in _LOWERINGS:
                raise ValueError(f"two lowerings of {name}")
            _LOWERINGS[name] = run
        return run

    return register


def lowering_of(node: onnx_ir.Node) -> Lower | None:
    """The lowering of a node's operator."""
    from emitters.coreml import ops

    ops.load()
    return _LOWERINGS.get(node.op_type) if node.domain in ("", "ai.onnx") else None


def operators() -> frozenset[str]:
    """The operators of ai.onnx that there are lowerings for."""
    from emitters.coreml import ops

    ops.load()
    return frozenset(_LOWERINGS)
