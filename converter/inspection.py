"""What a model is made of: its interface, operators, parameters, multiply-adds, precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir

from converter.graph.macs import node_macs
from converter.ir import Model, dtype_name, spec_dict


@dataclass(frozen=True)
class Inspection:
    """The facts of one model.

    Attributes:
        name: The model's name.
        source: Where it came from, as far as it says.
        opset, ir_version: Of the file as it is.
        inputs, outputs: Name, dtype and shape of each.
        ops: How many nodes of each operator, most frequent first.
        nodes: All nodes, subgraphs included.
        parameters: Floating-point numbers in the weights.
        weight_bytes: Bytes of the weights.
        precisions: Share of the weights' bytes by dtype.
        macs: Multiply-adds of one inference with every free dimension 1 but those sized.
        macs_unknown: Operators whose multiply-adds couldn't be counted, and how many of each.
        sizes: The sizes that the count was made at.
        history: The passes that made it, where it is a file of ours.
    """

    name: str
    source: dict[str, Any]
    opset: int
    ir_version: int
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    ops: dict[str, int]
    nodes: int
    parameters: int
    weight_bytes: int
    precisions: dict[str, float]
    macs: int
    macs_unknown: dict[str, int]
    sizes: dict[str, int]
    history: list[dict[str, Any]] = field(default_factory=list)


def inspect_model(model: Model, name: str, sizes: Mapping[str, int]) -> Inspection:
    """The facts of ``model``; free dimensions count as ``sizes`` says, else as 1."""
    at = {symbol: sizes.get(symbol, 1) for symbol in model.symbols}
    macs, unknown = count_macs(model, at)
    return Inspection(
        name,
        model.source,
        model.opset,
        model.graph.ir_version or 0,
        [spec_dict(spec) for spec in model.inputs],
        [spec_dict(spec) for spec in model.outputs],
        dict(Counter(_op(node) for node in model.nodes()).most_common()),
        model.node_count(),
        model.parameter_count(),
        model.weight_bytes(),
        _precisions(model),
        macs,
        unknown,
        at,
        [record.stable() for record in model.history],
    )


def _op(node: onnx_ir.Node) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def _precisions(model: Model) -> dict[str, float]:
    sizes: Counter[str] = Counter()
    for value in model.initializers():
        if value.const_value is not None:
            sizes[dtype_name(value.const_value.dtype)] += value.const_value.nbytes
    total = sum(sizes.values())
    return {name: round(size / total, 6) for name, size in sizes.most_common()} if total else {}


# -- multiply-adds -------------------------------------------------------------------


def count_macs(model: Model, sizes: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Multiply-adds of the main graph's Conv, ConvTranspose, Gemm, MatMul and recurrent nodes.

    Shapes are inferred with every free dimension at its size.

    Returns:
        The sum, and for each such operator how many nodes couldn't be counted.
    """
    counts = node_macs(model, sizes)
    unknown = Counter(node.op_type for node, count in counts.items() if count is None)
    return sum(count or 0 for count in counts.values()), dict(unknown)
