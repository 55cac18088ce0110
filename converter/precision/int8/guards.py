"""Keeps what is to stay in float32 in float32.

ONNX Runtime quantizes by itself (``weight_bias_quantization.cc``): a Conv, ConvTranspose or Gemm
with float weights, a DQ in front and a Q behind gets int8 weights with one scale for all channels.
That is coarser than int8 ever was in the layer that was to be the exact one.

    Given:   Q(Clip(Conv(DQ(x), w, b)))
    Result:  Q(Clip(LeakyRelu(Conv(DQ(x), w, b), alpha=1)))

A LeakyRelu of slope 1 changes no number, ends that match, and is merged into the convolution.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir

from converter.ir.edit import is_op
from converter.precision.int8.scheme import CLIPPING_OPS
from converter.precision.int8.units import sole_use

_OPS = ("Conv", "ConvTranspose", "Gemm")


def guard_kept(graph: onnx_ir.Graph, leave: Collection[str] = ()) -> list[str]:
    """Puts guards behind operators in float32 between DQ and Q, in place.

    Args:
        graph: With Q and DQ.
        leave: Names of nodes to pass over.

    Returns:
        The names of the nodes that have one now.
    """
    guarded = []
    for node in list(graph):
        if is_op(node, *_OPS) and node.name not in leave and _would_match(node):
            _guard(graph, node)
            guarded.append(node.name or "")
    return guarded


def _would_match(node: onnx_ir.Node) -> bool:
    first, weight = node.inputs[:2]
    if first is None or not is_op(first.producer(), "DequantizeLinear"):
        return False
    if weight is None or is_op(weight.producer(), "DequantizeLinear"):
        return False
    after = sole_use(node.outputs[0])
    while after is not None and is_op(after, *CLIPPING_OPS):
        after = sole_use(after.outputs[0])
    return is_op(after, "QuantizeLinear")


def _guard(graph: onnx_ir.Graph, node: onnx_ir.Node) -> None:
    value = node.outputs[0]
    uses = list(value.uses())
    guard = onnx_ir.node("LeakyRelu", [value], {"alpha": 1.0}, name=f"{node.name}_guard")
    result = guard.outputs[0]
    result.name = f"{value.name}_guarded"
    result.type, result.shape = value.type, value.shape
    graph.insert_after(node, guard)
    for use in uses:
        use.node.replace_input_with(use.idx, result)
