"""ConvTranspose: a convolution of pixels whose channels become smaller ones (``subpixels``),
TRANSPOSE_CONV and CONV_3D_TRANSPOSE, or a convolution of what lies further apart.

TFLite's operators take the output's shape and no padding in numbers. What they compute is the whole
of (size - 1) * stride + kernel elements an axis, from which padding is cut; or TensorFlow's SAME,
where that cuts the same. Groups and dilations they don't have:

    y = ConvTranspose(x, W [I, O / g, K])
    is a Conv of x with stride - 1 zeros between elements, with W turned around, [O, I / g, K].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from converter.ir.windows import Window
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.lowering.plans.transposed_windows import TransposedWindow, transposed_window_of
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Quant, Shape, Tensor
from emitters.tflite.ops.convolution import (
    Parts,
    Result,
    convolved,
    in_integers,
    in_reals,
    no_bias,
    parts_of,
    result_of,
    with_row,
)
from emitters.tflite.ops.reals import stored
from emitters.tflite.ops.subpixels import by_subpixels, is_taken
from emitters.tflite.ops.windows import SAME, VALID, lifted, lowered_back
from emitters.tflite.registry import lowers


class Plan(TransposedWindow):
    """A ConvTranspose's numbers, and what TFLite's operators make of them."""

    @property
    def terms(self) -> tuple[int, ...]:
        """What the operator gives over size * stride elements."""
        places = zip(self.reach, self.strides, self.cut, self.added, strict=True)
        return tuple(
            reach - s + (added - cut if self.is_same else max(added, 0))
            for reach, s, cut, added in places
        )

    def lifted(self) -> Plan:
        """With one more axis of one element before the others."""
        return Plan(
            (1, *self.kernel), (1, *self.strides), (1, *self.dilations),
            (0, *self.cut), (0, *self.added),
        )  # fmt: skip

    @property
    def is_same(self) -> bool:
        """Whether TensorFlow's SAME, which gives about size * stride elements, cuts alike."""
        for k, s, cut, added in zip(self.kernel, self.strides, self.cut, self.added, strict=True):
            total = cut - added
            if not max(k - s, 0) <= total < k or total // 2 != cut:
                return False
        return True


@lowers("ConvTranspose", domain=CHANNELS_LAST, integer=True)
def conv_transpose(context: Context, node: onnx_ir.Node) -> None:
    parts, result = parts_of(context, node), result_of(context, node)
    plan = plan_of(node, parts)
    if parts.x.rank == 3:
        weights = with_row(context, parts.weights)
        flat = replace(parts, x=lifted(context, parts.x), weights=weights)
        wide = replace(result, shape=(result.shape[0], 1, *result.shape[1:]))
        made = lowered_back(context, _transposed(context, flat, plan.lifted(), wide))
    elif parts.x.rank in (4, 5):
        made = _transposed(context, parts, plan, result)
    else:
        raise Refused(f"a ConvTranspose of {parts.x.rank - 2} spatial axes: TFLite has up to three")
    context.give(node.outputs[0], made)


def plan_of(node: onnx_ir.Node, parts: Parts) -> Plan:
    dims = parts.x.shape[1:-1]
    window = transposed_window_of(node, dims, parts.weights.shape[2:])
    return Plan(window.kernel, window.strides, window.dilations, window.cut, window.added)


def _transposed(context: Context, parts: Parts, plan: Plan, result: Result) -> Tensor:
    """Of two or three axes."""
    if parts.x.rank == 4 and is_taken(parts, plan, result):
        return by_subpixels(context, parts, plan, result)
    longest = zip(plan.added, plan.strides, strict=True)
    direct = all(d == 1 for d in plan.dilations) and all(a < s for a, s in longest)
    if not direct or parts.groups != 1:
        return _stuffed(context, parts, plan, result)
    order = (1, 0, *range(2, parts.weights.rank))
    weights = build.transpose(context, parts.weights, order, parts.weights.name)
    quant = result.signed if parts.x.rank == 4 else None
    whole = in_integers(context, replace(parts, weights=weights)) if quant is not None else None
    if whole is None:
        quant = None
    operands = whole or in_reals(context, replace(parts, weights=weights))
    made = _kernel(context, operands, plan, result.shape, quant)
    return stored(context, made, result.dtype, result.quant)


# -- the kernels -------------------------------------------------------------------------


def _kernel(
    context: Context, parts: Parts, plan: Plan, shape: Shape, quant: Quant | None
) -> Tensor:
    """TRANSPOSE_CONV with weights [O, H, W, I], or CONV_3D_TRANSPOSE with [D, H, W, O, I]; what
    they give too much is cut."""
    x = parts.x
    op = "TRANSPOSE_CONV" if x.rank == 4 else "CONV_3D_TRANSPOSE"
    outputs = parts.weights.shape[0]
    if isinstance(outputs, str):
        raise Refused(f"weights of a free dimension ({outputs})", "fix it (--input NAME:DIMS)")
    places = zip(x.shape[1:-1], plan.strides, plan.terms, strict=True)
    full = (x.shape[0], *(_linear(size, s, term) for size, s, term in places), outputs)
    perm = (0, 2, 3, 1) if x.rank == 4 else (2, 3, 4, 0, 1)
    weights = build.transpose(context, parts.weights, perm, parts.name)
    bias = parts.bias if parts.bias is not None else no_bias(context, x, weights, outputs)
    names = ("strideH", "strideW") if x.rank == 4 else ("strideD", "strideH", "strideW")
    options = {"padding": SAME if plan.is_same else VALID, "fusedActivationFunction": 0}
    options.update(zip(names, plan.strides, strict=True))
    sizes = _sizes(context, x, plan, full)
    made = context.emit(op, [sizes, weights, x, bias], full, x.dtype, quant=quant, options=options)
    return made if plan.is_same else _cut(context, made, plan, shape)


def _linear(size: int | str, factor: int, term: int) -> int | str:
    return size * factor + term if isinstance(size, int) else f"{size}*{factor}{term:+}"


def _sizes(context: Context, x: Tensor, plan: Plan, full: Shape) -> Tensor:
    """The shape that the operator is to give, int32: an input's size times the stride, and a number
    more."""
    if all(isinstance(dim, int) for dim in full):
        return context.integers(dim for dim in full if isinstance(dim, int))
    pieces = [context.sizes(full[:1])]
    for axis, size in enumerate(x.shape[1:-1]):
        dim, stride = full[axis + 1], plan.strides[axis]
        if isinstance(size, int):
            pieces.append(context.integers([dim] if isinstance(dim, int) else []))
            continue
        times = build.binary(context, "MUL", context.size(size), context.integers([stride]))
        term = context.integers([plan.terms[axis]])
        pieces.append(build.binary(context, "ADD", times, term))
    pieces.append(context.sizes(full[-1:]))
    return context.joined(pieces)


def _cut(context: Context, x: Tensor, plan: Plan, shape: Shape) -> Tensor:
    """Without what padding takes away: a STRIDED_SLICE."""
    ends = [min(a, 0) for a in plan.added]
    if not any(plan.cut) and not any(ends):
        return x
    end = [0, *ends, 0]
    inputs = [
        x,
        context.integers([0, *plan.cut, 0]),
        context.integers(end),
        context.integers([1] * x.rank),
    ]
    options = {
        "beginMask": 0,
        "endMask": sum(1 << axis for axis, last in enumerate(end) if last == 0),
        "ellipsisMask": 0,
        "newAxisMask": 0,
        "shrinkAxisMask": 0,
        "offset": False,
    }
    return context.emit("STRIDED_SLICE", inputs, shape, quant=x.quant, options=options)


# -- as a convolution --------------------------------------------------------------------


def _stuffed(context: Context, parts: Parts, plan: Plan, result: Result) -> Tensor:
    """The convolution of ``x`` with zeros between its elements."""
    x = dilated(context, parts.x, plan.strides)
    before = [reach - 1 - cut for reach, cut in zip(plan.reach, plan.cut, strict=True)]
    after = [reach - 1 + added for reach, added in zip(plan.reach, plan.added, strict=True)]
    if min(before) < 0 or min(after) < 0:
        raise Refused("a ConvTranspose in groups or with dilations that pads more than its kernel")
    ones = (1,) * len(plan.kernel)
    window = Window(plan.kernel, ones, plan.dilations, tuple(before), tuple(after))
    turned = replace(parts, x=x, weights=_turned(parts))
    return convolved(context, turned, window, result)


def dilated(context: Context, x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """A tensor with stride - 1 zeros between elements; for integers, their zero point.

    Args:
        context: Where it goes.
        x: [N, ..., C].
        strides: One for each spatial axis.
    """
    if all(s == 1 for s in strides):
        return x
    inner = [_linear(size, s, 1 - s) for size, s in zip(x.shape[1:-1], strides, strict=True)]
    zero = 0 if x.quant is None else int(x.quant.zero_point[0])
    fill = context.constant(np.asarray(zero, x.dtype.numpy()), quant=x.quant)
    factors = context.integers([1, *strides, 1])
    shape = (x.shape[0], *inner, x.shape[-1])
    return context.emit("DILATE", [x, factors, fill], shape, quant=x.quant)


def _turned(parts: Parts) -> Tensor:
    """[I, O / g, K] as [O, I / g, K], with the kernel turned around."""
    weights, groups = parts.weights, parts.groups
    if weights.data is None:
        raise Refused("a ConvTranspose in groups or with dilations, with computed weights")
    data = np.flip(weights.data, tuple(range(2, weights.rank)))
    inputs, each = data.shape[:2]
    grouped = data.reshape(groups, inputs // groups, each, *data.shape[2:])
    turned = np.ascontiguousarray(grouped.swapaxes(1, 2))
    turned = turned.reshape(groups * each, inputs // groups, *data.shape[2:])
    quant = weights.quant
    if quant is not None and quant.axis is not None:
        if quant.axis != 1:
            raise Refused("weights with scales along the axis of input channels")
        quant = Quant(np.tile(quant.scale, groups), np.tile(quant.zero_point, groups), 0)
    return Tensor(weights.name, tuple(turned.shape), weights.dtype, turned, quant)
