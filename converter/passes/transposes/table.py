"""The rule for each operator, in opset 20's terms (18, 19 and 21 say the same of them)."""

from __future__ import annotations

from functools import partial

import onnx_ir

from converter.ir.edit import static_shape
from converter.ir.facts import BROADCASTS, REDUCTIONS, UNARY
from converter.passes.transposes.reshape import Reshaped
from converter.passes.transposes.rules import (
    AlongAxis,
    ByAxes,
    ByVector,
    Elementwise,
    Held,
    Maker,
    OneInput,
    Rule,
    quantized,
    rank_of,
)
from converter.passes.transposes.shapes import Gathered, Measured, Reduced, Squeezed, Unsqueezed
from converter.passes.transposes.special import General, Pooled, Resized


def rule_of(node: onnx_ir.Node) -> Rule | None:
    """The rule for ``node``; None where it takes and gives its tensors only as they are."""
    maker = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if maker is None or not node.inputs or node.inputs[0] is None:
        return None
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    return maker(node)


def _slice(node: onnx_ir.Node) -> Rule | None:
    starts = static_shape(node.inputs[1])
    count = starts[0] if starts else None
    return ByAxes.of(node, 3, count if isinstance(count, int) else None)


def _pad(node: onnx_ir.Node) -> Rule | None:
    rank = rank_of(node.inputs[0])
    if len(node.inputs) < 4 or node.inputs[3] is None:
        return None if rank is None else ByVector(node, rank, 1, copies=2)
    return ByAxes.of(node, 3, None)


def _vector(node: onnx_ir.Node) -> Rule | None:
    """Tile and Expand, where there is a number for each axis."""
    rank, count = rank_of(node.inputs[0]), static_shape(node.inputs[1])
    return ByVector(node, rank, 1) if rank is not None and count == [rank] else None


def _cumsum(node: onnx_ir.Node) -> Rule | None:
    return ByAxes.of(node, 1, None)


def _held(node: onnx_ir.Node, axes: tuple[int, ...]) -> Rule | None:
    rank = rank_of(node.inputs[0])
    return Held(node, [0], rank, axes) if rank is not None and rank > 1 else None


def _layer_norm(node: onnx_ir.Node) -> Rule | None:
    rank, axis = rank_of(node.inputs[0]), node.attributes.get("axis")
    if not rank:
        return None
    first = (axis.as_int() if axis is not None else -1) % rank
    return Held(node, [0], rank, range(first, rank))


def _global_pool(node: onnx_ir.Node) -> Rule | None:
    rank = rank_of(node.inputs[0])
    return Pooled(node, [0], rank) if rank is not None and rank > 2 else None


def _matmul(node: onnx_ir.Node) -> Rule | None:
    left, right = rank_of(node.inputs[0]), rank_of(node.inputs[1])
    if left is None or right is None or left < 2:
        return None
    if right == 2:
        return Held(node, [0], left, [left - 1])
    if left != right:
        return None
    made = Held(node, [0, 1], left, [left - 2, left - 1])
    made.keeps_axes = False
    return made


def _gemm(node: onnx_ir.Node) -> Rule | None:
    return General(node)


def _split(node: onnx_ir.Node) -> Rule | None:
    return AlongAxis.of(node, 0, [0])


def _one(default: int) -> Maker:
    return partial(AlongAxis.of, default=default, inputs=[0])


_RULES: dict[str, Maker] = {
    **dict.fromkeys(UNARY, OneInput.of),
    **dict.fromkeys((*BROADCASTS, "PRelu"), Elementwise.of),
    **dict.fromkeys((*REDUCTIONS, "ArgMax", "ArgMin"), Reduced.of),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "TopK"), _one(-1)),
    "Concat": partial(AlongAxis.of, default=0),
    "GatherElements": partial(AlongAxis.of, default=0, inputs=[0, 1]),
    "ScatterElements": partial(AlongAxis.of, default=0, inputs=[0, 1, 2]),
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Tile": _vector,
    "Expand": _vector,
    "CumSum": _cumsum,
    "Resize": Resized.of,
    "QuantizeLinear": quantized,
    "DequantizeLinear": quantized,
    "BatchNormalization": partial(_held, axes=(1,)),
    "InstanceNormalization": partial(_held, axes=(0, 1)),
    "LayerNormalization": _layer_norm,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Gather": Gathered.of,
    "Squeeze": Squeezed.of,
    "Unsqueeze": Unsqueezed.of,
    "Reshape": Reshaped.of,
    "Flatten": Reshaped.of,
    "Shape": Measured.of,
}

PASSED = frozenset(_RULES)
"""The operators that Transposes can pass, or be taken up by."""
