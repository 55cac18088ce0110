"""Makes a pool of a mean over the height and width of images.

    ReduceMean(x, axes=[2, 3])    ->    GlobalAveragePool(x), and a Flatten without keepdims

Both are the same mean (ONNX's operator pages). Targets compute GlobalAveragePool in int8, few of
them ReduceMean; so the tail of a network that classifies images can stay in integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from converter.ir.edit import attribute_int, integers, static_shape
from converter.passes.fuse.patterns import Edit, Rule, input_of

_RANK = 4
"""Of images: not every target pools anything else, as the groups of a normalization."""


@dataclass(frozen=True)
class Mean:
    """A mean over axes of an image.

    Attributes:
        node: The ReduceMean.
        source: What it is of.
        axes: Over which, counted from 0.
    """

    node: onnx_ir.Node
    source: onnx_ir.Value
    axes: frozenset[int]


class MeanOfImage(Rule[Mean]):
    """ReduceMean over all axes but batch and channels."""

    name = "mean-of-image"
    roots = frozenset({"ReduceMean"})

    def pattern(self, node: onnx_ir.Node) -> Mean | None:
        """A mean over known axes of something with as many as an image, the last among them."""
        source, axes = node.inputs[0], integers(input_of(node, 1))
        shape = static_shape(source)
        if source is None or shape is None or len(shape) != _RANK or not axes:
            return None
        found = frozenset(axis % _RANK for axis in axes)
        return Mean(node, source, found) if _RANK - 1 in found else None

    def check(self, match: Mean) -> str:
        """GlobalAveragePool takes floats, and pools everything but batch and channels."""
        if match.axes != {2, 3}:
            return f"it is over the axes {sorted(match.axes)}, a pool over [2, 3]"
        dtype = match.source.dtype
        if dtype not in (onnx_ir.DataType.FLOAT, onnx_ir.DataType.FLOAT16, onnx_ir.DataType.DOUBLE):
            return f"GlobalAveragePool takes no {dtype}"
        return ""

    def rewrite(self, match: Mean, edit: Edit) -> None:
        """The pool under the mean's name; without keepdims, the axes of size 1 go away again."""
        pool = onnx_ir.node("GlobalAveragePool", [match.source])
        if attribute_int(match.node, "keepdims", 1):
            edit.replace(match.node, pool)
            return
        pooled = edit.insert(match.node, pool)
        dims = list(match.source.shape or ())[:2]
        pooled.type = match.source.type
        pooled.shape = onnx_ir.Shape([*dims, 1, 1])
        edit.replace(match.node, onnx_ir.node("Flatten", [pooled], {"axis": 1}))
