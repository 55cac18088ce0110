"""Counts in an artifact's own file what computes in a lower precision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx_ir

from converter.analysis.macs import node_macs
from converter.ir.edit import is_op
from converter.ir.model import BATCH, Model

SIZE = 32
"""Of free dimensions other than the batch."""

_NARROW = (onnx_ir.DataType.FLOAT16, onnx_ir.DataType.BFLOAT16)
_INTEGERS = ("ConvInteger", "MatMulInteger")


@dataclass(frozen=True)
class Share:
    """What computes in a lower precision.

    Attributes:
        share: Of the multiply-adds of Conv, ConvTranspose, Gemm, MatMul and recurrent nodes in the
            main graph, 0 to 1; of the nodes where none could be counted.
        lowered: How many of those nodes there are.
        plain: Names and operators of those that compute in float32.
    """

    share: float
    lowered: int
    plain: tuple[str, ...]


def share_of(path: Path) -> Share:
    """Counts in an ONNX file. A node is int8 where all that it multiplies comes from integers, fp16
    or bf16 where its output is."""
    model = Model.load(path)
    sizes = {name: SIZE for name in model.symbols if name != BATCH}
    counts: dict[onnx_ir.Node, int | None] = {**node_macs(model, sizes)}
    counts |= {node: None for node in model.graph.graph if is_op(node, *_INTEGERS)}
    lowered = {node for node in counts if _is_lowered(node)}
    known = None not in counts.values()
    weights = {node: (count or 0) if known else 1 for node, count in counts.items()}
    total = sum(weights.values())
    share = sum(weights[node] for node in lowered) / total if total else 0.0
    plain = tuple(f"{node.name} ({node.op_type})" for node in counts if node not in lowered)
    return Share(share, len(lowered), plain)


def _is_lowered(node: onnx_ir.Node) -> bool:
    if is_op(node, *_INTEGERS) or node.outputs[0].dtype in _NARROW:
        return True
    factors = [value for value in node.inputs[:2] if value is not None]
    return all(is_op(value.producer(), "DequantizeLinear") for value in factors)
