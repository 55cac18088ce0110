"""What a typed graph asks to be computed in, node by node, read from the graph alone.

A strongly typed network has the graph's own types, so that this is its *requested precision* where
no library is there to parse it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir

from converter.analysis.products import stored_type
from converter.ir.model import Model, dtype_name
from emitters.tensorrt.layers import requested


def requested_by_graph(model: Model, macs: Mapping[str, int]) -> dict[str, Any]:
    """Shares by type of the nodes that have multiply-adds; as :func:`.layers.requested`.

    Args:
        model: The typed graph.
        macs: Multiply-adds by node name.
    """
    layers = [
        {"name": node.name, "kind": "CONVOLUTION", "nodes": [node.name], "type": _type_of(node)}
        for node in model.nodes()
        if node.name in macs
    ]
    return requested(layers, macs)


def _type_of(node: onnx_ir.Node) -> str:
    """int8 where both operands come out of a DequantizeLinear of it; else the first one's type."""
    operands = [value for value in node.inputs[:2] if value is not None]
    stored = {stored_type(value) for value in operands}
    if len(operands) == 2 and len(stored) == 1 and "" not in stored:
        return stored.pop()
    return dtype_name(operands[0].dtype) if operands else ""
