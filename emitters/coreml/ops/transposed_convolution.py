"""ConvTranspose: conv_transpose."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.convolution import need_spatial, padded, split_bias, with_bias
from emitters.coreml.registry import lowers
from emitters.lowering.plans.transposed_windows import TransposedWindow, transposed_window_of


@lowers("ConvTranspose")
def conv_transpose(context: Context, node: onnx_ir.Node) -> None:
    """conv_transpose: see :mod:`emitters.lowering.plans.transposed_windows`."""
    x, weight = context.var(node.inputs[0]), context.var(node.inputs[1])
    need_spatial(node, x)
    if not weight.is_descendant_of_const and context.target < 17:
        raise Refused("a ConvTranspose with computed weights", "needs --coreml-target iOS17")
    window = transposed_window_of(node, x.shape[2:], weight.shape[2:])
    bias, later = split_bias(context.optional(node, 2), computed=False)
    if any(n > 0 for n in window.added):
        bias, later = None, bias if bias is not None else later
    made = transposed(context, x, weight, bias, window, number(node, "group", 1))
    context.give(node.outputs[0], with_bias(context, made, later))


def transposed(
    context: Context,
    x: Var,
    weight: Var,
    bias: Var | None,
    window: TransposedWindow,
    groups: int,
) -> Var:
    """conv_transpose, then the zeros at the end.

    Args:
        context: Where it goes.
        x: [N, C, ...].
        weight: [C, outputs of a group, kernel...].
        bias: A number for each output channel.
        window: Steps, dilations, and what is cut or added at both ends.
        groups: How many groups of channels there are.
    """
    pairs = zip(window.cut, window.added, strict=True)
    pad = [n for before, added in pairs for n in (before, max(-added, 0))]
    made = context.op(
        "conv_transpose",
        x=x,
        weight=weight,
        bias=bias,
        strides=list(window.strides),
        dilations=list(window.dilations),
        groups=groups,
        pad_type="custom" if any(pad) else "valid",
        pad=pad if any(pad) else None,
    )
    ends = [n for added in window.added for n in (0, max(added, 0))]
    return padded(context, made, [0, 0, 0, 0, *ends])
