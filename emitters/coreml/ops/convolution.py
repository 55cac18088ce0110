"""Conv: conv, of one to three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from converter.ir.attributes import number
from converter.ir.dims import dims_of
from converter.ir.refused import Refused
from converter.ir.windows import Window, free_same, window_of
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers


@lowers("Conv", legal=lambda node, target: not free_same(node, dims_of(node.inputs[0])[2:]))
def convolution(context: Context, node: onnx_ir.Node) -> None:
    """conv. Its ``same`` is described in two ways that differ where strides aren't 1: padding
    goes in numbers.

    Kernels that are computed may not be dilated: zeros are put between their elements.
    """
    x, weight = context.var(node.inputs[0]), context.var(node.inputs[1])
    need_spatial(node, x)
    window = window_of(node, x.shape[2:], weight.shape[2:])
    dilations = window.dilations
    if window.is_dilated and not weight.is_descendant_of_const:
        weight, dilations = spread(context, weight, window), (1,) * len(dilations)
    bias, later = split_bias(context.optional(node, 2), computed=context.target >= 17)
    made = context.op(
        "conv",
        x=x,
        weight=weight,
        bias=bias,
        strides=list(window.strides),
        dilations=list(dilations),
        groups=number(node, "group", 1),
        pad_type="custom" if window.is_padded else "valid",
        pad=window.pad if window.is_padded else None,
    )
    context.give(node.outputs[0], with_bias(context, made, later))


def need_spatial(node: onnx_ir.Node, x: Var) -> None:
    """Refuses what isn't [N, C] and one to three spatial axes."""
    if not 3 <= len(x.shape) <= 5:
        raise Refused(
            f"a {node.op_type} of {len(x.shape) - 2} spatial axes: MIL has those of one to three"
        )


def split_bias(bias: Var | None, *, computed: bool) -> tuple[Var | None, Var | None]:
    """The bias as MIL's parameter, and as what is added afterwards.

    Args:
        bias: [C].
        computed: Whether MIL's may be.
    """
    if bias is None or bias.val is not None or computed:
        return bias, None
    return None, bias


def with_bias(context: Context, x: Var, bias: Var | None) -> Var:
    """``x`` [N, C, ...] and a number for each channel.

    Args:
        context: Where it goes.
        x: [N, C, ...].
        bias: [C]; None leaves ``x`` as it is.
    """
    if bias is None:
        return x
    column = context.op("expand_dims", x=bias, axes=list(range(1, len(x.shape) - 1)))
    return context.op("add", x=x, y=column)


def padded(context: Context, x: Var, pads: Sequence[int]) -> Var:
    """``x`` with zeros around it.

    Args:
        context: Where it goes.
        x: Of floats.
        pads: How many before and after, axis by axis.
    """
    if not any(pads):
        return x
    zero = context.number(0.0, x)
    return context.op("pad", x=x, pad=list(pads), mode="constant", constant_val=zero)


def spread(context: Context, weight: Var, window: Window) -> Var:
    """A kernel with dilation - 1 zeros between its elements, axis by axis:
    [..., k, ...] -> [..., k, 1, rest] -> [..., k, d, rest] -> [..., (k - 1) * d + 1, ...]

    Args:
        context: Where it goes.
        weight: [outputs, inputs, kernel...].
        window: The kernel's sizes and dilations.

    Raises:
        Refused: The weight has a free dimension.
    """
    own = sizing.numbers(weight.shape)
    if own is None:
        raise Refused("a dilated Conv with weights of free dimensions", "fix them (--input)")
    for axis, (k, d, reach) in enumerate(
        zip(window.kernel, window.dilations, window.reach, strict=True), 2
    ):
        if d == 1 or k == 1:
            continue
        lead, rest = int(sizing.product(context, own[:axis])), own[axis + 1 :]
        tail = int(sizing.product(context, rest))
        apart = sizing.reshape(context, weight, [lead, k, 1, tail])
        apart = padded(context, apart, [0, 0, 0, 0, 0, d - 1, 0, 0])
        whole = sizing.reshape(context, apart, [lead, k * d, tail])
        cut = context.op("slice_by_size", x=whole, begin=[0, 0, 0], size=[lead, reach, tail])
        own = [*own[:axis], reach, *rest]
        weight = sizing.reshape(context, cut, own)
    return weight
