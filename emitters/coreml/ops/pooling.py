"""MaxPool, AveragePool, and the poolings over all of space."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import number
from converter.ir.edit import is_used
from converter.ir.windows import pooling_window
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.convolution import need_spatial
from emitters.coreml.registry import lowers


def _is_dense(node: onnx_ir.Node, _target: int) -> bool:
    window = pooling_window(node)
    return not is_used(node, 1) and not window.is_dilated and not window.auto


@lowers("MaxPool", legal=_is_dense)
def max_pool(context: Context, node: onnx_ir.Node) -> None:
    """max_pool, of one to three spatial axes; its ``ceil_mode`` wants padding that is the same on
    both sides, so what ceil_mode adds is padding too. Integers of 8 bits are exact in float32."""
    x = context.var(node.inputs[0])
    kind = context.type_of(x)
    x = context.cast(x, "fp32") if kind == "int32" else x
    made = _pooled(context, "max_pool", node, x)
    context.give(node.outputs[0], context.cast(made, kind))


def _counts_alike(node: onnx_ir.Node, _target: int) -> bool:
    """Whether all of its padding counts, or none."""
    window = pooling_window(node)
    alike = not number(node, "count_include_pad", 0) or not any(window.extra)
    return alike and not window.is_dilated and not window.auto


@lowers("AveragePool", legal=_counts_alike)
def average_pool(context: Context, node: onnx_ir.Node) -> None:
    """avg_pool."""
    excluded = not number(node, "count_include_pad", 0)
    x = context.var(node.inputs[0])
    made = _pooled(context, "avg_pool", node, x, exclude_padding_from_average=excluded)
    context.give(node.outputs[0], made)


def _pooled(context: Context, kind: str, node: onnx_ir.Node, x: Var, **more: bool) -> Var:
    """max_pool or avg_pool."""
    need_spatial(node, x)
    window = pooling_window(node)
    return context.op(
        kind,
        x=x,
        kernel_sizes=list(window.kernel),
        strides=list(window.strides),
        pad_type="custom" if window.is_padded else "valid",
        pad=window.pad if window.is_padded else None,
        **more,
    )


_GLOBAL = {"GlobalAveragePool": "reduce_mean", "GlobalMaxPool": "reduce_max"}


@lowers(*_GLOBAL)
def global_pool(context: Context, node: onnx_ir.Node) -> None:
    """reduce_mean or reduce_max over all axes but batch and channels."""
    x = context.var(node.inputs[0])
    axes = list(range(2, len(x.shape)))
    made = context.op(_GLOBAL[node.op_type], x=x, axes=axes, keep_dims=True) if axes else x
    context.give(node.outputs[0], made)
