"""Which ONNX operator is lowered by what: each lowering registers itself by a decorator.

    @lowers("Relu", integer=True)
    def relu(context: Context, node: onnx_ir.Node) -> None:
        ...

A lowering that can't take a node raises :class:`~converter.ir.refused.Refused`, with the
reason and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir

from converter.families import load, registering
from converter.ir.refused import Refused

if TYPE_CHECKING:
    from emitters.tflite.context import Context

Lower = Callable[["Context", onnx_ir.Node], None]


@dataclass(frozen=True)
class Lowering:
    """How one operator is lowered.

    Attributes:
        run: Makes its TFLite operators.
        integer: Whether it computes on int8 tensors with scales as they are, where all of its
            data is; otherwise it only ever sees real numbers.
    """

    run: Lower
    integer: bool = False


Legal = Callable[[onnx_ir.Node], bool]
"""Whether a lowering takes a node of ai.onnx, by what its shapes and attributes say."""

_LOWERINGS: dict[tuple[str, str], Lowering] = {}
_LEGAL: dict[str, Legal] = {}


def lowers(
    *operators: str, domain: str = "", integer: bool = False, legal: Legal | None = None
) -> Callable[[Lower], Lower]:
    """Registers a function as the lowering of ONNX operators.

    Args:
        operators: Their names.
        domain: Theirs: empty for ai.onnx, or that of :mod:`emitters.lowering.channels_last`.
        integer: See :class:`Lowering`.
        legal: Of which nodes; all, unless said. The others are legalized before.
    """

    def register(run: Lower) -> Lower:
        keys = [(domain, name) for name in operators]
        registering(_LOWERINGS, keys)(Lowering(run, integer))
        if legal is not None:
            _LEGAL.update(dict.fromkeys(operators, legal))
        return run

    return register


def lowering_of(node: onnx_ir.Node) -> Lowering | None:
    """The lowering of a node's operator."""
    load("emitters.tflite.ops")
    domain = "" if node.domain == "ai.onnx" else node.domain
    return _LOWERINGS.get((domain, node.op_type))


def is_legal(node: onnx_ir.Node) -> bool:
    """Whether a node of ai.onnx is lowered as it is, channels last or not."""
    takes = _LEGAL.get(node.op_type)
    try:
        return node.op_type in operators() and (takes is None or takes(node))
    except Refused:
        return True  # its lowering says why


def operators() -> frozenset[str]:
    """The operators of ai.onnx that there are lowerings for."""
    load("emitters.tflite.ops")
    return frozenset(name for _, name in _LOWERINGS)
