"""A target's table: what each of ONNX's operators is in a framework, and why others aren't."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import onnx_ir

from converter.errors import Unsupported
from converter.ir.refused import Refused
from converter.passes.legalize import REWRITES, why_illegal
from emitters.code.context import Context
from emitters.lowering import operators as shared

Lowering = Callable[[Context], None]
Legal = Callable[[onnx_ir.Node], bool]

HINT = "replace it with operators that there are, or cut the model before it (--output)"


@dataclass(frozen=True)
class Entry:
    """An operator's: its lowering, and which of its nodes that takes."""

    lower: Lowering
    legal: Legal


class Table:
    """A framework's operators.

    Args:
        framework: What it is called.
        reasons: Why it has no code for some operators, by their types.
        domains: Whose operators it has besides ONNX's own.

    Attributes:
        entries: By the operator's type.
    """

    def __init__(
        self, framework: str, reasons: Mapping[str, str], domains: Collection[str] = ()
    ) -> None:
        self._framework, self._reasons = framework, reasons
        self._domains = {"", "ai.onnx", *domains}
        self.entries: dict[str, Entry] = {}

    def op(
        self, *op_types: str, legal: Legal = lambda node: True
    ) -> Callable[[Lowering], Lowering]:
        """Registers a lowering."""

        def register(lower: Lowering) -> Lowering:
            self.entries.update(dict.fromkeys(op_types, Entry(lower, legal)))
            return lower

        return register

    def is_legal(self, node: onnx_ir.Node) -> bool:
        """Whether there is code for a node."""
        entry = self.entries.get(node.op_type) if node.domain in self._domains else None
        return entry is not None and entry.legal(node)

    def is_written_out(self, node: onnx_ir.Node) -> bool:
        """Whether an operator's definition is to stand in its place; shapes aren't known yet."""
        if node.op_type == "LayerNormalization":
            return not self.is_legal(node)
        return node.op_type not in self.entries.keys() | REWRITES.keys()

    def lower(self, context: Context) -> None:
        """Makes the statements of a context's node.

        Raises:
            Refused: There is no code for it.
        """
        if not self.is_legal(context.node):
            raise Refused(*self.no_lowering(context.node))
        self.entries[context.node.op_type].lower(context)

    def unsupported(self, model: onnx_ir.Model) -> list[Unsupported]:
        """Nodes whose operator has no entry at all: what can be said before simplifying."""
        known = self.entries.keys() | REWRITES.keys()
        return shared.unsupported_operators(model, known, self.no_lowering)

    def no_lowering(self, node: onnx_ir.Node) -> tuple[str, str]:
        """Why a node can't be written."""
        why = why_illegal(node)
        if why is not None:
            return why.reason, why.hint
        domain = "" if node.domain in self._domains else f"{node.domain}::"
        reason = self._reasons.get(node.op_type) if domain in ("", "ai.onnx.ml::") else None
        told = f"there is no code for {domain}{node.op_type} in {self._framework}" + (
            f": {reason}" if reason else ""
        )
        return told, HINT

    def foreign(self, graph: onnx_ir.Graph, names: Callable[[str], str]) -> list[Unsupported]:
        """Inputs and outputs that the framework has no tensors for.

        Args:
            graph: Legalized.
            names: What a type is called there, of numpy's name; raises Refused for those it lacks.
        """
        return [
            Unsupported(v.name or "", side, f"{self._framework} has no tensors of {v.dtype}", HINT)
            for side, values in (("input", graph.inputs), ("output", graph.outputs))
            for v in values
            if _is_foreign(v, names)
        ]


def _is_foreign(value: onnx_ir.Value, names: Callable[[str], str]) -> bool:
    if not isinstance(value.type, onnx_ir.TensorType) or value.dtype is None:
        return True
    known = {onnx_ir.DataType.FLOAT: "float32", onnx_ir.DataType.DOUBLE: "float64"}
    try:
        names(known.get(value.dtype, value.dtype.name.lower()))
    except Refused:
        return True
    return False
