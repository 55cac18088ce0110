"""Pushes Transposes out of the graph, cancels them, and merges what is left.

Formats that keep an image's channels last come to ONNX, whose convolutions want them first, with
Transposes around every convolution. How the fewest are found: :mod:`.search`; which operators they
pass: :mod:`.table`; the graph is made so in :mod:`.rewriting`.
"""

from __future__ import annotations

import onnx_ir
from onnx_ir.passes import PassResult

from converter.ir.edit import count_of
from converter.passes.base import SimplifyingPass

_OPSETS = range(18, 22)
"""The opsets whose operators the rules know."""


class Transposes(SimplifyingPass):
    """Leaves as few Transposes as there can be."""

    name = "transposes"
    summary = "pushes Transposes through what they can pass, and cancels them"
    must_shrink = False  # a Transpose of one element an axis becomes a Reshape

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Rewrites the main graph and its subgraphs, each by itself, in place."""
        if model.opset_imports.get("", 0) not in _OPSETS or not count_of(model, "Transpose"):
            return PassResult(model, modified=False)
        from converter.passes.transposes.rewriting import push_out

        return PassResult(model, push_out(model))
