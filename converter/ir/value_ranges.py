"""What values an output can have at all, where the graph itself says so."""

from __future__ import annotations

import onnx_ir

from converter.ir.facts import BOUNDED, EXTREMES, MEANS, MOVES

Range = tuple[float, float]

ROUNDING = 2.0**-20
"""Eight units in the last place of a float32, as a share of the largest magnitude that an output
can have: what sums and exponentials may be off by."""

_BETWEEN = (MOVES | EXTREMES | MEANS) - {"MaxPool"}
"""Operators whose results lie between those of their first input, or between these and the zeros
of an AveragePool, which every range has. A MaxPool's second output holds places."""


def output_ranges(model: onnx_ir.Model) -> dict[str, Range]:
    """The range of every output that has one, by name.

    An output has one where all of its values come, only moved about, from operators of
    :data:`~converter.ir.facts.BOUNDED`. ``Concat`` has its inputs' common range.
    """
    found = {}
    for value in model.graph.outputs:
        known = _range(value, 0)
        if known is not None and value.name:
            found[value.name] = known
    return found


def _range(value: onnx_ir.Value | None, depth: int) -> Range | None:
    node = value.producer() if value is not None else None
    if node is None or depth > 50 or node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type in BOUNDED:
        return BOUNDED[node.op_type]
    if node.op_type in _BETWEEN and node.inputs:
        return _range(node.inputs[0], depth + 1)
    if node.op_type == "Concat":
        ranges = [_range(item, depth + 1) for item in node.inputs]
        known = [item for item in ranges if item is not None]
        if known and len(known) == len(ranges):
            return min(low for low, _ in known), max(high for _, high in known)
    return None
