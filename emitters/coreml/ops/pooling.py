"""MaxPool, and the poolings over all of space."""

from __future__ import annotations

from functools import reduce

import numpy as np
import onnx_ir

from converter.ir.edit import is_used
from converter.ir.refused import Refused
from converter.ir.windows import Window, window_of
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.convolution import need_spatial
from emitters.coreml.ops.windows import bordered, settled, under
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY

LONGEST = 64
"""Elements of a kernel along an axis above which there would be too many operations."""


@lowers("MaxPool", legal=lambda node, target: not is_used(node, 1))
def max_pool(context: Context, node: onnx_ir.Node) -> None:
    """max_pool, of one to three spatial axes; its ``ceil_mode`` wants padding that is the same on
    both sides, so what ceil_mode adds is padding too. With dilations, which it hasn't, the maximum
    of slices; integers of 8 bits are exact in float32."""
    x = context.var(node.inputs[0])
    need_spatial(node, x)
    window = pool_window(node, x)
    kind = context.type_of(x)
    x = context.cast(x, "fp32") if kind == "int32" else x
    context.give(node.outputs[0], context.cast(_largest(context, x, window), kind))


def pool_window(node: onnx_ir.Node, x: Var) -> Window:
    return window_of(node, x.shape[2:], list(node.attributes["kernel_shape"].as_ints()))


def smallest(context: Context, x: Var) -> float:
    """The number that no maximum changes by."""
    return float(np.finfo(NUMPY[context.type_of(x)]).min)


def pooled(context: Context, kind: str, x: Var, window: Window, **more: bool) -> Var:
    """max_pool or avg_pool of a window that isn't dilated."""
    return context.op(
        kind,
        x=x,
        kernel_sizes=list(window.kernel),
        strides=list(window.strides),
        pad_type="custom" if window.is_padded else "valid",
        pad=window.pad if window.is_padded else None,
        **more,
    )


def _largest(context: Context, x: Var, window: Window) -> Var:
    if not window.is_dilated:
        x, window = settled(context, x, window, smallest(context, x))
        return pooled(context, "max_pool", x, window)
    x = bordered(context, x, window, smallest(context, x))
    return along_axes(context, "maximum", x, window)


def along_axes(context: Context, kind: str, x: Var, window: Window) -> Var:
    """What lies under the kernel, joined by ``maximum`` or ``add``, axis by axis.

    Args:
        context: Where it is computed.
        kind: MIL's operation.
        x: [N, C, ...], padded.
        window: Its padding isn't looked at.
    """
    if max(window.kernel) > LONGEST:
        raise Refused(f"a dilated pooling of a kernel of {window.kernel}: up to {LONGEST} elements")
    for axis, length in enumerate(window.kernel):
        if length == 1 and window.strides[axis] == 1:
            continue
        slices = [under(context, x, window, axis, place) for place in range(length)]
        x = reduce(lambda a, b: context.op(kind, x=a, y=b), slices)
    return x


_GLOBAL = {"GlobalAveragePool": "reduce_mean", "GlobalMaxPool": "reduce_max"}


@lowers(*_GLOBAL)
def global_pool(context: Context, node: onnx_ir.Node) -> None:
    """reduce_mean or reduce_max over all axes but batch and channels."""
    x = context.var(node.inputs[0])
    axes = list(range(2, len(x.shape)))
    made = context.op(_GLOBAL[node.op_type], x=x, axes=axes, keep_dims=True) if axes else x
    context.give(node.outputs[0], made)
