"""The table: what each of ONNX's operators is in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir

from emitters.code.context import Context

Lowering = Callable[[Context], None]
Legal = Callable[[onnx_ir.Node], bool]


@dataclass(frozen=True)
class Entry:
    """An operator's: its lowering, and which of its nodes that takes."""

    lower: Lowering
    legal: Legal


TABLE: dict[str, Entry] = {}


def op(*op_types: str, legal: Legal = lambda node: True) -> Callable[[Lowering], Lowering]:
    """Registers a lowering."""

    def register(lower: Lowering) -> Lowering:
        TABLE.update(dict.fromkeys(op_types, Entry(lower, legal)))
        return lower

    return register
