"""A layer behind a layer, and nothing between: one layer.

(x A + a) B + b  =  x (A B) + (a B + b)
"""

from __future__ import annotations

import onnx_ir
from onnx_ir.passes import PassResult

from converter.passes.base import SimplifyingPass
from modelyard_toy.gemm import gemm


class MergeLayers(SimplifyingPass):
    name = "toy-merge"
    summary = "makes one layer of two that have nothing between them"

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Merges every pair, in place."""
        merged = False
        for node in list(model.graph):
            first = node.inputs[0].producer() if node.inputs and node.inputs[0] else None
            before, behind = (gemm(first) if first else None), gemm(node)
            if first is None or before is None or behind is None or _is_used(first.outputs[0]):
                continue
            (matrix, bias), (second, added) = before, behind
            for place, array in enumerate((matrix @ second, bias @ second + added), 1):
                value = onnx_ir.Value(
                    name=f"{node.name}_merged{place}", const_value=onnx_ir.tensor(array)
                )
                model.graph.register_initializer(value)
                node.replace_input_with(place, value)
            node.replace_input_with(0, first.inputs[0])
            node.attributes.clear()
            model.graph.remove(first, safe=True)
            merged = True
        return PassResult(model, merged)


def _is_used(value: onnx_ir.Value) -> bool:
    """Whether anybody but the next layer sees it."""
    return value.is_graph_output() or len(value.uses()) > 1
